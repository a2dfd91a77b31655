"""Somebody's own embeddings and labels, read from an npz or csv file."""

from __future__ import annotations

import csv
import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.errors import LabError
from labkit.files import storage_error
from labkit.validation import check_embeddings, check_labels

LABEL_COLUMNS = ("label", "labels", "class")


def read_embeddings(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor, list[str]]:
    """Read embeddings with their labels.

    An **npz** file holds the arrays `embeddings` (n, D) and `labels` (n,). A **csv** file has one row per sample:
    numbers and, in the column that its first line calls `label` (else in the last column), the label. Labels may be
    text.

    Returns
    -------
    (embeddings, labels, class_names) : float32 or float64 (n, D); int64 (n,), 0 … C - 1; the C labels as text, sorted
        (as numbers where
    all are whole numbers).

    Raises
    ------
    LabError : no such file, another kind of file, damaged, not numbers, shapes that disagree, NaN or infinity.
    """
    where = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if where.suffix.lower() not in readers:
        raise LabError(str(path), "a file ending in .npz or .csv", f"one ending in {where.suffix or 'nothing'}")
    if not where.is_file():
        raise LabError(str(path), "a file", "a folder" if where.is_dir() else "nothing there")
    try:
        embeddings, raw_labels = readers[where.suffix.lower()](where)
    except OSError as error:
        raise storage_error(path, error) from error
    wide = embeddings.astype(np.float64 if embeddings.dtype == np.float64 else np.float32, copy=False)
    tensor = check_embeddings("embeddings", torch.from_numpy(np.ascontiguousarray(wide)))
    if raw_labels.ndim != 1 or len(raw_labels) != len(tensor):
        raise LabError("labels", f"one label per embedding, shape ({len(tensor)},)", f"shape {raw_labels.shape}")
    names, numbers = np.unique(raw_labels, return_inverse=True)
    return (
        tensor,
        check_labels("labels", torch.from_numpy(numbers.astype(np.int64)), len(tensor)),
        [str(n) for n in names],
    )


def _read_npz(path: Path) -> tuple[NDArray[np.floating], NDArray[np.generic]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = {"embeddings", "labels"} - set(file.files)
            if missing:
                raise LabError(str(path), "arrays named embeddings and labels", ", ".join(file.files) or "no arrays")
            embeddings, labels = file["embeddings"], file["labels"]
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise LabError(str(path), "a whole npz file", f"a damaged one ({error})") from error
    except ValueError as error:
        if isinstance(error, LabError):
            raise
        raise LabError(str(path), "arrays of numbers or text", str(error)) from error
    if embeddings.dtype.kind not in "fiu":
        raise LabError("embeddings", "real numbers", f"dtype {embeddings.dtype}")
    if labels.dtype.kind == "f" and np.array_equal(labels, np.round(labels)):
        labels = labels.astype(np.int64)  # whole numbers that were saved as floats
    if labels.dtype.kind not in "iuUS":
        raise LabError("labels", "whole numbers or text", f"dtype {labels.dtype}")
    return embeddings, labels


def _read_csv(path: Path) -> tuple[NDArray[np.floating], NDArray[np.generic]]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabError(str(path), "comma-separated text in UTF-8", str(error)) from error
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    column = next((header.index(name) for name in LABEL_COLUMNS if name in header), -1)
    first = 1 if column >= 0 or (header and not _is_number(header[0])) else 0
    width = len(header)
    if len(rows) <= first or width < 2:
        raise LabError(str(path), "rows with at least one number and a label", f"{len(rows)} rows of {width} columns")
    column %= width
    numbers, labels = [], []
    for line, row in enumerate(rows[first:], first + 1):
        if len(row) != width:
            raise LabError(f"{path}, row {line}", f"{width} columns", f"{len(row)}")
        try:
            numbers.append([float(cell) for i, cell in enumerate(row) if i != column])
        except ValueError as error:
            raise LabError(f"{path}, row {line}", "numbers beside the label", str(error)) from error
        labels.append(row[column].strip())
    whole = all(re.fullmatch(r"-?[0-9]+", label) for label in labels)
    return np.array(numbers), np.array([int(label) for label in labels] if whole else labels)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
