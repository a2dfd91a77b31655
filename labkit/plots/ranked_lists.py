"""Ranked list loss seen from one query: its gallery by distance, the margin zone, and how negatives are weighed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.plots.histograms import OTHER, SAME
from labkit.plots.palette import INK, plain, present, run_line, translucent
from labkit.plots.reading import Floats, check_pixels, float_array, label_array
from labkit.validation import check_number, describe


def negative_weights(distances: Any, temperature: float, alpha: float = 1.2) -> Floats:
    """Share of each negative in ranked list loss's `L_N`, (n,): `exp(T (α − d))` over those with d < α, sum 1.

    Parameters
    ----------
    distances : (n,) of the negatives, >= 0. temperature : T >= 0; `math.inf` leaves the hardest alone (those that tie
        share). alpha : α, the distance that negatives shall keep. Without any nearer than that all weights are 0.

    Raises
    ------
    LabError : distances that are negative, not finite or not (n,), a temperature or α below 0.

    Reference: Wang et al., "Ranked List Loss", equations 11 and 12.
    """
    d = float_array("distances", distances, "n")
    if d.min() < 0:
        raise LabError("distances", "numbers >= 0", f"{d.min():g}")
    check_number("alpha", alpha, low=0.0)
    if temperature != np.inf:
        check_number("temperature", temperature, low=0.0)
    costing = d < alpha
    if not costing.any():
        return np.zeros_like(d)
    gaps = d[costing].min() - d  # 0 for the hardest
    with np.errstate(invalid="ignore"):
        powers = (gaps == 0).astype(float) if temperature == np.inf else np.exp(np.minimum(temperature * gaps, 0.0))
    powers = np.where(costing, powers, 0.0)
    weights: Floats = powers / powers.sum()
    return weights


def ranked_list(
    embeddings: Any,
    labels: Any,
    query: int,
    *,
    alpha: float = 1.2,
    margin: float = 0.4,
    temperature: float = 10.0,
    title: str | None = None,
    width: int = 860,
) -> Any:
    """Draw the gallery of one sample by its distance: own class in one row, others in another, with the margin zone.

    Filled marks cost something: positives beyond α − m (the set P* of ranked list loss) and negatives within α (N*);
    a negative's size shows its weight in `L_N`. Hollow marks are where they should be.

    Parameters
    ----------
    embeddings : (n, D) as the loss sees them (l2-normalised for ranked list loss), or a dict of such arrays by name,
        "before" and "after" for example, drawn below each other. Same samples in the same order.
    labels : (n,) whole numbers. query : row of the sample whose list is drawn.
    alpha, margin, temperature : α, m and T of the loss.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : shapes that disagree, NaN, a query that is no row or has no gallery, a margin above α, or a setting out of
        its range.

    Reference: Wang et al., "Ranked List Loss", figure 2 and equations 8 to 14.
    """
    check_pixels("width", width)
    named = embeddings if isinstance(embeddings, Mapping) else {"": embeddings}
    if not named:
        raise LabError("embeddings", "at least one array", "an empty dict")
    check_number("alpha", alpha, low=0.0, high=1e6)
    check_number("margin", margin, low=0.0, high=alpha)
    lists = {plain(str(name)): _gallery(str(name), x, labels, query) for name, x in named.items()}
    fig = make_subplots(len(lists), 1, shared_xaxes=True, vertical_spacing=0.16 / len(lists),
                        subplot_titles=[f"<b>{name}</b>" for name in lists])  # fmt: skip
    sentences = []
    largest = max(float(d.max()) for d, _, _ in lists.values())
    for row, (name, (d, same, others)) in enumerate(lists.items(), start=1):
        weights = negative_weights(d[~same], temperature, alpha) if (~same).any() else np.zeros(0)
        far, near = d[same] > alpha - margin, d[~same] < alpha
        fig.add_trace(
            _marks(d[same], others[same], far, SAME, "own class", 1.0, np.full(same.sum(), 12.0), row == 1), row, 1
        )
        sizes = 9 + 22 * np.sqrt(weights)
        fig.add_trace(_marks(d[~same], others[~same], near, OTHER, "other classes", 0.0, sizes, row == 1), row, 1)
        fig.add_vrect(
            x0=alpha - margin, x1=alpha, fillcolor=translucent(INK, 0.08), line_width=0, layer="below", row=row, col=1
        )
        for at, text, anchor in (
            (alpha - margin, f"α − m = {alpha - margin:g}", "right"),
            (alpha, f"α = {alpha:g}", "left"),
        ):
            fig.add_vline(x=at, line={"color": INK, "width": 1, "dash": "dot"}, row=row, col=1)
            fig.add_annotation(x=at, y=0.5, text=text, showarrow=False, xanchor=anchor, row=row, col=1, font_size=12)
        counts = f"|P*| = {far.sum()} of {same.sum()}, |N*| = {near.sum()} of {(~same).sum()}"
        sentences.append(f"{name}: {counts}" if name else counts)
    fig.update_xaxes(range=[0, max(1.05 * largest, 1.1 * alpha, 0.1)])
    fig.update_xaxes(title_text=f"distance to sample {query}", row=len(lists))
    fig.update_yaxes(tickvals=[0, 1], ticktext=["other classes", "own class"], range=[-0.7, 1.6], showgrid=False)
    note = "Filled: costs something (own class beyond α − m, others within α); the size of a negative shows its weight"
    head = title if title is not None else "; ".join(sentences)
    present(fig, head, note, width=width, height=60 + 150 * len(lists), above=25)
    fig.update_layout(showlegend=False)
    return fig


def _gallery(name: str, embeddings: Any, labels: Any, query: int) -> tuple[Floats, Any, Any]:
    """Of all but the query, nearest first: distances, whether of its class, and their rows."""
    x = float_array(f"embeddings[{name!r}]" if name else "embeddings", embeddings, "n, D")
    y = label_array("labels", labels, len(x))
    row = int(check_number("query", query, low=0, high=len(x) - 1, whole=True))
    if len(x) < 2:
        raise LabError("embeddings", "at least two samples", f"{len(x)}")
    d = np.linalg.norm(x - x[row], axis=1)
    order = np.array([i for i in np.argsort(d, kind="stable") if i != row])
    return d[order], y[order] == y[row], order


def _marks(d: Floats, rows: Any, costs: Any, color: str, name: str, y: float, sizes: Floats, legend: bool) -> Any:
    symbol = "circle" if color == SAME else "diamond"
    return go.Scatter(
        x=d.round(4), y=np.full(len(d), y), mode="markers", name=name, showlegend=legend, customdata=rows,
        marker={"symbol": symbol, "size": sizes.round(1), "opacity": 0.75,
                "color": [translucent(color, 0.8) if c else "rgba(255,255,255,0)" for c in costs],
                "line": {"color": color, "width": 1.3}},
        hovertemplate=f"{name}, sample %{{customdata}}: d = %{{x:.3f}}<extra></extra>",
    )  # fmt: skip


def negative_weight_curves(
    distances: Any,
    *,
    alpha: float = 1.2,
    temperatures: Sequence[float] = (0.0, 1.0, 5.0, 10.0, 50.0, np.inf),
    title: str | None = None,
    width: int = 860,
) -> Any:
    """Draw each negative's share in `L_N` against its distance, one line per temperature T from 0 to infinity.

    Parameters
    ----------
    distances : (n,) of a query's negatives. alpha : α. temperatures : values of T >= 0, `math.inf` allowed.
    title : instead of the finding, the share of the hardest negative at each T. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure, both axes linear; shares of one line add up to 1.

    Raises
    ------
    LabError : as `negative_weights`; no temperatures, or `width` < 10.

    Reference: Wang et al., "Ranked List Loss", equations 11 and 12, table on T.
    """
    check_pixels("width", width)
    if not hasattr(temperatures, "__len__") or len(temperatures) == 0 or isinstance(temperatures, str):
        raise LabError("temperatures", "a list of numbers >= 0", describe(temperatures))
    d = np.sort(float_array("distances", distances, "n"))
    fig, sentences = go.Figure(), []
    for index, temperature in enumerate(temperatures):
        share = negative_weights(d, temperature, alpha)
        name = "T = ∞" if temperature == np.inf else f"T = {temperature:g}"
        fig.add_scatter(
            x=d.round(4), y=share, mode="lines+markers", name=name, line=run_line(index) | {"width": 1.5},
            marker={"size": 7, "symbol": index}, hovertemplate=f"{name}: d = %{{x:.3f}}, share %{{y:.3f}}<extra></extra>",
        )  # fmt: skip
        sentences.append(f"{share[0]:.0%} at {name}")
    fig.add_vline(x=alpha, line={"color": INK, "width": 1, "dash": "dot"},
                  annotation={"text": f"α = {alpha:g}", "yanchor": "bottom"})  # fmt: skip
    count = int((d < alpha).sum())
    head = title if title is not None else f"Share of the hardest negative: {', '.join(sentences)}"
    note = (
        f"{count} of {len(d)} negatives lie within α and share the weight; T = 0: all alike, T → ∞: the hardest alone"
    )
    present(fig, head, note, width=width, height=360, above=20)
    fig.update_xaxes(title_text="distance of the negative to the query", rangemode="tozero")
    fig.update_yaxes(title_text="share in L_N (sum 1)", range=[-0.03, 1.05])
    return fig
