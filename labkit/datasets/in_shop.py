"""In-shop Clothes Retrieval (DeepFashion): queries are looked up in a gallery of other pictures of the same items."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from labkit.datasets.catalogue import Catalogue, find_folder, read_lines
from labkit.datasets.registry import registry
from labkit.errors import LabError

PARTITION = "list_eval_partition.txt"
PLACES = ("In-shop Clothes Retrieval Benchmark", "DeepFashion/In-shop Clothes Retrieval Benchmark", "in-shop", "inshop", ".")


def read_in_shop(root: Path) -> Catalogue:
    """List In-shop as its owners' archives unpack under `root`.

    `Eval/list_eval_partition.txt` (or the file beside `Img/`) names picture, item and part: train, query or gallery.
    Pictures lie under `img/` or `Img/img/`. An item's id is the number in `id_00000002`.

    Raises
    ------
    LabError : not there, or a line that is not "picture, item, part".
    """
    entry = registry()["in-shop"]
    folder = find_folder(root, PLACES, (f"Eval/{PARTITION}", PARTITION), "in-shop", entry.how_to_get)
    listing = next(path for path in (folder / "Eval" / PARTITION, folder / PARTITION) if path.exists())
    below = "Img/" if (folder / "Img" / "img").is_dir() else ""
    files, labels, parts = [], [], []
    for number, line in enumerate(read_lines(listing)[2:], start=3):  # a count and a line of column names come first
        fields = line.split()
        item = re.fullmatch(r"id_(\d+)", fields[1]) if len(fields) == 3 else None
        if item is None or fields[2] not in ("train", "query", "gallery"):
            raise LabError(f"{listing}, line {number}", "picture, item such as id_00000002, part", repr(line))
        files.append(below + fields[0])
        labels.append(int(item[1]))
        parts.append(fields[2])
    names = {label: f"item {label}" for label in sorted(set(labels))}
    return Catalogue(
        "in-shop", folder, tuple(files), np.array(labels, dtype=np.int64), names, np.array(parts, dtype=np.str_),
        published=entry.splits,
    )  # fmt: skip
