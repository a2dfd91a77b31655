"""Caltech-UCSD Birds-200-2011, whole or in part."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from labkit.datasets.catalogue import Catalogue, find_folder, is_picture, read_lines
from labkit.datasets.registry import registry
from labkit.errors import LabError

HALF = 100  # class ids up to this one are trained on


def read_cub(root: Path) -> Catalogue:
    """List CUB-200-2011 as `CUB_200_2011.tgz` unpacks under `root`.

    The class of a picture is the number its folder's name begins with (`001.Black_footed_Albatross`), so that a copy of
    some classes only keeps the official ids. Classes 1 ... 100 are for training, 101 ... 200 for tests. `images.txt`, where
    it is there, decides which pictures belong to it, and in which order; else all that lie under `images/`.

    Raises
    ------
    LabError : not there, a line of images.txt or a folder's name that cannot be read.
    """
    entry = registry()["cub"]
    folder = find_folder(root, (entry.folder,), ("images", "images.txt"), "cub", entry.how_to_get)
    if (folder / "images.txt").is_file():
        names = [line.split(maxsplit=1)[-1].strip() for line in read_lines(folder / "images.txt")]
    else:
        names = sorted(p.relative_to(folder / "images").as_posix() for p in (folder / "images").rglob("*") if is_picture(p.name))
    folders = {path.name for path in (folder / "images").iterdir() if path.is_dir()} if (folder / "images").is_dir() else set()
    # The official list beside a copy of some classes: what it says of the others is no picture gone astray.
    names = [name for name in names if name.partition("/")[0] in folders]
    class_names = dict(sorted(_class_of(folder, name) for name in {name.partition("/")[0] for name in names} | folders))
    labels = np.array([_class_of(folder, name.partition("/")[0])[0] for name in names], dtype=np.int64)
    parts = np.where(labels <= HALF, "train", "test")
    files = tuple(f"images/{name}" for name in names)
    return Catalogue("cub", folder, files, labels, class_names, parts, numbering=HALF, published=entry.splits)


def _class_of(folder: Path, name: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d+)\.(.+)", name)
    if match is None:
        raise LabError(str(folder / "images"), "folders named like 001.Black_footed_Albatross", repr(name))
    return int(match[1]), match[2].replace("_", " ")
