"""SoftTriple's centres, one against many: which class each place of the plane belongs to."""

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
from labkit.plots.palette import class_color, plain, present
from labkit.plots.plane import Plane
from labkit.plots.reading import Floats, float_array, label_array, names_of, side_of
from labkit.validation import describe

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
