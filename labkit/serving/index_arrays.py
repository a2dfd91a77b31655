"""Embeddings and names as an index takes them, checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.validation import describe

LARGEST = 1e15  # squares of distances between longer vectors leave float32


def tensor_of(name: str, values: Any) -> Tensor:
    """A tensor, or an array as one, in this machine's byte order.

    Raises
    ------
    LabError : something else.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        with np.errstate(over="ignore"):  # what is infinite then is refused as such
            wide = np.float64 if values.dtype.itemsize > 8 else values.dtype.newbyteorder("=")
            return torch.from_numpy(np.ascontiguousarray(values, dtype=wide).reshape(values.shape))
    if not isinstance(values, Tensor):
        raise LabError(name, "floats (n, D), a tensor or a NumPy array", describe(values))
    return values


def narrowed(name: str, rows: Tensor) -> Tensor:
    """`rows` as float32 on the CPU.

    Raises
    ------
    LabError : numbers beyond `LARGEST`.
    """
    rows = rows.detach().cpu()
    largest = float(rows.abs().max())
    if largest > LARGEST:
        hint = "Look for a network that was trained with too large a learning rate."
        raise LabError(name, f"numbers of at most {LARGEST:g} in magnitude", f"{largest:.3g}", hint)
    return rows.float()


def names_of(name: str, values: Any, n: int) -> list[str]:
    """`values` as a list of n texts.

    Raises
    ------
    LabError : one text, nothing that can be listed, another number of them, one that is neither text nor a whole number.
    """
    try:
        names = None if isinstance(values, (str, bytes)) else list(values)
    except TypeError:
        names = None
    if names is None:
        raise LabError(name, f"a list of {n}, one for each embedding", describe(values))
    if len(names) != n:
        raise LabError(name, f"one for each of {n} embeddings", f"{len(names)}")
    for place, value in enumerate(names):
        if isinstance(value, bool) or not isinstance(value, (str, int, np.integer, os.PathLike)):
            hint = 'Write "" where there is no name.' if value is None else ""
            raise LabError(f"{name}[{place}]", "a name: text, a path or a whole number", describe(value), hint)
    return [str(value) for value in names]
