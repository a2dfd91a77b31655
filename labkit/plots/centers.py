"""SoftTriple's centres: merging under the regulariser, and the choice among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.plots.log_ticks import log_ticks
from labkit.plots.palette import INK, class_color, present, run_line
from labkit.plots.reading import Floats, check_pixels, float_array
from labkit.plots.zones import center_weights
from labkit.validation import check_number


def distinct_centers(centers: Any, threshold: float = 0.1) -> Any:
    """How many centres of each class (C,) are left when those nearer than `threshold` to each other count as one.

    Nearer in steps: A near B and B near C makes one of all three.

    Parameters
    ----------
    centers : (C, K, D) as the loss sees them, normalised. threshold : distance > 0.

    Raises
    ------
    LabError : another shape, NaN, or a threshold not above 0.
    """
    points = float_array("centers", centers, "C, K, D")
    check_number("threshold", threshold, low=0.0, open_low=True)
    return np.array([_groups(own, threshold) for own in points])


def _groups(points: Floats, threshold: float) -> int:
    near = np.linalg.norm(points[:, None] - points[None], axis=2) < threshold
    owner = np.arange(len(points))
    for i in range(len(points)):
        for j in np.flatnonzero(near[i]):
            owner[owner == owner[j]] = owner[i]
    return len(set(owner.tolist()))


def center_merging(
    taus: Any, centers: Any, *, threshold: float = 0.1, title: str | None = None, width: int = 760
) -> Any:
    """Draw how SoftTriple's centres merge as the regulariser's weight τ grows.

    Above the number of distinct centres per class, thin for each class and thick for the mean; below the mean distance
    between a class's own centres, on a logarithmic axis.

    Parameters
    ----------
    taus : (T,) weights >= 0, `weight_reg_weight` of the loss. centers : (T, C, K, D) normalised centres after training
        with each, K >= 2. threshold : distance within which centres count as one. title : instead of the finding.
        width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure; the places of τ on its axis are even, whatever the values.

    Raises
    ------
    LabError : shapes that disagree, a single centre per class, a negative τ, or a threshold not above 0.

    Reference: Qian et al., "SoftTriple", equation 9 and section 3.3.
    """
    check_pixels("width", width)
    tau = float_array("taus", taus, "T")
    points = float_array("centers", centers, "T, C, K, D")
    if len(points) != len(tau) or tau.min() < 0:
        raise LabError("taus", f"one weight >= 0 for each of {len(points)} sets of centres", f"{tau.tolist()}")
    if points.shape[2] < 2:
        raise LabError("centers", "at least two centres per class", f"shape {points.shape}")
    counts = np.stack([distinct_centers(own, threshold) for own in points])  # (T, C)
    k = points.shape[2]
    spread = [np.linalg.norm(own[:, :, None] - own[:, None], axis=3).sum() / (len(own) * k * (k - 1)) for own in points]
    ticks = [f"{t:g}" for t in tau]
    fig = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.08)
    for c in range(counts.shape[1]):
        fig.add_scatter(x=ticks, y=counts[:, c], mode="lines", line={"color": class_color(c), "width": 1}, opacity=0.5,
                        name=f"class {c}", showlegend=False, row=1, col=1)  # fmt: skip
    line = run_line(0) | {"width": 4}
    fig.add_scatter(x=ticks, y=counts.mean(axis=1), mode="lines+markers", line=line, name="mean", row=1, col=1)
    fig.add_scatter(x=ticks, y=np.maximum(spread, 1e-6), mode="lines+markers", line=line, name="mean", row=2, col=1)
    fig.update_yaxes(title_text=f"distinct centres<br>of {k} per class", range=[0, k + 0.5], row=1)
    fig.update_yaxes(title_text="mean distance of own<br>centres (logarithmic)", **log_ticks(np.maximum(spread, 1e-6)), row=2)
    fig.update_xaxes(type="category")
    fig.update_xaxes(title_text="τ, weight of the regulariser", row=2)
    mean = counts.mean(axis=1)
    head = f"Distinct centres per class: {mean[0]:.1f} at τ = {ticks[0]}, {mean[-1]:.1f} at τ = {ticks[-1]}"
    note = f"thin: each class; centres nearer than {threshold:g} count as one"
    present(fig, title if title is not None else head, note, width=width, height=420)
    fig.update_layout(showlegend=False)
    return fig


def center_choice(
    similarities: Any, *, gammas: Any = None, at: float | None = 0.1, title: str | None = None, width: int = 760
) -> Any:
    """Draw how SoftTriple weighs a class's centres for one sample as γ goes from 0 (the nearest alone) to ∞ (all alike).

    Parameters
    ----------
    similarities : (K,) of the sample to the class's centres. gammas : (G,) temperatures > 0, by default 0.001 … 100.
    at : a γ to mark, the loss's own; None for no mark. title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure: the weights of each centre over γ, and the class's similarity S' that they make.

    Raises
    ------
    LabError : not (K,), NaN, a γ not above 0, or `width` < 10.

    Reference: Qian et al., "SoftTriple", equations 5 to 7.
    """
    check_pixels("width", width)
    s = float_array("similarities", similarities, "K")
    gamma = np.geomspace(1e-3, 100, 101) if gammas is None else np.sort(float_array("gammas", gammas, "G"))
    if gamma.min() <= 0:
        raise LabError("gammas", "numbers above 0", f"{gamma.min():g}")
    weights = np.stack([center_weights(s, float(g)) for g in gamma])  # (G, K)
    fig = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.6, 0.4])
    for k in np.argsort(-s, kind="stable"):
        fig.add_scatter(x=gamma, y=weights[:, k], mode="lines", line=run_line(int(k)), name=f"s = {s[k]:.2f}", row=1, col=1,
                        hovertemplate="γ = %{x:.3g}: weight %{y:.3f}<extra></extra>")  # fmt: skip
    fig.add_scatter(x=gamma, y=weights @ s, mode="lines", line={"color": INK, "width": 3}, name="S'", row=2, col=1,
                    hovertemplate="γ = %{x:.3g}: S' = %{y:.3f}<extra></extra>")  # fmt: skip
    note = f"γ → 0: S' is the largest similarity, {s.max():.2f}; γ → ∞: their mean, {s.mean():.2f}"
    head = f"{len(s)} centres: from the nearest alone to all alike"
    if at is not None:
        check_number("at", at, low=0.0, open_low=True)
        fig.add_vline(x=at, line={"color": INK, "width": 1, "dash": "dot"})
        own = center_weights(s, at)
        alike = int((own > 0.9 * own.max()).sum())
        few = "the nearest" if alike == 1 else f"each of the nearest {alike}"
        head = f"At γ = {at:g} {few} of {len(s)} centres has {own.max():.0%} of the weight"
    present(fig, title if title is not None else head, note, width=width, height=420)
    fig.update_xaxes(**log_ticks(gamma, 6))
    fig.update_xaxes(title_text="γ (logarithmic)", row=2)
    fig.update_yaxes(title_text="weight of the centre", range=[-0.03, 1.03], row=1)
    fig.update_yaxes(title_text="similarity S'<br>to the class", row=2)
    return fig
