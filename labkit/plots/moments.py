"""The moments of a run that a row of pictures shows: before training, the end of each proxy problem, the chosen model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.plots.gallery import pictures_of
from labkit.plots.reading import RecordingLike, check_recording
from labkit.validation import check_number


@dataclass(frozen=True)
class Moment:
    """snapshot : index into the recording's. step : optimiser steps done. name : e.g. "before", "(a)", "(b.1)", "end"."""

    snapshot: int
    step: int
    name: str

    @property
    def title(self) -> str:
        """The name with its step."""
        return f"{self.name}, step {self.step:,}"


def moments_of(recording: RecordingLike, most: int = 5) -> list[Moment]:
    """Before training, the ends of the problems, and where the model was chosen that the final figures judge.

    At most `most` moments, the first, the last and the chosen one always among them. Problems are lettered as in the
    CCP paper's figures: (a) is the first, plain problem, (b.1) the first after re-initialisation. A run on pairs alone has
    no problems and no letters.

    Raises
    ------
    LabError : no recording, or `most` below 3.
    """
    check_recording("recording", recording)
    most = int(check_number("most", most, low=3, whole=True))
    pairs, last = recording.experiment.get("method") == "pairs", len(recording.steps) - 1
    names = {p.snapshot: p.letter for p in pictures_of(recording, last + 2) if p.letter and not pairs}
    names = {0: "before", **{at: name for at, name in names.items() if at > 0}}
    names.setdefault(last, "end")
    chosen = _chosen(recording)
    if chosen is not None:
        names[chosen] = f"{names[chosen]}, chosen" if chosen in names else "chosen"
    return [Moment(at, int(recording.steps[at]), names[at]) for at in _some(sorted(names), most, chosen)]


def _chosen(recording: RecordingLike) -> int | None:
    """The snapshot of the chosen step, where it is recorded."""
    found = np.flatnonzero(np.asarray(recording.steps) == recording.final.get("chosen_step", -1))
    return int(found[0]) if len(found) else None


def _some(places: list[int], most: int, wanted: int | None) -> list[int]:
    """At most `most` of the places, evenly; the first, the last and the wanted one among them."""
    if len(places) <= most:
        return places
    kept = [places[i] for i in np.unique(np.linspace(0, len(places) - 1, most).round().astype(int))]
    if wanted is not None and wanted not in kept:
        inner = min(range(1, len(kept) - 1), key=lambda i: abs(kept[i] - wanted))
        kept[inner] = wanted
    return sorted(kept)
