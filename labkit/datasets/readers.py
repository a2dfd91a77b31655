"""The image data sets by name, and any folder or CSV file by its path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from labkit.datasets.cars import read_cars
from labkit.datasets.catalogue import Catalogue
from labkit.datasets.cub import read_cub
from labkit.datasets.folder import is_kind, read_folder, read_table
from labkit.datasets.in_shop import read_in_shop
from labkit.datasets.roots import data_root
from labkit.datasets.sop import read_sop
from labkit.errors import LabError
from labkit.validation import check_path

READERS: dict[str, Callable[[Path], Catalogue]] = {
    "cub": read_cub,
    "cars": read_cars,
    "sop": read_sop,
    "in-shop": read_in_shop,
}


def read_catalogue(source: str | os.PathLike[str], root: Path | None = None) -> Catalogue:
    """List the pictures of a data set; opens none of them.

    Parameters
    ----------
    source : "cub", "cars", "sop", "in-shop", a folder with one folder a class, or a CSV file (path, label, split).
    root : the data root; None for `data_root()`. Only the four names read it.

    Returns
    -------
    Catalogue : `remarks()` says what is missing from it.

    Raises
    ------
    LabError : not there (the message says how to get it), or lists that cannot be read.
    """
    path = check_path("data.source", source)
    name = os.fspath(source)
    if name in READERS:
        return READERS[name](data_root() if root is None else check_path("root", root))
    if is_kind(Path.is_dir, path):
        return read_folder(path)
    if path.suffix.lower() == ".csv":
        return read_table(path)
    known = ", ".join(READERS)
    raise LabError("data.source", f"one of {known}, a folder of pictures, or a CSV file", f"{name!r}, which is not there")


def state_of(name: str, root: Path) -> str:
    """Whether one of the four is under `root`, in a few words: "here", what part of it, or how to get it."""
    try:
        shortfall = READERS[name](root).shortfall()
    except LabError as error:
        return f"not here. {error.hint}" if error.hint else f"damaged: {error}"
    return f"a part is here: {shortfall}" if shortfall else "here"
