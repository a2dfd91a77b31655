"""The explorer's traces, by name, and what they hold for a view of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from labkit.plots.marks import coordinates, number_positions
from labkit.plots.neighbourhood import RIGHT, WRONG
from labkit.plots.palette import FAINT, INK, class_color, plain
from labkit.plots.reading import Floats, Ints

ORDER = ["links", "samples", "misread", "right", "wrong", "anchor"]
TRACES = {name: place for place, name in enumerate(ORDER)}
_DIM = 0.12  # opacity of the classes that are not highlighted


def blank_traces() -> list[Any]:
    """Every trace without points."""
    # A lasso dims every trace's marks outside it; only the samples shall be dimmed.
    quiet: dict[str, Any] = {"hoverinfo": "skip", "unselected": {"marker": {"opacity": 1.0}}}
    return [
        go.Scatter(mode="lines", name="links", line={"color": FAINT, "width": 1}, showlegend=False, hoverinfo="skip"),
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
    ]  # fmt: skip


def sample_updates(
    xy: Floats,
    labels: Ints,
    rows: Ints,
    names: list[str],
    wrong: NDArray[np.bool_],
    *,
    highlight: int | None = None,
    errors: bool = False,
) -> dict[str, dict[str, Any]]:
    """Samples in sight: positions (m, 2), class indices (m,), their rows, and which are misread (m,).

    highlight : a class index that stands out. errors : mark the misread with a cross.
    """
    opacity = np.full(len(labels), 0.8) if highlight is None else np.where(labels == highlight, 0.9, _DIM)
    crossed = wrong & (opacity > _DIM) if errors else np.zeros(len(labels), bool)
    return {
        "samples": coordinates(xy)
        | {
            "text": [f"class {plain(names[c])}, sample {row}" for c, row in zip(labels, rows, strict=True)],
            "marker": {"color": [class_color(int(c)) for c in labels], "opacity": opacity.astype(np.float32)},
        },
        "misread": coordinates(xy[crossed]),
    }


def number_notes(xy: Floats, labels: Ints, classes: Ints, names: list[str]) -> list[dict[str, Any]]:
    """The names of `classes`, as annotations beside all of their samples (m, 2), in sight or not; a lasso leaves them."""
    known = np.intersect1d(classes, labels)
    if not len(known):
        return []
    places = number_positions(xy, labels, known, 0.04 * max(float(np.ptp(xy)), 1e-9))
    return [
        {
            "x": float(x), "y": float(y), "text": f"<b>{plain(names[c])}</b>", "showarrow": False,
            "font": {"size": 18, "color": class_color(int(c)), "shadow": ", ".join(["0px 0px 2px white"] * 6)},
        }
        for c, (x, y) in zip(known, places, strict=True)
    ]  # fmt: skip


def explorer_notice(wrong: NDArray[np.bool_], labels: Ints, names: list[str], shown: int, note: str) -> str:
    """How many of the drawn samples are misread, of which class most, and how many pass the filters."""
    text = f"{wrong.mean():.1%} of the {len(wrong):,} drawn samples have a nearest neighbour of another class (crosses)"
    rates = [(float(wrong[labels == c].mean()), names[c]) for c in np.unique(labels)]
    if len(rates) > 1 and wrong.any():
        (most, worst), (least, best) = max(rates), min(rates)
        text += f": most often class {worst}, {most:.1%}, least often class {best}, {least:.1%}"
    if shown < len(wrong):
        text += f". {shown:,} of {len(wrong):,} pass the filters"
    return f"{text}. {note}".strip()


def neighbour_updates(anchor: Floats | None, others: Floats, right: NDArray[np.bool_]) -> dict[str, dict[str, Any]]:
    """The clicked sample (2,), its neighbours in sight (k, 2) and which of them are right; None: nothing is clicked."""
    if anchor is None:
        return {name: coordinates(np.zeros((0, 2))) for name in ("links", "right", "wrong", "anchor")}
    gap = np.full(2, np.nan)
    spokes = [np.stack((anchor, other, gap)) for other in others]
    return {
        "links": coordinates(np.concatenate(spokes) if spokes else np.zeros((0, 2))),
        "right": coordinates(others[right]),
        "wrong": coordinates(others[~right]),
        "anchor": coordinates(anchor[None]),
    }
