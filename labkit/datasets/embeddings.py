"""Somebody's own embeddings and labels, read from an npz or csv file."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.errors import LabError
from labkit.files import storage_error
from labkit.validation import check_embeddings, check_labels, check_path

LABEL_COLUMNS = ("label", "labels", "class")
NAMELESS = re.compile(r"(unnamed: [0-9]+)?")  # what pandas calls a column that was saved without a name


def read_embeddings(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor, list[str]]:
    """Read embeddings with their labels.

    An **npz** file holds the arrays `embeddings` (n, D) and `labels` (n,). A **csv** file has one row, on one line, per
    sample: numbers and a label. Its first line may name the columns, one of them `label` (or `labels`, or `class`);
    without such a line the label is in the last column. Labels are whole numbers or text that is not empty; in a csv file
    a label with a zero in front is text, and another class than the number: 01 is not 1, as in `read_table`.

    Returns
    -------
    (embeddings, labels, class_names) : float32 (n, D), or float64 for floats of 64 bits and more and for whole numbers beyond
        2**24; int64 (n,), 0 … C - 1; the C labels as text, sorted (as numbers where all are whole numbers).

    Raises
    ------
    LabError : no path, no such file, another kind of file, damaged, not numbers, whole numbers beyond 2**53, shapes that
        disagree, NaN or infinity, a row without a label, column names without one for the label, or with one that is empty.
    """
    where = check_path("path", path)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if where.suffix.lower() not in readers:
        raise LabError(str(path), "a file ending in .npz or .csv", f"one ending in {where.suffix or 'nothing'}")
    try:
        if not where.is_file():
            raise LabError(str(path), "a file", "a folder" if where.is_dir() else "nothing there")
        embeddings, raw_labels = readers[where.suffix.lower()](where)
    except OSError as error:
        raise storage_error(path, error, reading=True) from error
    tensor = check_embeddings("embeddings", torch.from_numpy(np.ascontiguousarray(_as_torch_has_them(embeddings))))
    if raw_labels.ndim != 1 or len(raw_labels) != len(tensor):
        raise LabError("labels", f"one label per embedding, shape ({len(tensor)},)", f"shape {raw_labels.shape}")
    names, numbers = np.unique(raw_labels, return_inverse=True)
    return (
        tensor,
        check_labels("labels", torch.from_numpy(numbers.astype(np.int64)), len(tensor)),
        [str(n) for n in names],
    )


def _as_torch_has_them(embeddings: NDArray[np.number[Any]]) -> NDArray[np.floating[Any]]:
    """As float32 or float64, whichever holds them; two whole numbers never become one."""
    if embeddings.dtype.kind == "f":  # by size: 64 bits may stand in the other byte order, and there are floats of more
        return embeddings.astype(np.float64 if embeddings.dtype.itemsize >= 8 else np.float32, copy=False)
    largest = max(abs(int(embeddings.max())), abs(int(embeddings.min()))) if embeddings.size else 0
    if largest > 2**53:
        hint = "Subtract the smallest of each column: distances stay the same."
        raise LabError("embeddings", "whole numbers of at most 2**53 in magnitude", largest, hint)
    return embeddings.astype(np.float64 if largest > 2**24 else np.float32)


def _read_npz(path: Path) -> tuple[NDArray[np.floating], NDArray[Any]]:
    embeddings, labels = _arrays_of(path)
    if embeddings.dtype.kind not in "fiu":
        raise LabError("embeddings", "real numbers", f"dtype {embeddings.dtype}")
    if labels.dtype.kind == "f":
        labels = _whole(labels)
    if labels.dtype.kind not in "iuUS":
        raise LabError("labels", "whole numbers or text", f"dtype {labels.dtype}")
    if labels.dtype.kind in "US" and labels.size and not np.char.str_len(labels).all():
        empty = int(np.flatnonzero(np.char.str_len(labels) == 0)[0])
        raise LabError("labels", "a label for every embedding", f"an empty text at index {empty}")
    return embeddings, labels


def _arrays_of(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """The arrays `embeddings` and `labels` of an npz file, of whatever shape and dtype."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise LabError(str(path), "an npz file with embeddings and labels", "one array alone", "Use numpy.savez.")
        with loaded as file:
            if not {"embeddings", "labels"} <= set(file.files):
                raise LabError(str(path), "arrays named embeddings and labels", ", ".join(file.files) or "no arrays")
            arrays = file["embeddings"], file["labels"]
    except (LabError, OSError):
        raise
    except ValueError as error:
        raise LabError(str(path), "arrays of numbers or text", str(error)) from error
    except Exception as error:  # what one wrong byte makes zipfile, zlib and NumPy raise has no common class
        raise LabError(str(path), "a whole npz file", f"a damaged one ({type(error).__name__}: {error})") from error
    if not all(isinstance(array, np.ndarray) for array in arrays):  # NumPy gives the bytes of what is no array
        raise LabError(str(path), "arrays named embeddings and labels", "a damaged file: other bytes under these names")
    return arrays


def _whole(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers that were saved as floats, as integers; exact up to 2**53, and no float labels lie beyond."""
    bad = ~((np.abs(labels) <= 2.0**53) & (labels == np.round(labels)))
    if bad.any():
        raise LabError("labels", "whole numbers or text", f"{labels[bad][0]} (dtype {labels.dtype})")
    return labels.astype(np.int64)


def _read_csv(path: Path) -> tuple[NDArray[np.floating], NDArray[Any]]:
    rows = _rows_of(path)
    header = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    column = _label_column(path, header)
    body = rows if column is None else rows[1:]
    width, place = len(header), -1 % max(len(header), 1) if column is None else column
    if not body or width < 2:
        raise LabError(str(path), "rows with at least one number and a label", f"{len(rows)} rows of {width} columns")
    numbers, labels = [], []
    for line, row in body:
        if len(row) != width:
            raise LabError(f"{path}, row {line}", f"{width} columns", f"{len(row)}")
        label = row[place].strip()
        if not label:
            raise LabError(f"{path}, row {line}", "a label", "an empty cell")
        try:
            numbers.append([float(cell) for i, cell in enumerate(row) if i != place])
        except ValueError as error:
            raise LabError(f"{path}, row {line}", "numbers beside the label", str(error)) from error
        labels.append(label)
    # Python refuses to read numbers of more than 4300 digits. Objects, because NumPy makes floats of large integers.
    whole = all(re.fullmatch(r"0|-?[1-9][0-9]{0,3999}", label) for label in labels)
    return np.array(numbers), np.array([int(label) for label in labels] if whole else labels, dtype=object)


def _rows_of(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its line."""
    rows, end = [], 0
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                begin, end = end + 1, reader.line_num
                if end > begin:  # a quote that is closed rows later has swallowed them
                    raise LabError(f"{path}, row {begin}", "one row on one line", f"one that ends on line {end}",
                                   "Look for a quotation mark that is not closed.")  # fmt: skip
                if row:
                    rows.append((begin, row))
    except (UnicodeDecodeError, csv.Error) as error:
        hint = "Look for a quotation mark that is not closed." if "end of data" in str(error) else ""
        where = str(path) if isinstance(error, UnicodeDecodeError) else f"{path}, row {end + 1}"
        raise LabError(where, "comma-separated text in UTF-8", str(error), hint) from error
    return rows


def _label_column(path: Path, first: list[str]) -> int | None:
    """Which column the first line calls the label; None where it is no line of names but a sample."""
    named = [i for i, cell in enumerate(first) if cell in LABEL_COLUMNS]
    if len(named) > 1:
        raise LabError(str(path), "one label column", f"{len(named)}: {', '.join(first[i] for i in named)}")
    if not named and first and not _is_number(first[0]):
        raise LabError(str(path), "a column named label, or no line of names", f"the names {', '.join(first)[:80]}",
                       "Call the label's column label, or leave the names out and put the label last.")  # fmt: skip
    if named and (bare := [i for i, cell in enumerate(first) if NAMELESS.fullmatch(cell)]):
        raise LabError(str(path), "a name for every column", f"none for column {bare[0] + 1}",
                       "pandas writes the numbers of rows there: save with to_csv(..., index=False).")  # fmt: skip
    return named[0] if named else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
