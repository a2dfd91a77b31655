"""Stanford Online Products, whole or in part."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labkit.datasets.catalogue import Catalogue, find_folder, read_lines
from labkit.datasets.registry import registry
from labkit.errors import LabError

LISTS = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}
HALF = 11_318  # class ids up to this one are trained on


def read_sop(root: Path) -> Catalogue:
    """List Stanford Online Products as `Stanford_Online_Products.zip` unpacks under `root`.

    `Ebay_train.txt` and `Ebay_test.txt` name the pictures with their class ids (1 ... 11,318 and 11,319 ... 22,634).

    Raises
    ------
    LabError : not there, or a line that is not "image id, class id, super class id, path".
    """
    entry = registry()["sop"]
    folder = find_folder(root, (entry.folder, "SOP", "."), tuple(LISTS.values()), "sop", entry.how_to_get)
    files, labels, parts = [], [], []
    for part, listing in LISTS.items():
        if not (folder / listing).is_file():
            continue
        for number, line in enumerate(read_lines(folder / listing)[1:], start=2):
            fields = line.split()
            if len(fields) != 4 or not fields[1].isdigit():
                raise LabError(f"{folder / listing}, line {number}", "image id, class id, super class id, path", repr(line))
            if not (folder / fields[3]).parent.is_dir():
                continue  # a copy of some kinds of article only
            files.append(fields[3])
            labels.append(int(fields[1]))
            parts.append(part)
    names = {label: f"{Path(name).parent.name.removesuffix('_final')} {label}" for name, label in zip(files, labels)}
    return Catalogue(
        "sop", folder, tuple(files), np.array(labels, dtype=np.int64), dict(sorted(names.items())),
        np.array(parts, dtype=np.str_), numbering=HALF, published=entry.splits,
    )  # fmt: skip
