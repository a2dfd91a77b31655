"""Whether the parts of a recording fit together; a damaged or hand-made file must not reach a figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from labkit.training.recording import Problem, Recording

MOST_STEPS = 2**53  # metrics hold steps as floats, which count so far
MOVED = 1e-3  # of the samples' spread: a tenth of a pixel in a picture of them


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in this machine's byte order, which is the only one that torch and JSON's writers take."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def rounded(embeddings: Tensor) -> Tensor:
    """A run's snapshot of its samples (n, D): float16 where that moves none of them by more than a thousandth of their
    spread, the root mean square distance from their mean; else float32.

    So what lies in one small heap, or far from 0, is kept as it is.
    """
    singles = embeddings.detach().float().cpu()
    halves, exact = singles.half(), singles.double()  # doubles hold the squares of the smallest floats
    spread = (exact - exact.mean(dim=0)).square().sum(dim=1).mean().sqrt()
    moved = (halves.double() - exact).norm(dim=1).max()  # infinite beyond float16
    return halves if bool(moved <= MOVED * spread) else singles


def halved(singles: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers as float16 where it holds every one of them exactly, else as they came."""
    halves = singles.astype(np.float16)
    return halves if np.array_equal(halves.astype(singles.dtype), singles) else singles


def stored(name: str, values: np.ndarray[Any, Any], dtype: type[np.generic]) -> np.ndarray[Any, Any]:
    """The array in the dtype that a file has: floats to its precision, whole numbers as they are.

    Raises
    ------
    ValueError : complex numbers or words, or what are no whole numbers of that dtype where it is one.
    """
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} of dtype {values.dtype}")
    kept = values.astype(dtype)
    if kept.dtype.kind in "iu" and not np.array_equal(kept, values):
        raise ValueError(f"{name} that are no whole numbers of dtype {kept.dtype}")
    return kept


def check_parts(recording: Recording) -> None:
    """Raise a ValueError that names the first part which does not fit the others.

    Shapes are those of `Recording`'s attributes: (T,) steps in order from 0 on, (T, n, D) embeddings, (n,) labels,
    (T, C, K, D) proxies, (n, h, w) thumbnails of bytes, (E,) metrics, snapshots in 0 ... T - 1; labels are places in
    the class names where there are any. `metrics["step"]` and `["problem"]` are whole numbers in order.
    """
    embeddings = _numbers("embeddings", recording.embeddings, 3, "fiu")
    times, samples, size = embeddings.shape
    _same("steps", _numbers("steps", recording.steps, 1, "iu").shape, (times,))
    _in_order("steps", recording.steps)
    if times > 1 and recording.steps[-1] == recording.steps[0]:
        raise ValueError(f"steps that are all {recording.steps[0]}")
    _same("labels", _numbers("labels", recording.labels, 1, "iu").shape, (samples,))
    if recording.proxies is not None:
        proxies = _numbers("proxies", recording.proxies, 4, "fiu")
        _same("proxies", (proxies.shape[0], proxies.shape[3]), (times, size))
    if recording.thumbnails is not None:
        _check_thumbnails(recording.thumbnails, samples)
    _check_words(recording)
    _check_metrics(recording.metrics)
    for place, problem in enumerate(recording.problems):
        _check_problem(problem, place, recording)


def _check_thumbnails(thumbnails: Any, samples: int) -> None:
    array = _numbers("thumbnails", thumbnails, 3, "u")
    _same("thumbnails", array.shape[:1], (samples,))
    if array.dtype.itemsize != 1 or 0 in array.shape[1:]:
        raise ValueError(f"thumbnails with shape {array.shape} and dtype {array.dtype}")


def _check_metrics(metrics: Any) -> None:
    evaluations = {len(_numbers(f"metric {name}", values, 1, "fiu")) for name, values in metrics.items()}
    if len(evaluations) > 1:
        raise ValueError(f"metrics of different lengths, {sorted(evaluations)}")
    for name in {"step", "problem"} & metrics.keys():
        _in_order(f"metric {name}", np.asarray(metrics[name]))


def _check_problem(problem: Problem, place: int, recording: Recording) -> None:
    times = len(recording.steps)
    numbers = (problem.index, problem.start, problem.end, problem.snapshot, problem.best_step)
    if not all(_is_whole(number) for number in numbers) or not 0 <= problem.snapshot < times:
        raise ValueError(f"problem {_cut(problem.index)} with snapshot {_cut(problem.snapshot)} of {times}")
    if problem.index != place:
        raise ValueError(f"problem {_cut(problem.index)} where number {place} belongs")
    if not 0 <= problem.start <= problem.best_step <= problem.end <= recording.steps[-1]:
        told = ", ".join(_cut(number) for number in (problem.start, problem.best_step, problem.end))
        raise ValueError(f"problem {place} with steps {told} of {recording.steps[-1]} for its start, best and end")
    if not _is_number(problem.best_map_at_r):
        raise ValueError(f"problem {place} with best MAP@R {_cut(problem.best_map_at_r)}")
    for part in ("proxies", "next_proxies"):
        values = getattr(problem, part)
        if values is not None and recording.proxies is not None:
            _same(f"{part} of problem {place}", _numbers(part, values, 3, "fiu").shape, recording.proxies.shape[1:])


def _check_words(recording: Recording) -> None:
    if not all(isinstance(each, dict) for each in (recording.experiment, *recording.events)):
        raise ValueError("experiment or an event is no dictionary")
    for name, value in recording.final.items():
        if not (_is_number(value) or (isinstance(value, (float, np.floating)) and not np.isfinite(value))):
            raise ValueError(f"a final figure is no number: {name} is {_cut(value)}")
    names = recording.class_names
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a class name is no word")
    labels = recording.labels
    if names and len(labels) and not (labels.min() >= 0 and labels.max() < len(names)):
        raise ValueError(f"labels {labels.min()} … {labels.max()} with {len(names)} class names")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Whether `value` is a finite number that a float can hold."""
    try:
        return isinstance(value, (int, float, np.number)) and math.isfinite(value)
    except (OverflowError, TypeError):  # too large an int, or complex
        return False


def _cut(value: Any) -> str:
    """A value for a message: Python refuses to write out the longest whole numbers."""
    return f"a number of {value.bit_length()} bits" if isinstance(value, int) and value.bit_length() > 64 else repr(value)[:40]


def _in_order(name: str, values: np.ndarray[Any, Any]) -> None:
    """Whole numbers from 0 on, none smaller than the one before."""
    array = values.astype(np.float64)
    if not len(array):
        return
    whole = np.isfinite(array).all() and (array == np.floor(array)).all()
    if not (whole and array[0] >= 0 and array[-1] <= MOST_STEPS and (np.diff(array) >= 0).all()):
        raise ValueError(f"{name} that are no whole numbers in order: {', '.join(f'{value:g}' for value in array[:4])} …")


def _numbers(name: str, values: Any, ndim: int, kinds: str) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.ndim != ndim or array.dtype.kind not in kinds:
        raise ValueError(f"{name} with shape {array.shape} and dtype {array.dtype}")
    if "f" in kinds and ndim > 1 and not np.isfinite(array).all():
        raise ValueError(f"{name} with NaN or infinity")
    return array


def _same(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if found != wanted:
        raise ValueError(f"{name} of shape {found} where {wanted} belongs")
