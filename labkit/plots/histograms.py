"""Distances of pairs: same class against different classes, with the margins of a pair loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.errors import LabError
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.palette import INK, present, translucent
from labkit.plots.reading import Floats, check_pixels, check_sample, float_array, label_array
from labkit.validation import check_number

SAME, OTHER = "#0072B2", "#D55E00"


def distance_histograms(
    embeddings: Any,
    labels: Any,
    pos_margin: float | None = None,
    neg_margin: float | None = None,
    *,
    bins: int = 80,
    sample: int | None = 2000,
    title: str | None = None,
    width: int = 760,
) -> Any:
    """Histograms of Euclidean distances within classes and between classes; the title says how many pairs violate the
    margins.

    Parameters
    ----------
    embeddings : (n, D), after the loss's normalisation. labels : (n,) whole numbers, at least two classes or one pair
        in a class.
    pos_margin : m⁺ of the loss C2: same-class pairs should lie nearer. neg_margin : m⁻: other-class pairs should lie
        farther.
    bins : number of bars, 1 … 10,000. sample : use so many samples at most, 2 or more, evenly per class
        (n (n − 1) / 2 pairs); None: all of them.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure; the areas are densities: each sums to 1, however many pairs it has.

    Raises
    ------
    LabError : shapes that disagree, NaN, numbers beyond 1e30, no pair at all, or a setting out of its range.

    Reference: "Deep Metric Learning with Chance Constraints", contrastive loss with positive margin.
    """
    x = float_array("embeddings", embeddings, "n, D")
    y = label_array("labels", labels, len(x))
    check_pixels("width", width)
    bins = int(check_number("bins", bins, low=1, high=10_000, whole=True))
    for name, margin in (("pos_margin", pos_margin), ("neg_margin", neg_margin)):
        if margin is not None:
            check_number(name, margin)
    rows = evenly_per_class(y, check_sample(sample, low=2))
    distances, together = _pairs(x[rows]), _pairs_together(y[rows])
    if not len(distances):
        raise LabError("embeddings", "at least two samples", f"{len(x)}")
    edges = np.linspace(0, max(float(distances.max()), neg_margin or 0, pos_margin or 0, 1e-12) * 1.02, bins + 1)
    fig = go.Figure()
    for values, name, color in (
        (distances[together], "same class", SAME),
        (distances[~together], "different classes", OTHER),
    ):
        if len(values):
            _add_histogram(fig, values, edges, name, color)
    sentences = _add_margins(fig, distances, together, pos_margin, neg_margin)
    note = f"{len(rows):,} of {len(x):,} samples" if len(rows) < len(x) else f"{len(x):,} samples"
    head = "; ".join(sentences) or _means(distances, together)
    present(fig, title if title is not None else head, note, width=width, height=360, above=25)
    fig.update_layout(legend={"x": 1, "xanchor": "right", "y": 0.98})
    fig.update_xaxes(title_text="Euclidean distance between two samples", rangemode="tozero")
    fig.update_yaxes(title_text="density of pairs (per unit distance)", rangemode="tozero")
    return fig


def _add_histogram(fig: Any, values: Floats, edges: Floats, name: str, color: str) -> None:
    """The density of some distances over (bins + 1,) edges, with its name at its top."""
    density = np.histogram(values, edges, density=True)[0]
    fig.add_scatter(
        x=edges.round(4), y=np.append(density, density[-1]).round(4),
        mode="lines", line={"shape": "hv", "color": color},
        fill="tozeroy", fillcolor=translucent(color, 0.2), name=f"{name} ({len(values):,} pairs)",
        hovertemplate="%{x:.3f}: density %{y:.2f}<extra>" + name + "</extra>",
    )  # fmt: skip
    top = int(density.argmax())
    side = "left" if top < len(density) / 2 else "right"  # into the picture, clear of its edges
    fig.add_annotation(
        x=edges[top], y=density[top], text=name, font_color=color, showarrow=False, xanchor=side, yanchor="bottom"
    )


def _add_margins(
    fig: Any, distances: Floats, together: Any, pos_margin: float | None, neg_margin: float | None
) -> list[str]:
    """A line at each margin; what share of the pairs violates it, in words."""
    sentences = []
    for margin, mark, chosen, sign, saying in (
        (pos_margin, "m⁺", together, 1, "of same-class pairs lie beyond"),
        (neg_margin, "m⁻", ~together, -1, "of other-class pairs lie nearer than"),
    ):
        if margin is None or not chosen.any():
            continue
        if margin > 0:
            share = float((sign * (distances[chosen] - margin) > 0).mean())
            sentences.append(f"{share:.1%} {saying} {mark} = {margin:g}")
        elif mark == "m⁺":  # every pair lies beyond a margin of 0: that would say nothing
            sentences.append(f"Same-class pairs lie {distances[chosen].mean():.3f} apart on average")
        else:  # and none lies nearer than that
            sentences.append(f"{'no' if sentences else 'No'} other-class pair can lie nearer than {mark} = {margin:g}")
        fig.add_vline(
            x=margin,
            line={"color": INK, "width": 2, "dash": "dot"},
            annotation={"text": f"{mark} = {margin:g}", "yanchor": "bottom"},
        )
    return sentences


def _pairs(x: Floats) -> Floats:
    """(n (n − 1) / 2,) distances of all pairs i < j, by direct differences so that near pairs keep their digits."""
    parts = [np.linalg.norm(x[i + 1 :] - x[i], axis=1) for i in range(len(x) - 1)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _pairs_together(y: Any) -> Any:
    parts = [y[i + 1 :] == y[i] for i in range(len(y) - 1)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _means(distances: Floats, together: Any) -> str:
    parts = [
        f"{name} {distances[chosen].mean():.3f}"
        for name, chosen in (("within classes", together), ("between classes", ~together))
        if chosen.any()
    ]
    return "Mean distance " + ", ".join(parts)
