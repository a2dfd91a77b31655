"""Where data lies: one folder, found by three rules."""

from __future__ import annotations

import os
from pathlib import Path

from labkit.errors import LabError

VARIABLE = "LABKIT_DATA"
CACHE_VARIABLE = "LABKIT_CACHE"


def data_root() -> Path:
    """The folder that data sets are read from and downloaded to.

    The environment variable LABKIT_DATA if it is set, else `data/` of the checkout that labkit runs from, else the
    user's cache folder. The folder need not exist yet: a download makes it.

    Returns
    -------
    Path : absolute.

    Raises
    ------
    LabError : LABKIT_DATA names something that is not a folder, or begins with ~ and a user that is not there.
    """
    named = _named_folder(VARIABLE)
    if named is not None:
        return named
    source = checkout()
    return source / "data" if source is not None else _user_cache()


def cache_root() -> Path:
    """The folder for what can be computed again: decoded pictures, features of frozen networks.

    The environment variable LABKIT_CACHE if it is set, else the user's cache folder. Made when something is kept.

    Raises
    ------
    LabError : LABKIT_CACHE names something that is not a folder, or begins with ~ and a user that is not there.
    """
    return _named_folder(CACHE_VARIABLE) or _user_cache()


def _named_folder(variable: str) -> Path | None:
    """The folder that an environment variable names, absolute; None where it is not set."""
    named = os.environ.get(variable, "").strip()
    if not named:
        return None
    try:
        root = Path(named).expanduser().absolute()
    except RuntimeError as error:  # no such user, or one without a home
        raise LabError(variable, "a folder", repr(named), "There is no such home folder; write it out.") from error
    if root.exists() and not root.is_dir():
        raise LabError(variable, "a folder", f"{root}, which is a file")
    return root


def _user_cache() -> Path:
    import pooch

    return Path(pooch.os_cache("labkit")).absolute()


def name_root(root: Path) -> str:
    """`root` in words that hold on any machine, for the line that tells which data is in use."""
    if os.environ.get(VARIABLE, "").strip() and root == data_root():
        return VARIABLE
    source = checkout()
    if source is not None and root == source / "data":
        return "data/ of the checkout"
    return "the cache folder" if root == data_root() else f"the folder {root.name}"


def checkout() -> Path | None:
    """The folder of the source checkout that labkit runs from; None where it is installed elsewhere."""
    top = Path(__file__).absolute().parents[2]
    return top if (top / "pyproject.toml").is_file() and (top / "labkit").is_dir() else None


def recorded_folder(part: str) -> Path:
    """`data/PART` of the checkout: what this project recorded itself and ships with its source.

    Raises
    ------
    LabError : labkit runs from an installed package without a checkout.
    """
    top = checkout()
    if top is None:
        raise LabError(part, "labkit run from its checkout", "an installed package", "Clone the repository.")
    return top / "data" / part
