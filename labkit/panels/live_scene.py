"""What a live picture shows: who is in it, where everything lies at one moment, and how the run's figures went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.plots import marks
from labkit.plots.embedding_map import cover_sentence, nearest_own_proxy
from labkit.plots.metric_axes import SMALLEST
from labkit.plots.plane import Plane
from labkit.plots.reading import LARGEST, Ints, label_array
from labkit.plots.thumbnails import grey_images
from labkit.training.controls import NEXT_PROBLEM
from labkit.training.live_run import Boundary, Frame, Snapshot

Array = NDArray[np.float32]
# key of a figure in the recording, what stands over its curve, whether the axis is logarithmic, the axis's range if fixed
CURVES: tuple[tuple[str, str, bool, tuple[float, float] | None], ...] = (
    ("loss", "loss", False, None),
    ("map_at_r", "MAP@R, held out", False, (0.0, 1.02)),
    ("covering_q95", "95 % cover (distance)", True, None),
    ("proxy_spread", "proxy spread (distance)", True, None),
)
CHOSEN_BY = {"k_center": "K-Center", "random": "at random"}
FADES, FADED, FAINTEST = 50, 150, 0.15  # steps up to which rings are drawn in full, from which faintly, and how faintly
_SELECTION = "projections.selection"


@dataclass(frozen=True)
class Cast:
    """What stays the same through a run.

    Attributes
    ----------
    run : number of the run. labels : (n,) place of each sample's class in `classes`. classes : (C,) the labels themselves.
    names : of the classes. pictures : (n, h, w) uint8, or None. projected : whether the plane shows less than there is.
    """

    run: int
    labels: Ints
    classes: Ints
    names: tuple[str, ...]
    pictures: NDArray[np.uint8] | None
    projected: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> Cast:
        """The samples of a snapshot's run."""
        assert snapshot.labels is not None and snapshot.live is not None
        n, width = snapshot.live.embeddings.shape
        classes, labels = np.unique(label_array("labels", snapshot.labels, n), return_inverse=True)
        known = [str(name) for name in snapshot.class_names]
        names = tuple(known[c] if 0 <= c < len(known) else str(c) for c in classes)
        pictures = None if snapshot.thumbnails is None else grey_images("thumbnails", snapshot.thumbnails, n)
        return cls(snapshot.run, labels, classes, names, pictures, width > 2)


@dataclass(frozen=True)
class Scene:
    """Where everything lies at one moment, in the picture's plane.

    Attributes
    ----------
    step : steps done. title : the finding. note : what a reader must know about the axes, if anything.
    extent : half the side of the square that holds it all.
    samples : (n, 2). proxies : (C, K, 2) as they are; K is 0 where there are none. chosen : (C, K, 2) samples' places that
        the running problem began with (at a problem's last snapshot: the next one). chosen_by : says what chose them.
        chosen_strength : 0 … 1, how strongly they are drawn: the longer ago, the fainter.
    numbers : (C, 2) where the classes' names stand. radii : (C,) 95 % quantile of the distance from a class's samples to
        its nearest own proxy, in all dimensions; empty without proxies.
    """

    step: int
    title: str
    note: str
    extent: float
    samples: Array
    proxies: Array
    chosen: Array
    chosen_by: str
    chosen_strength: float
    numbers: Array
    radii: Array


def scene_of(cast: Cast, frame: Frame, chosen: Any, chosen_by: str, age: int = 0) -> Scene:
    """The scene of a frame; `chosen` is (C, K, D) or None, `age` how many steps ago that was."""
    embeddings = _drawable(frame.embeddings)
    plane = Plane.of(embeddings)
    xy = plane(embeddings)
    proxies = None if frame.proxies is None else plane(_drawable(frame.proxies))
    rings = None if chosen is None else plane(_drawable(chosen))
    extent = marks.extent_of(plane, xy, proxies, rings)
    indices = np.arange(len(cast.classes))
    radii, title = np.zeros(0), f"{len(indices)} classes, {len(xy):,} samples"
    if frame.proxies is not None:
        own = nearest_own_proxy(embeddings, cast.labels, _drawable(frame.proxies), indices)
        radii = np.array([np.quantile(distances, 0.95) for distances in own])
        title = cover_sentence(radii)
    numbers = marks.number_positions(xy, cast.labels, indices, marks.NUMBER_GAP * extent)
    nothing = np.zeros((len(indices), 0, 2))
    return Scene(
        frame.step, title, plane.note, extent, _single(xy), _single(nothing if proxies is None else proxies),
        _single(nothing if rings is None else rings), chosen_by, _strength(age), _single(numbers), _single(radii),
    )  # fmt: skip


def _strength(age: int) -> float:
    """How strongly rings are drawn so many steps later: where a problem began says less and less of where it is."""
    return float(np.interp(age, (FADES, FADED), (1.0, FAINTEST)))


def _drawable(values: Any) -> NDArray[np.float64]:
    """In double precision, without NaN, and no farther out than can be drawn: weights may run away to infinity."""
    return np.clip(np.nan_to_num(np.asarray(values, dtype=np.float64)), -LARGEST, LARGEST)


def _single(values: Any) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)


@dataclass(frozen=True)
class Course:
    """How a run went so far.

    Attributes
    ----------
    steps : (E,) of the evaluations. values : (E,) per curve, NaN where it has none, as the spread of one proxy a class.
    ends : steps at which a problem ended. changes : (step, what) of each change by hand.
    """

    steps: Array
    values: Mapping[str, Array]
    ends: tuple[int, ...]
    changes: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Course:
        """The course of a snapshot's run."""
        steps = _single(snapshot.metrics.get("step", ()))
        values = {}
        for key, _, logarithmic, _ in CURVES:
            series = np.full(len(steps), np.nan)
            known = snapshot.metrics.get(key, ())
            series[: len(known)] = known
            series[~np.isfinite(series)] = np.nan
            if logarithmic:
                series = np.maximum(series, SMALLEST) if (series > 0).any() else np.full_like(series, np.nan)
            values[key] = _single(series)
        ends = tuple(b.step for b in snapshot.boundaries if b.chosen is not None)
        return cls(steps, values, ends, tuple((int(e["step"]), str(e["what"])) for e in snapshot.events if _marked(e)))


def _marked(event: Mapping[str, Any]) -> bool:
    return bool(event["step"]) or "setting" in event


def age_of_rings(snapshot: Snapshot, frame: Frame, at: int | None = None) -> int:
    """Steps since the rings' problem began, at a stored frame (None: at the newest one)."""
    return max(0, frame.step - max((b.step for b in _ended(snapshot, at)), default=0))


def _ended(snapshot: Snapshot, at: int | None) -> list[Boundary]:
    """The problems that had ended by a stored frame (None: by now) and left a choice."""
    return [b for b in snapshot.boundaries if (at is None or b.frame <= at) and b.chosen is not None]


def chosen_by(snapshot: Snapshot, at: int | None = None) -> str:
    """What the rings are, as seen from a stored frame (None: from now): the start of which problem, and the selection that
    was in force when the one before ended."""
    known = _ended(snapshot, at)
    selection = snapshot.experiment.projections.selection
    if known:
        for place, event in enumerate(snapshot.events):
            if event.get("setting") == _SELECTION and _came_before(snapshot, place, known[-1].step):
                selection = str(event["value"])
    which = "the next" if at is not None and known and known[-1].frame == at else "this"
    return f"start of {which} problem ({CHOSEN_BY[selection]})"


def _came_before(snapshot: Snapshot, place: int, end: int) -> bool:
    """Whether an event came before the end of a problem; at the same step only where the end, by hand, follows it."""
    step = int(snapshot.events[place]["step"])
    followed = any(event.get("setting") == NEXT_PROBLEM for event in snapshot.events[place:] if event["step"] == end)
    return step < end or (step == end and followed)
