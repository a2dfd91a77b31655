"""ProxyGML's subgraph of one sample: the proxies that it is connected to, and what the classes get from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.losses import ProxyGMLLoss
from labkit.plots.marks import short
from labkit.plots.palette import FAINT, INK, PROXY_SYMBOL, class_color, plain, present
from labkit.plots.plane import Plane
from labkit.plots.reading import Floats, check_pixels, float_array, label_array, names_of
from labkit.validation import check_number, describe

WIDTHS = (0.8, 7.0)  # of the edges of least and of largest similarity, pixels
BARS = 12  # classes that fit beside the picture


def sample_subgraph(
    loss: ProxyGMLLoss,
    embeddings: Any,
    labels: Any,
    sample: int = 0,
    *,
    class_names: Sequence[str] | None = None,
    title: str | None = None,
    width: int = 910,
) -> Any:
    """Draw one sample, the proxies it is connected to and the sums of similarities by class that enter the softmax.

    Left: proxies as squares, filled where selected; edges to the sample, the wider the more similar (dashed where the
    similarity is negative). Right: the sum Z of the connected similarities of each class and its share in the softmax;
    with the mask only classes that the subgraph reaches take part.

    Parameters
    ----------
    loss : a ProxyGMLLoss; its proxies and `subgraph` are drawn. embeddings : (n, D), D as the loss has it; D > 2 is
        drawn in the two first principal components of the proxies. labels : (n,) in 0 … C − 1.
    sample : row of the sample to draw. class_names : name of each class, else its number.
    title : instead of the finding. width : pixels; the height is four sevenths of it.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : another loss, input that the loss refuses, or a sample that is no row.

    Reference: Zhu et al., "Fewer is More", equations 4 to 8 and figure 2.
    """
    check_pixels("width", width)
    if not isinstance(loss, ProxyGMLLoss):
        raise LabError("loss", "a ProxyGMLLoss, which tells its subgraph", describe(loss))
    x = float_array("embeddings", embeddings, "n, D")
    y = label_array("labels", labels, len(x))
    row = int(check_number("sample", sample, low=0, high=len(x) - 1, whole=True))
    graph = loss.subgraph(torch.as_tensor(x[row : row + 1]), torch.as_tensor(y[row : row + 1]))
    chosen, similarities = graph.indices[0].numpy(), graph.similarities[0].double().numpy()
    owners = np.arange(len(loss.weight)) // loss.proxies_per_class
    names = [plain(name) for name in names_of(np.arange(loss.num_classes), class_names)]
    proxies = loss.normalized(loss.weight.detach()).double().numpy()
    point = loss.normalized(torch.as_tensor(x[row : row + 1])).double().numpy()
    plane = Plane.of(proxies)
    fig = make_subplots(1, 2, column_widths=[0.62, 0.38], horizontal_spacing=0.1)
    edges = _edge_traces(plane(proxies)[chosen], plane(point)[0], owners[chosen], similarities)
    for trace in (*edges, *_node_traces(plane(proxies), plane(point)[0], chosen, owners, int(y[row]), names)):
        fig.add_trace(trace, 1, 1)
    sums, share = class_sums(loss, owners[chosen], similarities, int(y[row]))
    fig.add_trace(_bars(sums, share, int(y[row]), names), 1, 2)
    own = int((owners[chosen] == y[row]).sum())
    reached = len(set(owners[chosen].tolist()) - {int(y[row])})
    text = (
        f"Sample {row} of class {names[y[row]]} sees {len(chosen)} of {len(owners)} proxies: {own} of its own class, "
        f"{len(chosen) - own} of {reached} other class{'es' if reached != 1 else ''}"
    )
    note = f"width of an edge: similarity, {similarities.min():.2f} … {similarities.max():.2f}"
    note += f"; {plane.note}" if plane.note else ""
    present(fig, title or text, note, width=width, height=round(width / 1.75), above=10)
    _axes(fig, np.concatenate([plane(proxies), plane(point)]), "principal component" if plane.projected else "coordinate")
    return fig


def class_sums(loss: ProxyGMLLoss, owners: Any, similarities: Floats, label: int) -> tuple[Floats, Floats]:
    """Sum Z (C,) of one sample's connected similarities by class, and each class's share (C,) in the softmax.

    Parameters
    ----------
    owners, similarities : (k,) classes and similarities of the connected proxies. label : the sample's class.

    A class without a connected proxy has Z = 0 and, with the mask softmax, the share 0 unless it is the true one.
    """
    sums: Floats = np.bincount(owners, weights=similarities, minlength=loss.num_classes).astype(np.float64)
    taking_part = np.bincount(owners, minlength=loss.num_classes) > 0
    taking_part[label] = True
    if not loss.mask_softmax:
        taking_part[:] = True
    powers = np.where(taking_part, np.exp(sums - sums[taking_part].max()), 0.0)
    return sums, powers / powers.sum()


def _edge_traces(ends: Floats, start: Floats, owners: Any, similarities: Floats) -> list[Any]:
    spread = float(np.ptp(similarities)) or 1.0
    widths = WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * (similarities - similarities.min()) / spread
    return [
        go.Scatter(
            x=short(np.array([start[0], end[0]])), y=short(np.array([start[1], end[1]])), mode="lines", opacity=0.65,
            line={"color": class_color(int(c)), "width": round(float(w), 2), "dash": "solid" if s >= 0 else "dash"},
            showlegend=False, hoverinfo="skip",
        )
        for end, c, w, s in zip(ends, owners, widths, similarities, strict=True)
    ]  # fmt: skip


def _apart(xy: Floats, names: list[str]) -> list[str]:
    """The names, but one alone where proxies have come together: written on top of each other nobody reads them."""
    near = 0.1 * max(float(np.ptp(xy)), 1e-9) if len(xy) else 0.0
    shown: list[int] = []
    for i, place in enumerate(xy):
        if all(float(np.linalg.norm(place - xy[j])) > (near if names[i] == names[j] else 0.3 * near) for j in shown):
            shown.append(i)
    return [name if i in shown else "" for i, name in enumerate(names)]


def _node_traces(xy: Floats, point: Floats, chosen: Any, owners: Any, label: int, names: list[str]) -> list[Any]:
    selected, inside = np.isin(np.arange(len(xy)), chosen), max(map(len, names)) <= 2  # a short name fits into its square
    traces = []
    for mask, name in ((~selected, "not connected"), (selected, "connected")):
        colors = [class_color(int(c)) for c in owners[mask]]
        fill = colors if name == "connected" else "white"
        traces.append(
            go.Scatter(
                x=short(xy[mask, 0]), y=short(xy[mask, 1]), mode="markers+text" if name == "connected" else "markers",
                marker={"symbol": PROXY_SYMBOL, "size": (16 if inside else 13) if name == "connected" else 8, "color": fill,
                        "line": {"width": 1.5, "color": colors or INK}},
                opacity=1.0 if name == "connected" else 0.6, text=_apart(xy[mask], [names[c] for c in owners[mask]]),
                textposition="middle center" if inside else "top right", name=f"proxy, {name}",
                textfont={"size": 11, "color": "white"} if inside else None,
                hovertext=[names[c] for c in owners[mask]],
                hovertemplate=f"proxy of class %{{hovertext}}, {name}<extra></extra>",
            )
        )  # fmt: skip
    star = go.Scatter(
        x=[float(point[0])], y=[float(point[1])], mode="markers", name=f"the sample, class {names[label]}",
        marker={"symbol": "star", "size": 19, "color": class_color(label), "line": {"width": 1.5, "color": INK}},
        hovertemplate=f"the sample, class {names[label]}<extra></extra>",
    )  # fmt: skip
    return [*traces, star]


def _bars(sums: Floats, share: Floats, label: int, names: list[str]) -> Any:
    """The classes with the largest shares, the own class among them, in the order of classes."""
    first = [c for c in np.argsort(-share, kind="stable") if c != label][: BARS - 1]
    shown = sorted([label, *(int(c) for c in first)])
    return go.Bar(
        y=[f"{names[c]}{' (own)' if c == label else ''}" for c in shown], x=[round(float(sums[c]), 4) for c in shown],
        orientation="h", showlegend=False, marker={"color": [class_color(c) for c in shown]},
        text=[f"{share[c]:.0%}" if share[c] > 0 else "left out" for c in shown], textposition="auto",
        hovertemplate="class %{y}: Z = %{x:.3f}, share %{text}<extra></extra>",
    )  # fmt: skip


def _axes(fig: Any, xy: Floats, axis: str) -> None:
    extent = 1.25 * float(np.abs(xy).max())
    square = {"range": [-extent, extent], "showgrid": False, "title_standoff": 4}
    fig.update_xaxes(title_text=f"{axis} 1", constrain="domain", **square, row=1, col=1)
    fig.update_yaxes(title_text=f"{axis} 2", scaleanchor="x", **square, row=1, col=1)
    fig.update_xaxes(title_text="Z, sum of similarities; share in %", zeroline=True,
                     zerolinecolor=FAINT, row=1, col=2)  # fmt: skip
    fig.update_yaxes(title_text="class", type="category", autorange="reversed", row=1, col=2)
    fig.update_layout(legend={"orientation": "h", "y": -0.2, "x": 0})
