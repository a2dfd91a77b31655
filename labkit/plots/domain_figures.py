"""Small panels over a run: how the embedding treats classes of training and of test, moment by moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.metrics.domains import NEIGHBOURS
from labkit.plots.palette import INK, plain, present, run_line
from labkit.plots.reading import check_pixels, float_array
from labkit.plots.standing_out import SYMBOLS
from labkit.validation import check_number, describe

NAMES = {
    "map_at_r": "MAP@R",
    "covering": "mean covering curve",
    "inter_class_distance": "inter-class distance",
    "relative": "curve / inter-class distance",
    "effective_rank": "effective rank",
    "hubness": "hubness (skewness)",
}


def domain_strips(
    domains: Mapping[str, tuple[Any, Mapping[str, Any]]],
    *,
    level: tuple[str, Mapping[str, float]] | None = None,
    columns: int = 3,
    title: str | None = None,
    width: int = 1000,
) -> Any:
    """Small panels over the training steps, a line for each domain: what happens to classes of training and of test.

    Parameters
    ----------
    domains : by name, (steps (S,), figures) with figures as `labkit.metrics.domain_figures` gives them; domains may be runs, too.
    level : a name and figures that do not move, such as those of a network that is not trained; a thin horizontal line.
    columns : panels in a row. title : instead of the finding, what became of MAP@R and of the ratio. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : no domain, no figure that all have, lengths that disagree, or a setting out of its range.
    """
    check_pixels("width", width)
    if not isinstance(domains, Mapping) or not domains:
        raise LabError("domains", "a dict of (steps, figures) by name", describe(domains))
    keys = [key for key in NAMES if all(key in figures for _, figures in domains.values())]
    if not keys:
        raise LabError("domains", f"a figure that all have, such as {', '.join(list(NAMES)[:3])}", "none")
    columns = min(int(check_number("columns", columns, low=1, whole=True)), len(keys))
    rows = -(-len(keys) // columns)
    heads = [f"<b>{NAMES[key]}</b>" for key in keys]
    fig = make_subplots(rows, columns, subplot_titles=heads, horizontal_spacing=0.07, vertical_spacing=0.32 / rows)
    for index, (name, (steps, figures)) in enumerate(domains.items()):
        at = float_array("steps", steps, "S")
        line = run_line(index)
        for place, key in enumerate(keys):
            values = np.asarray(figures[key], dtype=np.float64)
            if values.shape != at.shape:
                raise LabError(key, f"{len(at)} values, one for each step", f"shape {values.shape}")
            fig.add_trace(
                go.Scatter(
                    x=at, y=values.round(5), mode="lines+markers", name=plain(str(name)), legendgroup=str(index),
                    showlegend=place == 0, line=line, marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 7},
                    hovertemplate=f"{plain(str(name))}, step %{{x}}: %{{y:.4f}}<extra></extra>",
                ),
                row=place // columns + 1, col=place % columns + 1,
            )  # fmt: skip
    if level is not None:
        _draw_level(fig, level, keys, columns)
    notes = ["curve: mean of the k-Center curves over k and classes"] if {"covering", "relative"} & set(keys) else []
    notes += [f"hubness: of the {NEIGHBOURS} nearest"] if "hubness" in keys else []
    head = title if title is not None else _finding(keys, domains)
    present(fig, head, "; ".join(notes), width=width, height=rows * 240 + 40 if len(keys) > 1 else 360, above=30)
    fig.update_layout(margin={"l": 45}, legend={"orientation": "h", "y": -0.3 / rows, "yanchor": "top", "x": 0})
    fig.update_xaxes(nticks=5)
    for place in range(max(0, len(keys) - columns), len(keys)):  # the lowest panel of each column
        where = {"row": place // columns + 1, "col": place % columns + 1}
        fig.update_xaxes(title_text="step", title_font_size=12, title_standoff=4, **where)
    fig.update_yaxes(nticks=5)
    fig.update_annotations(font_size=13)
    return fig


def _draw_level(fig: Any, level: tuple[str, Mapping[str, float]], keys: Sequence[str], columns: int) -> None:
    """A thin line from the first step to the last, in each panel that the level has a figure for."""
    name, figures = plain(str(level[0])), level[1]
    ends = [min(min(trace.x) for trace in fig.data), max(max(trace.x) for trace in fig.data)]
    legend = True
    for place, key in enumerate(keys):
        if key not in figures:
            continue
        value = check_number(f"level {key}", figures[key])
        fig.add_trace(
            go.Scatter(
                x=ends, y=[value] * 2, mode="lines", name=name, legendgroup="level", showlegend=legend,
                line={"color": INK, "width": 1}, hovertemplate=f"{name}: %{{y:.4f}}<extra></extra>",
            ),
            row=place // columns + 1, col=place % columns + 1,
        )  # fmt: skip
        legend = False


def _finding(keys: Sequence[str], domains: Mapping[str, tuple[Any, Mapping[str, Any]]]) -> str:
    """What became of retrieval and of the ratio, domain by domain; of many domains the extremes alone."""
    told = []
    for key in [k for k in ("map_at_r", "relative") if k in keys] or keys[:1]:
        changes = {}
        for name, (_, figures) in domains.items():
            first, last = float(figures[key][0]), float(figures[key][-1])
            changes[name] = last - first if key != "relative" else last / first - 1 if first else float("nan")
        shown = list(changes)
        if len(shown) > 3:
            order = sorted(shown, key=lambda name: changes[name])
            shown = [order[-1], order[0]]
        sign = "+.0%" if key == "relative" else "+.3f"
        told.append(f"{NAMES[key]}: {', '.join(f'{changes[name]:{sign}} for {name}' for name in shown)}")
    return "; ".join(told)
