"""Any folder of pictures, one folder a class, or a CSV file that lists them."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labkit.datasets.catalogue import PARTS, Catalogue, halves, is_picture
from labkit.errors import LabError
from labkit.files import storage_error
from labkit.validation import check_path

COLUMNS = ("path", "label", "split")
NUMBER = re.compile(r"0|-?[1-9][0-9]{0,16}")  # as Python writes them, so that no two are one number


def read_folder(path: str | os.PathLike[str]) -> Catalogue:
    """List a folder in which each class has a folder of its own (with folders of its own inside, if it likes).

    Where all folders are called train and test (or query and gallery), the classes are inside these. Otherwise the
    first half of the classes in alphabetical order is for training, the second for tests. Hidden files and files
    without a picture's ending are passed over; class ids count from 0 in alphabetical order. A class's folder may be a
    link to elsewhere.

    Raises
    ------
    LabError : no path, no such folder, no picture in it, one in it that may not be read, fewer than two classes, a class in
        both halves, a link to a folder whose pictures are listed already.
    """
    folder = check_path("path", path)
    if not is_kind(Path.is_dir, folder):
        raise LabError(str(path), "a folder of pictures", "a file" if folder.exists() else "nothing there")
    split = only_parts(folder) and (folder / "train").is_dir()
    places = class_folders(folder, split)
    classes = sorted({name for _, name, _ in places})
    ids = {name: number for number, name in enumerate(classes)}
    files, labels, where = [], [], []
    for part, name, place in places:
        for picture in pictures_in(place):
            files.append(picture.relative_to(folder).as_posix())
            labels.append(ids[name])
            where.append(part)
    if not files:
        raise LabError(str(path), "pictures in folders, one folder a class", "none")
    numbers = np.array(labels, dtype=np.int64)
    return Catalogue(
        folder.absolute().name, folder, tuple(files), numbers, dict(enumerate(classes)),
        np.array(where, dtype=np.str_) if split else halves(numbers),
    )  # fmt: skip


def only_parts(folder: Path) -> bool:
    """Whether a folder's folders are all called train, test, query or gallery, so that classes are inside these."""
    return set() < set(_folders(folder)) <= set(PARTS)


def class_folders(folder: Path, split: bool) -> list[tuple[str, str, Path]]:
    """(part, class, place) of each folder of a class, or of each inside a part where `split`; links are followed.

    Raises
    ------
    LabError : a link to a folder whose pictures are listed already.
    """
    parts = [(part, folder / part) for part in _folders(folder)] if split else [("", folder)]
    found = [(part, name, place / name) for part, place in parts for name in _folders(place)]
    _check_apart(folder, [place for _, _, place in found])
    return found


def every_picture(folder: Path) -> list[Path]:
    """Those of `read_folder`, and those that lie beside the folders of the classes.

    Raises
    ------
    LabError : a link to a folder whose pictures are listed already.
    """
    split = only_parts(folder)
    beside = [folder, *((folder / part) for part in _folders(folder) if split)]
    found = [picture for place in beside for picture in pictures_in(place, deep=False)]
    return found + [picture for _, _, place in class_folders(folder, split) for picture in pictures_in(place)]


def pictures_in(place: Path, *, deep: bool = True) -> list[Path]:
    """The pictures in a folder and, if `deep`, in those inside it, sorted; what is hidden is passed over.

    Raises
    ------
    LabError : a folder that may not be read: left out, it would be a class less, and the halves would be others.
    """

    def told(error: OSError) -> None:
        raise storage_error(error.filename or place, error, reading=True) from error

    found: list[Path] = []
    for folder, inside, names in os.walk(place, onerror=told):
        inside[:] = [name for name in inside if deep and not name.startswith(".")]
        found += [Path(folder, name) for name in names if is_picture(name) and is_kind(Path.is_file, Path(folder, name))]
    return sorted(found)


def read_table(path: str | os.PathLike[str]) -> Catalogue:
    """List the pictures of a CSV file with the columns `path`, `label` and, if wanted, `split`.

    Paths are absolute, or relative to the file's folder and inside of it. Labels are any text (sorted as numbers where all
    are whole numbers without a zero in front, which then are the ids as they are: 01 is text, and another class than 1).
    `split` is train, test, query or gallery; without it the first half of the classes is for training.

    Raises
    ------
    LabError : no path, no such file, no table, a column missing or there twice; by its number, a line with more cells than
        columns, without a path or label, with a path that climbs out of the folder, or with an unknown split.
    """
    table = check_path("path", path)
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = [name.strip().lower() for name in reader.fieldnames or []]
            if not {"path", "label"} <= set(columns):
                raise LabError(str(path), f"the columns {', '.join(COLUMNS[:2])} (and split)", ", ".join(columns) or "none")
            if twice := [name for name in COLUMNS if columns.count(name) > 1]:
                raise LabError(str(path), "every column once", f"{twice[0]} {columns.count(twice[0])} times")
            reader.fieldnames = columns
            rows = [(number, _row(path, number, row)) for number, row in enumerate(reader, 2)]
    except UnicodeDecodeError as error:
        raise LabError(str(path), "text in UTF-8", str(error)) from error
    except csv.Error as error:
        raise LabError(f"{path}, line {reader.line_num + 1}", "a line of a table", str(error)) from error
    except OSError as error:
        raise storage_error(path, error, reading=True) from error
    for number, row in rows:
        if not row["path"] or not row["label"] or row["split"] not in ("", *PARTS):
            raise LabError(f"{path}, line {number}", "a path, a label, and train, test, query or gallery", str(row))
    if not rows:
        raise LabError(str(path), "at least one picture", "none")
    ids, names = _numbered([row["label"] for _, row in rows])
    wanted = [row["split"] for _, row in rows]
    if any(wanted) and not all(wanted):
        raise LabError(str(path), "a split for every line, or for none", f"{sum(map(bool, wanted))} of {len(wanted)} lines")
    return Catalogue(
        table.stem, table.absolute().parent, tuple(row["path"] for _, row in rows), ids, names,
        np.array(wanted, dtype=np.str_) if all(wanted) else halves(ids),
    )  # fmt: skip


def _row(path: str | os.PathLike[str], number: int, row: dict[str | None, Any]) -> dict[str, str]:
    """The cells that count of a line of the table."""
    if None in row:
        expected, hint = "as many cells as there are columns", "A comma inside a cell needs quotation marks around the cell."
        raise LabError(f"{path}, line {number}", expected, f"{len(row[None])} more: {row[None][0]!r}"[:80], hint)
    cells = {key: (row.get(key) or "").strip() for key in COLUMNS}
    if "\0" in cells["path"]:
        raise LabError(f"{path}, line {number}", "the name of a file", repr(cells["path"])[:80])
    if not os.path.isabs(cells["path"]) and Path(os.path.normpath(cells["path"])).parts[:1] == ("..",):
        hint = "Give an absolute path for a picture that lies elsewhere."
        raise LabError(f"{path}, line {number}", "a path inside of the table's folder", repr(cells["path"])[:80], hint)
    return cells


def _numbered(labels: list[str]) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], dict[int, str]]:
    """Ids for labels of text: the numbers themselves where all are, else their rank in alphabetical order."""
    if all(NUMBER.fullmatch(label) for label in labels):
        ids = np.array([int(label) for label in labels], dtype=np.int64)
        return ids, {int(i): str(i) for i in np.unique(ids)}
    names = sorted(set(labels))
    rank = {name: number for number, name in enumerate(names)}
    return np.array([rank[label] for label in labels], dtype=np.int64), dict(enumerate(names))


def _check_apart(folder: Path, classes: list[Path]) -> None:
    """Refuse classes of which one holds the pictures of another, or of all: a link may lead there."""
    owners: dict[Path, Path] = {}
    real = [Path(os.path.realpath(place)) for place in classes]
    for place, target in zip(classes, real, strict=True):
        first = owners.setdefault(target, place)
        if first.name != place.name:
            _refuse_link(place, first)
    root = Path(os.path.realpath(folder))
    for place, target in zip(classes, real, strict=True):
        if target in (root, *root.parents):
            _refuse_link(place, folder)
        for above in target.parents:
            if above in owners:
                _refuse_link(place, owners[above])


def _refuse_link(place: Path, other: Path) -> None:
    got = f"{os.path.realpath(place)}, which it shares with {other}"
    raise LabError(str(place), "a folder of pictures that belong to this class alone", got, "One of them is a link: remove it.")


def _folders(place: Path) -> list[str]:
    try:
        inside = os.listdir(place)
    except OSError as error:
        raise storage_error(place, error, reading=True) from error
    return sorted(name for name in inside if not name.startswith(".") and is_kind(Path.is_dir, place / name))


def is_kind(kind: Callable[[Path], bool], path: Path) -> bool:
    """Whether `path` is of that kind, which cannot be seen in a folder that may not be entered: then a LabError."""
    try:
        return kind(path)
    except OSError as error:
        raise storage_error(path, error, reading=True) from error
