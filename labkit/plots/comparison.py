"""Several runs beside each other: their names, what was set differently, what came out, and where each was at a step."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from labkit.errors import LabError
from labkit.plots.findings import BETTER_MAP, number
from labkit.plots.palette import legible
from labkit.plots.reading import Ints, RecordingLike, Runs, check_recording, named_runs, value_at
from labkit.validation import describe

MOST = 6  # runs that colour and dash tell apart
FINAL = (
    ("map_at_r", "MAP@R, test"),
    ("p_at_1", "P@1, test"),
    ("covering_q95", "95 % cover"),
    ("covering_max", "covering radius"),
    ("proxy_spread", "proxy spread"),
    ("inter_class_distance", "inter-class distance"),
    ("violation", "violation probability"),
)
_ABSENT = "–"


def runs_of(recordings: Any) -> dict[str, RecordingLike]:
    """One recording, a dict of them by name, or a list, named after experiment and, where that is not enough, seed.

    Raises
    ------
    LabError : none, more than six, or something that is no recording.
    """
    if not isinstance(recordings, (Mapping, RecordingLike)):
        if isinstance(recordings, str) or not isinstance(recordings, Iterable):
            raise LabError("recordings", "recordings in a dict by name or in a list", describe(recordings))
        recordings = _named([check_recording("recordings", r) for r in recordings])
    runs = named_runs(recordings)
    if len(runs) > MOST:
        raise LabError("recordings", f"at most {MOST}, which colours tell apart", len(runs))
    return runs


def _named(recordings: Sequence[RecordingLike]) -> dict[str, RecordingLike]:
    names = [str(r.experiment.get("name", "run")) for r in recordings]
    for more in (lambda r: f", seed {r.experiment.get('seed')}", None):
        twice = {name for name, count in Counter(names).items() if count > 1}
        for i, name in enumerate(names):
            if name in twice:
                names[i] += more(recordings[i]) if more else f" ({i + 1})"
    return dict(zip(names, recordings, strict=True))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted path."""
    result: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        result |= flat(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value}
    return result


def differing_settings(runs: Runs) -> dict[str, list[str]]:
    """Settings that are not the same in all runs: dotted path to the value in each run, in order."""
    every = [flat(r.experiment) for r in runs.values()]
    paths = list(dict.fromkeys(path for settings in every for path in settings))
    rows = {path: [_value(settings.get(path, _ABSENT)) for settings in every] for path in paths}
    return {path: values for path, values in rows.items() if len(set(values)) > 1}


def final_figures(runs: Runs) -> dict[str, list[str]]:
    """What the chosen models reached: name of the figure to its value in each run; figures that no run has are left out."""
    rows = {name: [number(float(r.final.get(key, math.nan)), 4) for r in runs.values()] for key, name in FINAL}
    return {name: values for name, values in rows.items() if set(values) != {_ABSENT}}


def comparison_table(runs: Runs) -> str:
    """Both as one HTML table, a column per run."""
    parts = [
        ("What was set differently", differing_settings(runs)),
        ("What came out (chosen weights, test samples)", final_figures(runs)),
    ]
    head = "".join(f'<th scope="col">{html.escape(legible(name))}</th>' for name in runs)
    lines = []
    for title, rows in parts:
        lines.append(f'<tr><th scope="col">{title}</th>{head}</tr>')
        for name, values in rows.items():
            cells = "".join(f"<td>{html.escape(legible(value))}</td>" for value in values)
            lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{cells}</tr>')
        if not rows:
            lines.append("<tr><td>nothing</td></tr>")
    style = "<style>.labkit-runs :is(th, td) {padding: 1px 14px 1px 0; text-align: left} .labkit-runs {line-height: 1.4}</style>"
    return f"{style}<table class='labkit-runs'>{''.join(lines)}</table>"


def shared_steps(runs: Runs) -> Ints:
    """Every step at which some run has a snapshot, ascending: the timeline that all share."""
    return np.unique(np.concatenate([np.asarray(r.steps, dtype=np.int64) for r in runs.values()]))


def snapshot_at(recording: RecordingLike, step: int) -> int:
    """Index of the last snapshot that is not after `step`; the first where there is none."""
    return max(0, int(np.searchsorted(np.asarray(recording.steps), step, side="right")) - 1)


def standing(runs: Runs, step: int) -> str:
    """Who is ahead at a step, in MAP@R, or that nobody is."""
    scores = {name: value_at(r, "map_at_r", step) for name, r in runs.items()}
    known = {name: score for name, score in scores.items() if math.isfinite(score)}
    if not known:
        return f"Step {step:,}: not evaluated yet."
    order = sorted(known, key=lambda name: -known[name])
    if len(order) == 1:
        return f"Step {step:,}: MAP@R {number(known[order[0]])} ({order[0]})."
    figures = "; ".join(f"{name}: {number(known[name])}" for name in order)
    lead = known[order[0]] - known[order[1]]
    verdict = "practically the same" if lead <= BETTER_MAP else f"{order[0]} is ahead by {100 * lead:.1f} points"
    return f"Step {step:,}, MAP@R on held-out samples: {verdict} ({figures})."


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_value, value)) if isinstance(value, (list, tuple)) else str(value)
