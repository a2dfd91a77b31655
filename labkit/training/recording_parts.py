"""Whether the parts of a recording fit together; a damaged or hand-made file must not reach a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from labkit.training.recording import Recording


def check_parts(recording: Recording) -> None:
    """Raise a ValueError that names the first part which does not fit the others.

    Shapes are those of `Recording`'s attributes: (T,) steps, (T, n, D) embeddings, (n,) labels, (T, C, K, D) proxies,
    (n, h, w) thumbnails, (E,) metrics, snapshots in 0 ... T - 1.
    """
    embeddings = _numbers("embeddings", recording.embeddings, 3, "fiu")
    times, samples, size = embeddings.shape
    _same("steps", _numbers("steps", recording.steps, 1, "iu").shape, (times,))
    _same("labels", _numbers("labels", recording.labels, 1, "iu").shape, (samples,))
    if recording.proxies is not None:
        proxies = _numbers("proxies", recording.proxies, 4, "fiu")
        _same("proxies", (proxies.shape[0], proxies.shape[3]), (times, size))
    if recording.thumbnails is not None:
        _same("thumbnails", _numbers("thumbnails", recording.thumbnails, 3, "u").shape[:1], (samples,))
    _check_words(recording)
    evaluations = {len(_numbers(f"metric {name}", values, 1, "fiu")) for name, values in recording.metrics.items()}
    if len(evaluations) > 1:
        raise ValueError(f"metrics of different lengths, {sorted(evaluations)}")
    for problem in recording.problems:
        numbers = (problem.index, problem.start, problem.end, problem.snapshot, problem.best_step)
        if not all(isinstance(number, (int, np.integer)) for number in numbers) or not 0 <= problem.snapshot < times:
            raise ValueError(f"problem {problem.index} with snapshot {problem.snapshot} of {times}")
        for part in ("proxies", "next_proxies"):
            values = getattr(problem, part)
            if values is not None and recording.proxies is not None:
                _same(f"{part} of problem {problem.index}", _numbers(part, values, 3, "fiu").shape, recording.proxies.shape[1:])


def _check_words(recording: Recording) -> None:
    if not all(isinstance(each, dict) for each in (recording.experiment, *recording.events)):
        raise ValueError("experiment or an event is no dictionary")
    if not all(isinstance(value, (int, float, np.number)) for value in recording.final.values()):
        raise ValueError("a final figure is no number")
    if not all(isinstance(name, str) for name in recording.class_names):
        raise ValueError("a class name is no word")


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
