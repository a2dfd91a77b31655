"""A recording made ready for drawing: every snapshot in one plane, one set of samples, one caption each."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.plots import marks
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.plane import Plane
from labkit.plots.reading import (
    Floats,
    Ints,
    ProblemLike,
    RecordingLike,
    check_recording,
    check_sample,
    float_array,
    label_array,
    names_of,
    problem_at,
    proxies_by_class,
    value_at,
)


class Film:
    """The drawable content of a recording: one plane for all snapshots, one set of samples.

    Attributes
    ----------
    steps : (T,) step of each snapshot.
    xy : (T, n, 2) drawn samples. labels : (n,). rows : (n,) their rows in the recording.
    proxies : per snapshot (C, K, 2) or None. following : per snapshot the next problem's proxies, only at a problem's
        end.
    captions : per snapshot "problem 2, step 800, MAP@R 0.953".
    """

    def __init__(self, recording: RecordingLike, sample: int | None) -> None:
        check_recording("recording", recording)
        embeddings = float_array("recording.embeddings", recording.embeddings, "T, n, D")
        labels = label_array("recording.labels", recording.labels, embeddings.shape[1])
        self.steps = [int(s) for s in recording.steps]
        self.classes: Ints = np.unique(labels)
        self.names = names_of(self.classes, recording.class_names)
        # The last snapshot decides on the axes, so that the picture does not turn while it plays.
        self.plane = Plane.of(embeddings[-1])
        # Every class has a number to be placed, so none may be left out.
        most = check_sample(sample)
        self.rows = evenly_per_class(labels, None if most is None else max(most, len(self.classes)))
        self.labels = labels[self.rows]
        self.xy: Floats = self.plane(embeddings[:, self.rows])
        closing = {problem.snapshot: problem for problem in recording.problems}
        self.closing = {at: problem for at, problem in closing.items() if 0 <= at < len(self.steps)}
        self.proxies = [self._live(recording, at) for at in range(len(self.steps))]
        self.following = [self._following(self.closing.get(at)) for at in range(len(self.steps))]
        self.extent = marks.extent_of(self.plane, self.xy, *self.proxies, *self.following)
        gap = marks.NUMBER_GAP * self.extent
        self.numbers = [marks.number_positions(xy, self.labels, self.classes, gap) for xy in self.xy]
        self.captions = [caption(recording, step) for step in self.steps]

    def _live(self, recording: RecordingLike, at: int) -> Floats | None:
        if recording.proxies is None:
            return None
        own = proxies_by_class("recording.proxies", recording.proxies[at], self.classes, len(self.plane.mean), untrained=True)
        return None if own is None else self.plane(own)

    def _following(self, problem: ProblemLike | None) -> Floats | None:
        if problem is None:
            return None
        own = proxies_by_class("next_proxies", problem.next_proxies, self.classes, len(self.plane.mean), untrained=True)
        return None if own is None else self.plane(own)

    def rings(self, at: int) -> Floats | None:
        """(C, K, 2) next proxies of a snapshot; NaN, which draws nothing, where there are none.

        Their number must not change while playing: plotly would leave the superfluous marks of the frame before.
        """
        some = next((f for f in self.following if f is not None), None)
        here = self.following[at]
        return here if here is not None or some is None else np.full_like(some, np.nan)

    def traces(self, at: int, pictures: list[str] | None = None) -> list[Any]:
        """The traces of one snapshot, in a fixed order: each class's samples, proxies, next proxies, numbers."""
        return [
            *marks.sample_traces(self.xy[at], self.labels, self.classes, self.names, pictures),
            marks.proxy_trace(self.proxies[at], self.names),
            marks.proxy_trace(self.rings(at), self.names, following=True),
            marks.number_trace(self.numbers[at], self.names),
        ]


def caption(recording: RecordingLike, step: int) -> str:
    """What the scrubber says at a step."""
    text = f"problem {problem_at(recording, step)}, step {step:,}"
    score = value_at(recording, "map_at_r", step)
    return f"{text}, MAP@R {score:.3f}" if np.isfinite(score) else text
