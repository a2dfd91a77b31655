"""How a metric's axis is drawn: evenly, logarithmically, or stretched towards 1; and a label that says which."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from labkit.plots.log_ticks import log_ticks
from labkit.plots.reading import Floats, Runs, series

Scale = Literal["linear", "log", "stretched"]
MAP_TICKS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
STRETCHED = 0.9  # where MAP@R comes so far, its axis is stretched; below, an even one tells the values apart
SMALLEST = 1e-9  # a logarithmic axis has no zero: proxies that coincide are drawn here


def recorded(runs: Runs, key: str) -> Floats:
    """All values that any run has of a metric."""
    values: Floats = np.concatenate([series(recording, key)[1] for recording in runs.values()])
    return values


def scale_of(runs: Runs, key: str, logarithmic: bool) -> Scale:
    """The scale of a metric's axis; MAP@R's is stretched where a run reaches .9."""
    if key == "map_at_r" and np.max(recorded(runs, key), initial=0.0) >= STRETCHED:
        return "stretched"
    return "log" if logarithmic else "linear"


def drawn(values: Floats, scale: Scale) -> Floats:
    """The values as an axis of that scale takes them: a stretched one what is missing to 1, and neither it nor a
    logarithmic one a zero."""
    if scale == "linear":
        return values
    result: Floats = np.maximum(1 - values if scale == "stretched" else values, SMALLEST)
    return result


def metric_axis(values: Floats, scale: Scale, label: str, most: int = 4) -> dict[str, Any]:
    """Settings of a plotly axis for the `values` drawn on it; its label names a scale that is not even.

    Parameters
    ----------
    values : (n,) of the metric itself. most : labels of a logarithmic axis among the values, about.
    """
    title = {"title_text": labelled(label, scale)}
    if scale == "stretched":
        return title | towards_one(values)
    return title | (log_ticks(drawn(values, scale), most) if scale == "log" else {"type": "linear"})


def labelled(label: str, scale: Scale) -> str:
    """An axis's label with its scale: "cover (distance)" becomes "cover (distance, log)"."""
    if scale == "stretched":
        return f"{label.replace('<br>', ' ')},<br>stretched near 1"
    if scale == "log":
        return f"{label[:-1]}, log)" if label.endswith(")") else f"{label} (log)"
    return label


def towards_one(scores: Any) -> dict[str, Any]:
    """Settings of an axis on which 1 − MAP@R is drawn downwards and logarithmically, labelled with MAP@R itself.

    Parameters
    ----------
    scores : all MAP@R to be drawn; where they lie so close that fewer than two of the usual labels are among them, their own
        are added.
    """
    shown = [score for score in MAP_TICKS if np.min(scores, initial=1) <= score <= np.max(scores, initial=0)]
    own = np.linspace(np.min(scores), np.max(scores), 3).tolist() if len(shown) < 2 and np.size(scores) else []
    own = sorted({float(f"{score:.3f}") for score in own})
    room = (_missing(own[0]) - _missing(own[-1])) / 3 if own else 0.0  # nearer than this, two labels would overprint
    usual = [score for score in MAP_TICKS if all(abs(_missing(score) - _missing(mine)) > room for mine in own)]
    labels = sorted({*usual, *own})
    ticks = [max(1 - score, SMALLEST) for score in labels]
    return {"type": "log", "autorange": "reversed", "tickvals": ticks, "ticktext": [f"{score:g}" for score in labels]}


def _missing(score: float) -> float:
    """Where a score stands on the axis of `towards_one`: decades of what is missing to 1."""
    return float(np.log10(max(1 - score, SMALLEST)))
