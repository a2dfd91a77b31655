"""SoftTriple's centres: one against many, merging under the regulariser, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from scipy import ndimage

from labkit.errors import LabError
from labkit.losses import BaseProxyLoss
from labkit.plots import marks
from labkit.plots.log_ticks import log_ticks
from labkit.plots.palette import INK, class_color, plain, present, run_line
from labkit.plots.plane import Plane
from labkit.plots.reading import Floats, check_pixels, float_array, label_array, names_of, side_of
from labkit.plots.zones import center_weights
from labkit.validation import check_number, describe

REGION_PLACES = 121  # places a side at which the nearest class is told
ROOM = 5  # such places between a region's edge and its name


def class_regions(
    losses: Mapping[str, BaseProxyLoss],
    embeddings: Any,
    labels: Any,
    *,
    class_names: Sequence[str] | None = None,
    title: str | None = None,
    width: int | None = None,
) -> Any:
    """Draw which class each place of the plane belongs to, for several losses side by side, with samples and centres.

    A place belongs to the class of the largest `get_logits`. For SoftTriple with one centre per class a class is one
    sector; with several it may be in several places.

    Parameters
    ----------
    losses : {name: a loss that owns proxies}, `embedding_size` 2, for as many classes as the labels have.
    embeddings : (n, 2) samples. labels : (n,) in 0 … C − 1.
    class_names : name of each class, else its number. title : instead of the finding, the share of samples in their own
        class's region. width : pixels of the whole figure; None: 400 for each picture and 130.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : no losses, one without proxies or not for the plane, arrays that cannot be used, or a
        width that leaves no room for the pictures.

    Reference: Qian et al., "SoftTriple", figure 1 and equation 5.
    """
    x = float_array("embeddings", embeddings, "n, 2")
    y = label_array("labels", labels, len(x))
    if x.shape[1] != 2:
        raise LabError("embeddings", "two columns, (n, 2)", f"shape {x.shape}")
    if not isinstance(losses, Mapping) or not losses:
        raise LabError("losses", "a dict of losses by name", describe(losses))
    for name, loss in losses.items():
        if not isinstance(loss, BaseProxyLoss) or loss.embedding_size != 2:
            raise LabError(f"losses[{name!r}]", "a loss with proxies in two dimensions", describe(loss))
        if y.min() < 0 or y.max() >= loss.num_classes:
            raise LabError(
                "labels", f"classes 0 … {loss.num_classes - 1}, as losses[{name!r}] has", f"{y.min()} … {y.max()}"
            )
    side = side_of(width, len(losses), usual=400, around=130)
    extent = 1.15 * max(float(np.abs(x).max()), 1.0)
    at = np.linspace(-extent, extent, REGION_PLACES)
    grid = np.stack([v.ravel() for v in np.meshgrid(at, at)], axis=1)
    classes = np.arange(max(loss.num_classes for loss in losses.values()))
    names = names_of(classes, class_names)
    fig = make_subplots(1, len(losses), subplot_titles=[plain(str(name)) for name in losses], horizontal_spacing=0.04)
    sentences = []
    for column, (name, loss) in enumerate(losses.items(), start=1):
        nearest = _nearest_class(loss, grid).reshape(len(at), len(at))
        fig.add_trace(_region_trace(at, nearest, len(classes)), 1, column)
        for trace in marks.sample_traces(x, y, classes, names, legend=column == 1):
            fig.add_trace(trace, 1, column)
        centers = loss.normalized(loss.weight.detach()).double().numpy().reshape(loss.num_classes, -1, 2)
        fig.add_trace(_names_of_regions(at, nearest, names, np.concatenate((x, centers.reshape(-1, 2)))), 1, column)
        fig.add_trace(marks.proxy_trace(centers, names, size=13, legend=column == 1), 1, column)
        marks.square_axes(fig, extent, Plane.of(x), row=1, col=column, bare=True)
        sentences.append(f"{name}: {(_nearest_class(loss, x) == y).mean():.0%}")
    head = title if title is not None else f"Samples in their own class's region: {'; '.join(sentences)}"
    note = "squares: centres; tint: the class with the largest similarity"
    present(fig, head, note, width=round(side * len(losses) + 130), height=round(side), above=25)
    return fig


def _nearest_class(loss: BaseProxyLoss, points: Floats) -> Any:
    with torch.no_grad():
        return loss.get_logits(torch.as_tensor(points, dtype=torch.float32)).argmax(dim=1).numpy()


def _region_trace(at: Floats, nearest: Any, n: int) -> Any:
    colors = [class_color(c) for c in range(n)]
    steps = [[edge, color] for c, color in enumerate(colors) for edge in (c / n, (c + 1) / n)]
    return go.Heatmap(x=at, y=at, z=nearest, zmin=-0.5, zmax=n - 0.5, colorscale=steps, opacity=0.18, showscale=False,
                      hovertemplate="class %{z}<extra></extra>")  # fmt: skip


def _names_of_regions(at: Floats, nearest: Any, names: list[str], drawn: Floats) -> Any:
    """A class's name in each of its regions that is wide enough for it, as far as can be from its edge and what is drawn."""
    xy, texts, colors = [], [], []
    places = np.abs(drawn[:, :, None] - at).argmin(axis=2)
    free = np.ones(nearest.shape, dtype=bool)
    free[places[:, 1], places[:, 0]] = False
    for index, name in enumerate(names):
        pieces, count = ndimage.label(nearest == index)
        for piece in range(1, count + 1):
            inside = np.pad(pieces == piece, 1)
            whole, clear = (ndimage.distance_transform_edt(mask)[1:-1, 1:-1] for mask in (inside, inside & np.pad(free, 1)))
            depth = clear if clear.max() >= ROOM else whole
            if depth.max() >= ROOM:
                row, column = np.unravel_index(int(depth.argmax()), depth.shape)
                xy.append((at[column], at[row]))
                texts.append(f"<b>{plain(name)}</b>")
                colors.append(class_color(index))
    x, y = np.array(xy).reshape(-1, 2).T
    return go.Scatter(x=marks.short(x), y=marks.short(y), mode="text", text=texts, textfont={"size": 15, "color": colors},
                      showlegend=False, hoverinfo="skip")  # fmt: skip


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
    fig.update_xaxes(type="log")
    fig.update_xaxes(title_text="γ (logarithmic)", row=2)
    fig.update_yaxes(title_text="weight of the centre", range=[-0.03, 1.03], row=1)
    fig.update_yaxes(title_text="similarity S'<br>to the class", row=2)
    return fig
