"""The explorer's traces, by name, and what they hold for a view of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from labkit.plots.marks import number_positions
from labkit.plots.neighbourhood import RIGHT, WRONG
from labkit.plots.palette import FAINT, INK, class_color, plain
from labkit.plots.reading import Floats, Ints

ORDER = ["links", "samples", "misread", "right", "wrong", "anchor", "numbers"]
TRACES = {name: place for place, name in enumerate(ORDER)}
_DIM = 0.12  # opacity of the classes that are not highlighted


def blank_traces() -> list[Any]:
    """Every trace without points."""
    quiet = {"hoverinfo": "skip"}
    return [
        go.Scatter(mode="lines", name="links", line={"color": FAINT, "width": 1}, showlegend=False, **quiet),
        go.Scattergl(
            mode="markers", name="samples", marker={"size": 7, "opacity": 0.8}, showlegend=False,
            hovertemplate="%{text}<extra></extra>", selected={"marker": {"opacity": 1.0, "size": 9}},
            unselected={"marker": {"opacity": 0.25}},
        ),
        go.Scattergl(
            mode="markers", name="misread", **quiet,
            marker={"symbol": "x-thin-open", "size": 8, "color": INK, "line": {"width": 1.2, "color": INK}},
        ),
        go.Scatter(
            mode="markers", name="neighbour, right", **quiet,
            marker={"symbol": "circle-open", "size": 13, "color": RIGHT, "line": {"width": 2.5}},
        ),
        go.Scatter(
            mode="markers", name="neighbour, wrong", **quiet,
            marker={"symbol": "x-open", "size": 13, "color": WRONG, "line": {"width": 2}},
        ),
        go.Scatter(
            mode="markers", name="clicked", **quiet,
            marker={"symbol": "star", "size": 16, "color": "white", "line": {"width": 2, "color": INK}},
        ),
        go.Scatter(
            mode="text", name="numbers", showlegend=False,
            textfont={"size": 18, "shadow": ", ".join(["0px 0px 2px white"] * 6)}, **quiet,
        ),
    ]  # fmt: skip


def sample_updates(
    xy: Floats,
    labels: Ints,
    rows: Ints,
    classes: Ints,
    names: list[str],
    wrong: NDArray[np.bool_],
    *,
    highlight: int | None = None,
    errors: bool = False,
) -> dict[str, dict[str, Any]]:
    """Samples in sight: positions (m, 2), class indices (m,), their rows, and which are misread (m,).

    highlight : a class index that stands out. errors : mark the misread with a cross. classes : all class indices, whose
    names stand beside them.
    """  # fmt: skip
    known = np.intersect1d(classes, labels)
    opacity = np.full(len(labels), 0.8) if highlight is None else np.where(labels == highlight, 0.9, _DIM)
    crossed = wrong & (opacity > _DIM) if errors else np.zeros(len(labels), bool)
    gap = 0.04 * max(float(np.ptp(xy)) if len(xy) else 1.0, 1e-9)
    places = number_positions(xy, labels, known, gap) if len(known) else np.zeros((0, 2))
    return {
        "samples": _xy(xy)
        | {
            "text": [f"class {plain(names[c])}, sample {row}" for c, row in zip(labels, rows, strict=True)],
            "marker": {"color": [class_color(int(c)) for c in labels], "opacity": opacity.astype(np.float32)},
        },
        "misread": _xy(xy[crossed]),
        "numbers": _xy(places)
        | {
            "text": [f"<b>{plain(names[c])}</b>" for c in known],
            "textfont": {"color": [class_color(int(c)) for c in known]},
        },
    }


def neighbour_updates(anchor: Floats | None, others: Floats, right: NDArray[np.bool_]) -> dict[str, dict[str, Any]]:
    """The clicked sample (2,), its neighbours in sight (k, 2) and which of them are right; None: nothing is clicked."""
    if anchor is None:
        return {name: _xy(np.zeros((0, 2))) for name in ("links", "right", "wrong", "anchor")}
    gap = np.full(2, np.nan)
    spokes = [np.stack((anchor, other, gap)) for other in others]
    return {
        "links": _xy(np.concatenate(spokes) if spokes else np.zeros((0, 2))),
        "right": _xy(others[right]),
        "wrong": _xy(others[~right]),
        "anchor": _xy(anchor[None]),
    }


def _xy(points: Floats) -> dict[str, Any]:
    single = points.astype(np.float32)
    return {"x": single[:, 0].copy(), "y": single[:, 1].copy()}
