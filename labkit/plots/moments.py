"""The moments of a run that a row of pictures shows: before training, the end of each proxy problem, the chosen model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.plots.reading import RecordingLike, check_recording
from labkit.validation import check_number


@dataclass(frozen=True)
class Moment:
    """snapshot : index into the recording's. step : optimiser steps done. name : e.g. "before", "end of problem 1", "end".
    chosen : whether the model that the final figures judge is of that step; the name says so too."""

    snapshot: int
    step: int
    name: str
    chosen: bool = False

    @property
    def title(self) -> str:
        """The name with its step."""
        return f"{self.name}, step {self.step:,}"


def moments_of(recording: RecordingLike, most: int = 5) -> list[Moment]:
    """Before training, the ends of the problems, and where the model was chosen that the final figures judge.

    At most `most` moments, the first, the last and the chosen one always among them, and from four on the end of the first
    problem, with which plain proxy training ends and re-initialisation begins. Problems are counted from 1, the plain one
    that the CCP paper's figures call (a); 2 is its (b.1). Where no problem was followed by another the last moment is the
    "end".

    Raises
    ------
    LabError : no recording, or `most` below 3.
    """
    check_recording("recording", recording)
    most = int(check_number("most", most, low=3, whole=True))
    last = len(recording.steps) - 1
    ends = sorted({p.snapshot: p.index for p in recording.problems if 0 < p.snapshot <= last}.items())
    followed = bool(ends) and (len(ends) > 1 or ends[0][0] < last)
    names = {0: "before"} | {at: f"end of problem {index + 1}" for at, index in ends if followed}
    names.setdefault(last, "end")
    chosen = _chosen(recording)
    wanted = [] if chosen is None else [chosen]
    if chosen is not None:
        names[chosen] = f"{names[chosen]}, chosen" if chosen in names else "chosen"
    if followed and len({0, *wanted, ends[0][0], last}) <= most:
        wanted.append(ends[0][0])
    return [Moment(at, int(recording.steps[at]), names[at], at == chosen) for at in _some(sorted(names), most, wanted)]


def chosen_snapshot(recording: RecordingLike) -> int:
    """The snapshot of the model that the final figures judge; the last where it was not recorded."""
    check_recording("recording", recording)
    found = _chosen(recording)
    return len(recording.steps) - 1 if found is None else found


def _chosen(recording: RecordingLike) -> int | None:
    """The snapshot of the chosen step, where it is recorded."""
    found = np.flatnonzero(np.asarray(recording.steps) == recording.final.get("chosen_step", -1))
    return int(found[0]) if len(found) else None


def _some(places: list[int], most: int, wanted: list[int]) -> list[int]:
    """At most `most` of the places: the first, the last, the wanted ones, and of the others as evenly as may be."""
    kept = {places[0], places[-1], *wanted}
    while len(kept) < min(most, len(places)):  # the place farthest from those kept, by rank
        ranks = [places.index(at) for at in kept]
        kept.add(max((at for at in places if at not in kept), key=lambda at: min(abs(places.index(at) - r) for r in ranks)))
    return sorted(kept)
