"""The CCP paper's test-domain figure in kind: a row of 2-D maps of many classes, from before training to the last problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.metrics import domain_figures
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.findings import number
from labkit.plots.marks import short
from labkit.plots.palette import GRID, INK, plain, present
from labkit.plots.projections import MOST_SAMPLES, MOST_SNAPSHOTS, project
from labkit.plots.reading import Floats, Ints, check_sample, float_array, label_array, side_of
from labkit.plots.standing_out import PALE, StandOut, looks
from labkit.validation import check_number

BARE = {"showticklabels": False, "ticks": "", "showgrid": False, "showline": True, "mirror": True, "linecolor": GRID}
OVER = (("MAP@R", "map_at_r"), ("curve", "covering"), ("E‖x − x⁻‖", "inter_class_distance"))


def problem_maps(
    embeddings: Any,
    labels: Any,
    heads: Sequence[str],
    *,
    method: str = "tsne",
    stand_out: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
    columns: int = 4,
    seed: int = 0,
    sample: int | None = None,
    title: str | None = None,
    width: int | None = None,
) -> Any:
    """Maps of the same samples at several moments of a run; over each its MAP@R, mean covering curve and inter-class distance.

    The three figures are those of all given samples in all D dimensions, not of the map: MAP@R, the mean over k and
    classes of the k-Center curve ("curve"), and E[‖x − x⁻‖], the mean distance between samples of different classes.

    Parameters
    ----------
    embeddings : (S, n, D), at most five snapshots for umap and t-SNE. labels : (n,). heads : S lines over the maps.
    method : "tsne", "umap" (aligned), "pca" or, for D = 2, "raw"; as `labkit.plots.projections.project` says, a
        sample keeps its place from map to map.
    stand_out : labels of up to eight classes with a colour and a shape; all others are pale dots. None: none, or all
        where there are at most eight.
    class_names : by label. columns : maps in a row. seed : of the layout. sample : lay out about so many samples, evenly
        per class; None: all, for umap and t-SNE at most 500.
    title : instead of the finding. width : pixels of the whole figure; None: 275 for each map of a row.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : shapes that disagree, NaN, another number of heads than snapshots, one class only, more than five
        snapshots for umap or t-SNE, a class that stands out and is not there, or a setting out of its range.

    Reference: "Deep Metric Learning with Chance Constraints", CUB figure (embedding of validation classes by problem).
    """
    x = float_array("embeddings", embeddings, "S, n, D")
    y = label_array("labels", labels, x.shape[1])
    columns = min(int(check_number("columns", columns, low=1, whole=True)), len(x))
    side = side_of(width, columns, usual=275, around=40)
    if isinstance(heads, str) or len(heads) != len(x):
        raise LabError("heads", f"a list of {len(x)}, one over each map", repr(heads)[:80])
    if method in ("umap", "tsne") and len(x) > MOST_SNAPSHOTS:
        raise LabError("embeddings", f"at most {MOST_SNAPSHOTS} snapshots for {method}", f"{len(x)} of them")
    styles = looks(stand_out, y, class_names)
    figures = domain_figures(x, y, only=[key for _, key in OVER])
    laid_out = method in ("umap", "tsne")
    layout = project(x, method, evenly_per_class(y, _most(check_sample(sample), laid_out)), seed=seed)
    rows = -(-len(x) // columns)
    over = [_over(head, {key: values[i] for key, values in figures.items()}) for i, head in enumerate(heads)]
    fig = make_subplots(rows, columns, subplot_titles=over, horizontal_spacing=0.02, vertical_spacing=0.22 / rows)
    low, high = layout.xy.min(axis=(0, 1)).astype(float), layout.xy.max(axis=(0, 1)).astype(float)
    middle, half = (low + high) / 2, 0.54 * np.maximum(high - low, 1e-6)
    if not laid_out:  # distances in the plane mean something there
        half[:] = half.max()
    for i, xy in enumerate(layout.xy):
        where = {"row": i // columns + 1, "col": i % columns + 1}
        fig.add_traces(_traces(xy, y[layout.rows], styles, legend=i == 0), rows=where["row"], cols=where["col"])
        for update, m, h in zip((fig.update_xaxes, fig.update_yaxes), middle, half, strict=True):
            update(range=[m - h, m + h], **BARE, **where)
    notes = [layout.note] if layout.note else []
    over_maps = "curve is the mean k-Center curve, E‖x − x⁻‖ the inter-class distance"
    notes += [f"over each map figures of the whole embedding: {over_maps}"]
    notes += [f"{len(styles)} of {len(np.unique(y))} classes in colour"] if 0 < len(styles) < len(np.unique(y)) else []
    head = title if title is not None else _finding(heads, figures)
    size = {"width": round(columns * side + 40), "height": round(rows * (side + 55) + 60)}
    present(fig, head, "; ".join(notes), **size, above=50)
    fig.update_layout(
        margin={"l": 15, "r": 15, "b": 60}, legend={"orientation": "h", "y": -0.03, "yanchor": "top", "x": 0, "xanchor": "left"}
    )
    fig.update_annotations(font_size=12.5)
    return fig


def _most(sample: int | None, laid_out: bool) -> int | None:
    if not laid_out:
        return sample
    return MOST_SAMPLES if sample is None else min(sample, MOST_SAMPLES)


def _over(head: str, figures: dict[str, float]) -> str:
    told = ", ".join(f"{what} {number(figures[key], 2 if key != 'map_at_r' else 3)}" for what, key in OVER)
    return f"<b>{plain(str(head))}</b><br>{told}"


def _traces(xy: Floats, labels: Ints, styles: list[StandOut], *, legend: bool) -> list[Any]:
    """Pale dots for the many, then a trace for each class that stands out."""
    rest = ~np.isin(labels, [style.label for style in styles])
    traces = []
    if rest.any():
        traces.append(_marks(xy[rest], "other classes", {"color": PALE, "size": 4, "symbol": "circle"}, legend))
    for style in styles:
        marker = {"color": style.color, "size": 7, "symbol": style.symbol, "line": {"width": 0.5, "color": INK}}
        traces.append(_marks(xy[labels == style.label], style.name, marker, legend))
    return traces


def _marks(xy: Floats, name: str, marker: dict[str, Any], legend: bool) -> Any:
    return go.Scatter(
        x=short(xy[:, 0]), y=short(xy[:, 1]), mode="markers", name=name, legendgroup=name, showlegend=legend,
        marker=marker, hovertemplate=f"{name}<extra></extra>",
    )  # fmt: skip


def _finding(heads: Sequence[str], figures: dict[str, Floats]) -> str:
    names = (("MAP@R", "map_at_r"), ("mean covering curve", "covering"), ("inter-class distance", "inter_class_distance"))
    ends = [(what, float(figures[key][0]), float(figures[key][-1])) for what, key in names]
    told = [f"{what} {number(first)} → {number(last)}" for what, first, last in ends]
    if len(heads) == 1:
        return f"MAP@R {number(float(figures['map_at_r'][0]))}"
    return f"From “{heads[0]}” to “{heads[-1]}”: {', '.join(told)}"
