"""Which way a sample would be moved from every place of the plane, among fixed proxies or samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.plots.histograms import OTHER, SAME
from labkit.plots.marks import short
from labkit.plots.palette import FAINT, INK, present
from labkit.plots.probing import Scene, ask, make_scene, measured, owns_weight, prepared
from labkit.plots.reading import Floats, check_pixels
from labkit.plots.zones import active, rule_of
from labkit.validation import check_flag, check_number

BESIDE = 270  # pixels of axis and legend
FINE = 121  # places a side at which zones are looked up
DECADES = 3.0  # that a logarithmic arrow tells apart: one a thousandth as strong has no length
QUANTILE = 0.9  # of the lengths that fills a cell: the few largest would make all others too short to be seen
LONGEST = 1.6  # cells; what is stronger is drawn no longer
TINTS = ("#FFFFFF", "#DCEBF5", "#FBE6DA", "#E9E0EE")  # nothing acts, own class pulls, others push, both


@dataclass(frozen=True)
class Field:
    """A loss and its negative gradient over a square of the plane.

    Attributes
    ----------
    scene : the fixed references and the moving sample's class.
    at : (n,) coordinates of the grid's columns and rows. loss : (n, n), rows from low to high.
    force : (n, n, 2) the negative gradient with respect to the sample before its normalisation.
    fine : (m,) coordinates at which zones are told. pulled, pushed : (m, m) whether a reference of the own class, of
        another, acts there; None for a loss that `labkit.plots.zones` does not know.
    texts : why references of the own class pull, and why others push.
    """

    scene: Scene
    at: Floats
    loss: Floats
    force: Floats
    fine: Floats
    pulled: Any
    pushed: Any
    texts: tuple[str, str]

    def strength_at_cell(self) -> float:
        """Length of the gradient that an arrow of one cell stands for on the linear scale."""
        lengths = np.linalg.norm(self.force, axis=2)
        acting = lengths[lengths > 1e-9 * max(float(lengths.max()), 1e-300)]
        return float(np.quantile(acting, QUANTILE)) if len(acting) else 1.0


def field_values(
    loss: Any,
    references: Any = None,
    reference_labels: Any = None,
    *,
    label: int = 0,
    extent: float = 1.2,
    grid: int = 25,
) -> Field:
    """Compute what `gradient_field` draws; parameters and errors are described there."""
    grid = int(check_number("grid", grid, low=3, high=200, whole=True))
    extent = check_number("extent", extent, low=0.0, high=1e6, open_low=True)
    rule = rule_of(loss)
    loss = prepared(loss)
    scene = make_scene(loss, references, reference_labels, label)
    at, fine = np.linspace(-extent, extent, grid), np.linspace(-extent, extent, FINE)
    values, gradients = ask(loss, _square(at), scene)
    mask = active(loss, *measured(loss, _square(fine), scene.references), scene)
    sides = None if mask is None else [mask[:, w].any(axis=1).reshape(FINE, FINE) for w in (scene.same, ~scene.same)]
    return Field(
        scene=scene,
        at=at,
        loss=values.reshape(grid, grid),
        force=-gradients.reshape(grid, grid, 2),
        fine=fine,
        pulled=None if sides is None else sides[0],
        pushed=None if sides is None else sides[1],
        texts=rule.texts(loss) if rule else ("", ""),
    )


def _square(at: Floats) -> Floats:
    """(n², 2) places of a square, row by row."""
    x, y = np.meshgrid(at, at)
    return np.stack([x.ravel(), y.ravel()], axis=1)


def gradient_field(
    loss: Any,
    references: Any = None,
    reference_labels: Any = None,
    *,
    label: int = 0,
    extent: float = 1.2,
    grid: int = 25,
    log: bool = False,
    title: str | None = None,
    width: int = 830,
) -> Any:
    """Draw the way in which gradient descent moves one sample, from each place of the plane, among fixed references.

    Each place is a sample alone among the references, in a call of its own, which is how the loss sees it in a batch
    of one. Arrows point along the negative gradient with respect to the sample *before* the loss's normalisation: on
    the sphere they have no part towards the origin, and grow as 1 / length near it. Behind them lines of equal loss;
    tinted, where references of the own class pull (blue), where others push (orange) and where both do (violet), as the
    loss's formula has it. Parts that no sample changes are left out; a pair loss has the sample as its anchor.

    Parameters
    ----------
    loss : any loss with the interface of `labkit.losses`, also one of your own.
    references : (M, 2) fixed samples or proxies. reference_labels : (M,) their classes, whole numbers. A loss that owns
        proxies takes them as its `weight`, K for each of its classes; None: those that it has.
    label : class of the moving sample. extent : half the side of the square. grid : arrows a side, 3 … 200; 25 take a second.
    log : arrows as long as the logarithm of the gradient over three decades, instead of proportional to it.
    title : instead of the loss's name. width : pixels of the whole figure, 270 of them beside the plane.

    Returns
    -------
    plotly.graph_objects.Figure; its subtitle says what an arrow of one grid cell stands for. On the linear scale arrows
    longer than 1.6 cells are cut.

    Raises
    ------
    LabError : no loss, references that do not fit it or each other, a label that none of them has, NaN, or a setting
        out of its range.
    """
    size = round(check_pixels("width", width, around=BESIDE)) - BESIDE
    check_flag("log", log)
    field = field_values(loss, references, reference_labels, label=label, extent=extent, grid=grid)
    finer = field_values(loss, references, reference_labels, label=label, extent=extent, grid=min(2 * grid - 1, 200))
    marks = reference_traces(field.scene, owns_weight(loss))
    fig = go.Figure([*ground_traces(field, finer), *arrow_traces(field, log=log), *marks, *key_traces(field)])
    fig.update_layout(shapes=[circle_shape()])
    square = {"range": [-extent, extent], "constrain": "domain", "showgrid": False}
    fig.update_xaxes(title_text="sample before normalisation, coordinate 1", **square)
    fig.update_yaxes(title_text="coordinate 2", scaleanchor="x", scaleratio=1, **square)
    rule = rule_of(loss)
    goes = f"{rule.title if rule else type(loss).__name__}: where a sample of class {label} goes"
    present(fig, goes if title is None else title, scale_note(field, log), width=size + BESIDE, height=size)
    fig.update_layout(legend={"y": 1.0, "x": 1.02, "font": {"size": 12}}, margin={"r": 260})
    return fig


def scale_note(field: Field, log: bool) -> str:
    """What the arrows' lengths mean, as a line of text."""
    unit = field.strength_at_cell()
    if not np.any(field.force):
        return "No arrows: the gradient is 0 everywhere"
    if log:
        return f"An arrow as long as arrows stand apart: a gradient of {unit:.3g}; each third of it less: a tenth of that"
    return f"An arrow as long as arrows stand apart: a gradient of {unit:.3g}, in this picture; cut at {LONGEST} times that"


def ground_traces(field: Field, finer: Field | None = None) -> list[Any]:
    """What acts as a tint, the edges of the two zones, and lines of equal loss, from a `finer` field where there is one."""
    lines = finer or field
    nothing = np.zeros((FINE, FINE), dtype=bool)
    sides = [nothing if acting is None else acting for acting in (field.pulled, field.pushed)]
    kinds = sides[0].astype(np.int8) + 2 * sides[1].astype(np.int8)
    steps = [[at, color] for i, color in enumerate(TINTS) for at in (i / len(TINTS), (i + 1) / len(TINTS))]
    tint = go.Heatmap(x=field.fine, y=field.fine, z=kinds, zmin=-0.5, zmax=len(TINTS) - 0.5, colorscale=steps,
                      showscale=False, hoverinfo="skip", name="what acts")  # fmt: skip
    edges = [
        go.Contour(
            x=field.fine, y=field.fine, z=acting.astype(np.int8), showscale=False, hoverinfo="skip", showlegend=False,
            contours={"start": 0.5, "end": 0.5, "size": 1, "coloring": "none"},
            line={"color": color, "width": 1.5, "dash": "dot"},
        )
        for acting, color in zip(sides, (SAME, OTHER), strict=True)
    ]  # fmt: skip
    levels = go.Contour(
        x=lines.at, y=lines.at, z=short(lines.loss), ncontours=9, showscale=False, showlegend=False, name="loss",
        contours={"coloring": "none", "showlabels": True, "labelfont": {"size": 10, "color": "#777777"}},
        line={"color": "#AAAAAA", "width": 1}, hovertemplate="(%{x:.2f}, %{y:.2f}): loss %{z:.3f}<extra></extra>",
    )  # fmt: skip
    return [tint, *edges, levels]


def key_traces(field: Field) -> list[Any]:
    """Empty traces that name lines and tints in the legend; no tints where nothing is known about the loss."""
    keys = [go.Scatter(x=[None], y=[None], mode="lines", line={"color": "#AAAAAA"}, name="equal loss")]
    if field.pulled is None:
        return keys
    for color, what in ((SAME, "edge of the pulls"), (OTHER, "edge of the pushes")):
        edge = {"color": color, "width": 1.5, "dash": "dot"}
        keys.append(go.Scatter(x=[None], y=[None], mode="lines", line=edge, name=what))
    texts = f"own class pulls:<br>{field.texts[0]}", f"others push:<br>{field.texts[1]}", "both at once", "nobody acts"
    rims = SAME, OTHER, FAINT, FAINT
    return keys + [
        go.Scatter(x=[None], y=[None], mode="markers", name=text,
                   marker={"symbol": "square", "size": 15, "color": tint, "line": {"color": rim, "width": 1}})
        for text, tint, rim in zip(texts, (*TINTS[1:], TINTS[0]), rims, strict=True)
    ]  # fmt: skip


def arrow_traces(field: Field, *, log: bool = False) -> list[Any]:
    """The arrows' shafts and heads. A place without gradient has none."""
    cell = field.at[1] - field.at[0]
    lengths = np.linalg.norm(field.force, axis=2).ravel()
    unit = field.strength_at_cell()
    if log:
        drawn = np.clip(1 + np.log10(np.maximum(lengths, 1e-300) / unit) / DECADES, 0, LONGEST)
    else:
        drawn = np.minimum(lengths / unit, LONGEST)
    seen = drawn > 0.02
    tails = _square(field.at)[seen]
    forces = field.force.reshape(-1, 2)[seen]
    tips = tails + cell * drawn[seen, None] * forces / lengths[seen, None]
    gap = np.full(len(tails), np.nan)
    xy = np.stack([tails, tips, np.stack([gap, gap], axis=1)], axis=1).reshape(-1, 2)
    shafts = go.Scatter(x=short(xy[:, 0]), y=short(xy[:, 1]), mode="lines", line={"color": INK, "width": 1.4},
                        name="negative gradient", hoverinfo="skip", showlegend=False, connectgaps=False)  # fmt: skip
    heads = go.Scatter(
        x=short(tips[:, 0]), y=short(tips[:, 1]), mode="markers", name="negative gradient",
        marker={"symbol": "triangle-up", "size": np.clip(4 + 4 * drawn[seen], 4, 8).round(1), "color": INK,
                "angle": np.degrees(np.arctan2(forces[:, 0], forces[:, 1])).round(1)},
        customdata=lengths[seen].round(4), hovertemplate="gradient %{customdata}<extra></extra>",
    )  # fmt: skip
    return [shafts, heads]


def reference_traces(scene: Scene, proxies: bool) -> list[Any]:
    """The fixed references: proxies as squares, samples as discs; the own class in blue, others in orange and numbered."""
    kind = "proxies" if proxies else "references"
    traces = []
    for chosen, color, name in ((scene.same, SAME, "own class"), (~scene.same, OTHER, "other classes")):
        xy = scene.references[chosen]
        traces.append(
            go.Scatter(
                x=short(xy[:, 0]), y=short(xy[:, 1]), mode="markers+text", name=f"{kind}, {name}",
                marker={"symbol": "square" if proxies else "circle", "size": 13 if color == SAME else 12, "color": color,
                        "line": {"width": 1.5, "color": "white"}},
                text=[f"<b>{c}</b>" for c in scene.labels[chosen]], textposition="top right",
                textfont={"color": color, "size": 14, "shadow": ", ".join(["0px 0px 2px white"] * 6)},
                hovertemplate="class %{text} (%{x:.3f}, %{y:.3f})<extra></extra>",
            )
        )  # fmt: skip
    return traces


def circle_shape() -> dict[str, Any]:
    """The unit circle, faintly."""
    line = {"color": FAINT, "width": 1, "dash": "dot"}
    return {"type": "circle", "x0": -1, "y0": -1, "x1": 1, "y1": 1, "line": line}
