"""Checks at the start of the work: each raises a LabError that names both values that disagree."""

from __future__ import annotations

import difflib
import errno
import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.autograd import check_untransformed
from labkit.errors import LabError


def describe(value: Any) -> str:
    """Say what came in a few words: type, shape and dtype of an array, else its repr cut to one line."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"a {type(value).__name__} of shape {tuple(shape)} and dtype {value.dtype}"
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write out the longest ones
        return f"a whole number of {value.bit_length():,} bits"
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def check_finite(name: str, values: Tensor) -> None:
    """Refuse NaN and infinity. One reduction when all is well; the exact search only when it is not."""
    values = values.detach()
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    if math.isfinite(values.sum(dtype=wide).item()):
        return
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise LabError(
            name,
            "finite numbers only",
            f"{int(bad.sum())} NaN or infinite of {values.numel()}, the first at index {where}",
            "Look for a learning rate that is too large or an input that was never scaled.",
        )


def check_stored(name: str, values: Tensor) -> None:
    """Refuse tensors whose numbers do not all lie somewhere: sparse ones, and those on the device "meta"."""
    if values.layout != torch.strided or values.is_meta:
        kind = 'one on the device "meta", without numbers' if values.is_meta else f"layout {values.layout}"
        raise LabError(name, "a dense tensor", kind, "" if values.is_meta else "Convert with .to_dense().")


def check_dense(name: str, values: Tensor) -> None:
    """Refuse floating tensors that cannot be reckoned with: sparse, on "meta" without numbers, of 8 bits, transformed."""
    check_stored(name, values)
    check_untransformed(name, values)
    if values.dtype.itemsize < 2:
        raise LabError(name, "floats of 16, 32 or 64 bits", describe(values), "Convert with .float().")


def check_embeddings(name: str, embeddings: Any, *, finite: bool = True) -> Tensor:
    """Return `embeddings` if it is a floating (n, D) tensor with n, D >= 1 and finite entries.

    Raises
    ------
    LabError : not a tensor, not two-dimensional, empty, integer or complex, sparse, on the device "meta", NaN or infinite.
    """
    if not isinstance(embeddings, Tensor) or embeddings.is_nested:
        kind = "a nested tensor" if isinstance(embeddings, Tensor) else describe(embeddings)
        raise LabError(name, "a torch.Tensor of shape (n, D)", kind)
    if embeddings.ndim != 2:
        raise LabError(name, "two dimensions, (n, D)", describe(embeddings))
    if embeddings.shape[0] == 0 or embeddings.shape[1] == 0:
        raise LabError(name, "at least one row and one column", describe(embeddings))
    if not embeddings.is_floating_point():
        raise LabError(name, "a floating dtype", describe(embeddings), "Convert with .float().")
    check_dense(name, embeddings)
    if finite:
        check_finite(name, embeddings)
    if embeddings.is_inference() and not torch.is_inference_mode_enabled():
        kept: Tensor = embeddings.clone()  # what was made in inference mode could not be kept for a backward pass
        return kept
    return embeddings


def check_labels(name: str, labels: Any, n: int, *, of: str = "embeddings") -> Tensor:
    """Return `labels` as int64 if it is an integer tensor of shape (n,), one label per row of `of`.

    Raises
    ------
    LabError : not a tensor, not one-dimensional, of another length, or not integers.
    """
    if not isinstance(labels, Tensor):
        raise LabError(name, f"a torch.Tensor of shape ({n},)", describe(labels))
    if labels.ndim != 1 or labels.shape[0] != n:
        raise LabError(name, f"one label per row of {of}, shape ({n},)", f"shape {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise LabError(name, "integer class labels", describe(labels), "Convert with .long().")
    check_stored(name, labels)
    return labels.long()


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    whole: bool = False,
) -> float:
    """Return `value` if it is a finite number in [low, high] ((low, high] with `open_low`), whole where asked.

    NumPy's numbers come back as Python's. A whole number is an int or a NumPy integer of at most 64 bits, and comes back as
    an int. 2.0 is none: what takes sizes and counts (ranges, shapes, layers) does not take it either. An int of more than
    64 bits, which torch cannot take, is refused everywhere.

    Raises
    ------
    LabError : not a number, NaN, infinite, out of range, or not whole.
    """
    kinds: tuple[type[Any], ...] = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        hint = f"Write {int(value)}." if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else ""
        raise LabError(name, "a whole number" if whole else "a number", describe(value), hint)
    number: float = operator.index(value) if isinstance(value, (int, np.integer)) else float(value)
    too_low = number <= low if open_low else number < low
    wide = isinstance(number, int) and not -(2**63) <= number < 2**63
    too_large = wide or not _is_finite(number)
    if wide and (whole or _is_finite(number)):
        hint = "" if whole else f"Write {float(number):g}."
        raise LabError(name, "a whole number of at most 64 bits", describe(number), hint)
    if too_large or too_low or number > high:
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if high == math.inf else "]"
        kind = "a whole number" if whole else "a finite number"
        got = describe(number) if isinstance(number, int) and too_large else number
        raise LabError(name, f"{kind} in {left}{low:g}, {high:g}{right}", got)
    return number


def _is_finite(value: float) -> bool:
    """Whether a float can hold `value`: an int may be too large for one."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_loss_value(loss: Any, value: Any, *, finite: bool = False) -> Tensor:
    """Return what `loss` gave if it is a real 0-d tensor, which is what can be trained with.

    finite : whether NaN and infinity are refused here; else a trainer does it, which knows the step.

    Raises
    ------
    LabError : no tensor, another shape, complex, sparse, or on the device "meta". It is named after the loss.
    """
    name = getattr(loss, "__name__", type(loss).__name__)
    if not isinstance(value, Tensor) or value.ndim != 0 or value.is_complex():
        raise LabError(name, "a loss that gives a real 0-d tensor", describe(value), "Perhaps .mean() is missing.")
    check_stored(name, value)
    if finite and not math.isfinite(float(value.detach())):
        hint = "A mean over no pairs is NaN: sum and divide by max(1, count)."
        raise LabError(name, "a loss that gives a finite number", float(value.detach()), hint)
    return value


def check_choice(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`; otherwise suggest the nearest.

    Raises
    ------
    LabError : `value` is not among the options.
    """
    known = list(options)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]!r}?" if near else ""
    raise LabError(name, f"one of {', '.join(map(repr, known))}", repr(value), hint)


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False; a word such as "no" would count as true.

    Raises
    ------
    LabError : anything else.
    """
    if not isinstance(value, bool):
        raise LabError(name, "True or False", describe(value))
    return value


def check_word(name: str, value: Any) -> str:
    """Return `value` if it is a str.

    Raises
    ------
    LabError : anything else.
    """
    if not isinstance(value, str):
        raise LabError(name, "a word", describe(value))
    return value


def check_path(name: str, value: Any) -> Path:
    """Return `value` as a Path if it can be the name of a file or folder, whether or not something lies there.

    Raises
    ------
    LabError : no path (None, a number, bytes), or a name that no file can have: with a zero byte in it, or too long.
    """
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise LabError(name, "a path, as text or as pathlib.Path", describe(value))
    try:
        os.lstat(value)
    except ValueError as error:  # a zero byte, or letters that the system's encoding lacks
        raise LabError(name, "a name that a file can have", describe(os.fspath(value)), f"{error}.".capitalize()) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            hint = "File systems take names of up to 255 bytes."
            raise LabError(name, "a name that a file can have", describe(os.fspath(value)), hint) from error
    return Path(value)


def check_takes(name: str, function: Callable[..., Any], *arguments: str, **named: str) -> None:
    """Refuse a function that cannot be called with so many arguments, and with those that are `named`.

    Raises
    ------
    LabError : says which argument is missing or too many. A function that does not tell its arguments is let pass.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        wanted = ", ".join([*arguments, *(f"{key}=…" for key in named)])
        raise LabError(name, f"something to be called as {name}({wanted})", f"{signature}: {error}"[:160]) from error
