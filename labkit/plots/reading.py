"""What the figures need of a recording, and the checks of arrays that go into a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.plots.palette import legible
from labkit.validation import check_number, describe

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LARGEST = 1e30  # its square is a double and itself a single, in which the marks are written


class ProblemLike(Protocol):
    """One closed proxy problem, see `labkit.training.recording.Problem`."""

    @property
    def index(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def snapshot(self) -> int: ...
    @property
    def best_step(self) -> int: ...
    @property
    def best_map_at_r(self) -> float: ...
    @property
    def proxies(self) -> NDArray[Any] | None: ...
    @property
    def next_proxies(self) -> NDArray[Any] | None: ...


@runtime_checkable
class RecordingLike(Protocol):
    """The part of `labkit.training.Recording` that figures and report read."""

    @property
    def experiment(self) -> Mapping[str, Any]: ...
    @property
    def steps(self) -> NDArray[Any]: ...
    @property
    def embeddings(self) -> NDArray[Any]: ...
    @property
    def labels(self) -> NDArray[Any]: ...
    @property
    def proxies(self) -> NDArray[Any] | None: ...
    @property
    def metrics(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def problems(self) -> Sequence[ProblemLike]: ...
    @property
    def thumbnails(self) -> NDArray[Any] | None: ...
    @property
    def class_names(self) -> Sequence[str]: ...
    @property
    def events(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def final(self) -> Mapping[str, float]: ...
    @property
    def environment(self) -> Mapping[str, Any]: ...


Runs = Mapping[str, RecordingLike]


def named_runs(recordings: RecordingLike | Runs) -> dict[str, RecordingLike]:
    """One recording or a dict of them as a dict; a single one is named after its experiment.

    Raises
    ------
    LabError : an empty dict, or something that is no recording.
    """
    if isinstance(recordings, Mapping):
        if not recordings:
            raise LabError("recordings", "at least one recording", "an empty dict")
        return {legible(str(name)): check_recording(f"recordings[{name!r}]", run) for name, run in recordings.items()}
    check_recording("recordings", recordings)
    return {legible(str(recordings.experiment.get("name", "run"))): recordings}


def check_recording(name: str, recording: Any) -> RecordingLike:
    """Return `recording` if it has all parts of one, and they fit together.

    Raises
    ------
    LabError : they are missing, of shapes that disagree, empty, NaN or infinite.
    """
    if not isinstance(recording, RecordingLike):
        raise LabError(name, "a Recording", describe(recording), "Recording.load(path) reads one from its file.")
    from labkit.training.recording_parts import check_parts  # here: figures do without the training package otherwise

    try:
        check_parts(cast(Any, recording))
    except (TypeError, ValueError, AttributeError) as error:
        raise LabError(name, "a recording whose parts fit together", str(error)) from error
    if not np.size(recording.embeddings):
        shape = np.shape(recording.embeddings)
        raise LabError(name, "at least one snapshot, sample and dimension", f"embeddings of shape {shape}")
    return recording


def check_sample(sample: Any, *, low: int = 1) -> int | None:
    """Return how many samples to draw at most, a whole number of at least `low`; None for all of them.

    Raises
    ------
    LabError : anything else.
    """
    return None if sample is None else int(check_number("sample", sample, low=low, whole=True))


def check_pixels(name: str, value: Any, *, around: float = 0) -> float:
    """Return a width in pixels: 10 at least, as plotly demands, for what is not `around` the picture.

    Raises
    ------
    LabError : anything else.
    """
    return check_number(name, value, low=around + 10, high=1e5)


def side_of(width: Any, columns: int, *, usual: int, around: int) -> float:
    """Pixels of each of `columns` pictures beside each other in a figure so wide: `usual` where no width was asked for.

    Raises
    ------
    LabError : a width that does not leave 10 pixels to each.
    """
    if width is None:
        return usual
    return (check_pixels("width", width, around=around + 10 * (columns - 1)) - around) / columns


def float_array(name: str, values: Any, shape: str) -> Floats:
    """`values` (array, tensor or nested list) as a finite float64 array with as many dimensions as `shape` has commas +
    1.

    Raises
    ------
    LabError : not numbers, another number of dimensions, empty, NaN, infinite, or beyond 1e30 in size.
    """
    if hasattr(values, "detach"):  # a tensor, perhaps on a GPU or bf16, neither of which NumPy reads
        values = values.detach().cpu().double()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise LabError(name, f"numbers of shape ({shape})", describe(values)) from None
    if array.ndim != shape.count(",") + 1 or array.size == 0:
        raise LabError(name, f"a non-empty array of shape ({shape})", f"shape {array.shape}")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise LabError(name, "finite numbers only", f"{bad} NaN or infinite of {array.size}")
    largest = float(np.abs(array).max())
    if largest > LARGEST:
        raise LabError(name, f"numbers of at most {LARGEST:g} in size", f"one of {largest:g}")
    return array


def label_array(name: str, values: Any, n: int) -> Ints:
    """`values` as (n,) int64 labels.

    Raises
    ------
    LabError : another length or not whole numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    expected = f"one label per embedding, shape ({n},)"
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        raise LabError(name, expected, describe(values)) from None
    if array.shape != (n,):
        raise LabError(name, expected, "None" if values is None else f"shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise LabError(name, "whole numbers", f"dtype {array.dtype}")
    return array.astype(np.int64)


def names_of(classes: Ints, class_names: Sequence[str] | None) -> list[str]:
    """The name of each class; its number where there is no name for it.

    Raises
    ------
    LabError : `class_names` is no list.
    """
    try:
        known = [] if class_names is None else list(class_names)
    except TypeError:
        raise LabError("class_names", "a name per class, in a list", describe(class_names)) from None
    return [legible(str(known[c])) if 0 <= c < len(known) else str(c) for c in classes]


def proxies_by_class(name: str, proxies: Any, classes: Ints, dimensions: int, *, untrained: bool = False) -> Floats | None:
    """(C, K, D) proxies in the order of `classes`: row c of the input belongs to class c, or to the c-th class if the
    counts agree. `untrained` classes, from the number of rows on, have none: NaN, which draws nothing.

    Raises
    ------
    LabError : not (C, K, D), another D than the embeddings, or fewer rows than classes.
    """
    if proxies is None:
        return None
    array = float_array(name, proxies, "C, K, D")
    if array.shape[2] != dimensions:
        raise LabError(name, f"D = {dimensions} as the embeddings have", f"shape {array.shape}")
    if array.shape[0] == len(classes):
        return array
    if untrained and classes.min() >= 0 and len(array):
        known = classes < len(array)  # labels may be any numbers: no row for each number up to the largest
        own = np.full((len(classes), *array.shape[1:]), np.nan)
        own[known] = array[classes[known]]
        return own
    if classes.min() < 0 or array.shape[0] <= classes.max():
        raise LabError(name, f"one row per class, C = {len(classes)}", f"shape {array.shape}")
    chosen: Floats = array[classes]
    return chosen


def series(recording: RecordingLike, key: str) -> tuple[Ints, Floats]:
    """Steps and values of one recorded metric, without evaluations where it is not finite; both may be empty."""
    steps = np.asarray(recording.metrics.get("step", ()), dtype=np.int64)
    values = np.asarray(recording.metrics.get(key, ()), dtype=np.float64)
    size = min(len(steps), len(values))
    keep = np.isfinite(values[:size])
    return steps[:size][keep], values[:size][keep]


def value_at(recording: RecordingLike, key: str, step: int) -> float:
    """The metric at the last evaluation not after `step`; NaN where there is none."""
    steps, values = series(recording, key)
    before = np.flatnonzero(steps <= step)
    return float(values[before[-1]]) if len(before) else float("nan")


def problem_at(recording: RecordingLike, step: int) -> int:
    """Number, from 1, of the proxy problem that the step belongs to; a problem owns the step at which it ended."""
    return 1 + sum(problem.end < step for problem in recording.problems)
