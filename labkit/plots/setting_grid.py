"""A figure of runs over two settings as a heat map: values printed in the cells, cells without a run hatched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from labkit.errors import LabError
from labkit.plots.findings import number
from labkit.plots.palette import FAINT, plain, present
from labkit.plots.reading import Floats, check_pixels
from labkit.validation import check_choice, check_number, describe

SCALE = "Cividis"  # made to look alike to readers with and without colour-blindness; its lightness rises evenly
BLANK = "#F6F6F6"
_STRIPES = 7  # of the hatching, per cell


class Measure(NamedTuple):
    """A figure of a run: its name, whether its scale is logarithmic, the least span of the scale, and whether more is
    better (None: neither)."""

    name: str
    logarithmic: bool
    span: float
    more_is_better: bool | None


MEASURES = {
    "map_at_r": Measure("MAP@R", False, 0.1, True),
    "p_at_1": Measure("P@1", False, 0.1, True),
    "covering_max": Measure("covering radius (mean over classes)", False, 0.1, False),
    "covering_q95": Measure("95 % cover", False, 0.1, False),
    "proxy_spread": Measure("proxy spread", True, 1.0, None),
}


class Side(NamedTuple):
    """An axis of the map: what the setting is called, and its values in words."""

    label: str
    words: Sequence[str]


def setting_heat_map(
    values: Any,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    *,
    measure: str = "map_at_r",
    between: tuple[float, float] | None = None,
    title: str | None = None,
    width: int | None = None,
) -> Any:
    """Draw a figure over two settings.

    Parameters
    ----------
    values : (R, C) floats; NaN where there is no run. rows, columns : the setting's name and its R or C values in words,
        e.g. `("λ", ["0", "0.02"])`.
    measure : "map_at_r", "p_at_1", "covering_max", "covering_q95" or "proxy_spread" (on a logarithmic scale).
    between : the ends of the colours' scale, so that several maps can be compared; by default what the values span.
    title : instead of the finding: the smallest and the largest figure, and how much either setting makes on average.
    width : pixels; None: 110 for each column, and at least 520.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : values of another shape than the names, infinite ones, an unknown measure, ends in the wrong order, or
        `width` < 10.
    """
    known = _checked(values, len(rows[1]), len(columns[1]))
    check_choice("measure", measure, MEASURES)
    down, across = Side(*rows), Side(*columns)
    if width is None:
        width = max(520, 200 + 110 * len(across.words))
    check_pixels("width", width)
    fig = go.Figure([go.Heatmap(), go.Heatmap(), go.Scatter()])
    for trace, update in zip(fig.data, map_updates(known, down, across, measure).values(), strict=True):
        trace.update(update)
    if between is not None:
        low, high = (check_number(f"between[{end}]", between[end]) for end in (0, 1))
        if not low < high:
            raise LabError("between", "a smaller and a larger number", between)
        fig.data[0].update(zmin=low, zmax=high)
    head = title if title is not None else what_matters(known, down, across, measure)
    note = "hatched: no run" if np.isnan(known).any() else ""
    present(fig, head, note, width=width, height=120 + 52 * len(down.words))
    fig.update_xaxes(**side_axis(across))
    fig.update_yaxes(**side_axis(down), autorange="reversed")
    return fig


def _checked(values: Any, rows: int, columns: int) -> Floats:
    try:
        known = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LabError("values", f"numbers of shape ({rows}, {columns})", describe(values)) from error
    if known.shape != (rows, columns) or not known.size:
        raise LabError("values", f"shape ({rows}, {columns}), a row and a column for each value", f"shape {known.shape}")
    if np.isinf(known).any():
        raise LabError("values", "finite numbers, or NaN where there is no run", "an infinite one")
    return known


def side_axis(side: Side) -> dict[str, Any]:
    """Layout of an axis with a tick for each value."""
    places = list(range(len(side.words)))
    return {"title_text": plain(side.label), "tickvals": places, "ticktext": [plain(w) for w in side.words],
            "range": [-0.5, len(places) - 0.5], "showgrid": False, "zeroline": False, "fixedrange": True}  # fmt: skip


def map_updates(
    values: Floats, rows: Side, columns: Side, measure: str, words: Sequence[Sequence[str]] | None = None
) -> dict[str, dict[str, Any]]:
    """What the map's traces hold: "cells", a Heatmap; "blanks", another of the cells without a value, since plotly feels no
    mouse over nothing; and "hatching", lines over those. `words` stand, instead of the lines, in cells without a value."""
    what = MEASURES[measure]
    z = _logarithms(values) if what.logarithmic else values
    z = np.where(np.isnan(z) & (values == 0), np.nanmin(z, initial=0.0), z)  # the scale has no place for 0: its low end
    known = z[np.isfinite(z)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    missing = max(0.0, what.span - (high - low)) / 2
    text = [["" if np.isnan(v) else "0" if v == 0 else number(float(v)) for v in line] for line in values]
    places = {
        "x": list(range(len(columns.words))), "y": list(range(len(rows.words))), "showscale": False, "xgap": 2, "ygap": 2,
        "customdata": [[f"{rows.label} = {r}, {columns.label} = {c}" for c in columns.words] for r in rows.words],
        "hoverongaps": False,
    }  # fmt: skip
    cells = places | {
        "z": _without_nan(z), "zmin": low - missing, "zmax": high + missing, "colorscale": SCALE, "text": text,
        "texttemplate": "%{text}", "textfont": {"size": 14},
        "hovertemplate": f"%{{customdata}}<br>{what.name} %{{text}}<extra></extra>",
    }  # fmt: skip
    blanks = places | {
        "z": _without_nan(np.where(np.isnan(values), 0.0, np.nan)), "colorscale": [[0, BLANK], [1, BLANK]],
        "hovertemplate": "%{customdata}<br>no run yet<extra></extra>",
    }  # fmt: skip
    silent = np.isnan(values)
    if words is not None:
        silent &= np.array([[not word for word in line] for line in words])
        blanks |= {"text": words, "texttemplate": "%{text}", "textfont": {"size": 14}}
    x, y = _hatching(np.argwhere(silent))
    lines = {"x": x, "y": y, "mode": "lines", "line": {"color": FAINT, "width": 1}, "hoverinfo": "skip", "showlegend": False}
    return {"cells": cells, "blanks": blanks, "hatching": lines}


def _without_nan(values: Floats) -> list[list[float | None]]:
    """Lists as JSON takes them."""
    return [[None if np.isnan(v) else float(v) for v in line] for line in values]


def _hatching(cells: Any) -> tuple[list[float | None], list[float | None]]:
    """Slanted lines inside of unit squares around (row, column)."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, column in cells.tolist():
        for stripe in range(1, 2 * _STRIPES):
            at = stripe / _STRIPES  # x + y along the line, within the square
            low, high = max(0.0, at - 1), min(1.0, at)
            x += [column - 0.47 + 0.94 * low, column - 0.47 + 0.94 * high, None]
            y += [row - 0.47 + 0.94 * (at - low), row - 0.47 + 0.94 * (at - high), None]
    return x, y


def outline(row: int, column: int) -> dict[str, Any]:
    """A frame around one cell, as a shape."""
    return {"type": "rect", "x0": column - 0.49, "x1": column + 0.49, "y0": row - 0.49, "y1": row + 0.49,
            "xref": "x", "yref": "y", "line": {"color": "#D55E00", "width": 4}}  # fmt: skip


def what_matters(values: Floats, rows: Side, columns: Side, measure: str) -> str:
    """The smallest and the largest figure, and how far apart they are, on average, where one of the settings is held."""
    what = MEASURES[measure]
    if not np.isfinite(values).any():
        return "No run is done yet"
    if what.logarithmic and (values > 0).any():
        values = np.where(values > 0, values, np.nan)  # one proxy has no spread: nothing to compare
    high, low = (np.unravel_index(f(values), values.shape) for f in (np.nanargmax, np.nanargmin))

    def at(place: Any) -> str:
        i, j = place
        return f"{number(float(values[i, j]))} ({rows.label} = {rows.words[i]}, {columns.label} = {columns.words[j]})"

    if high == low:
        return f"{what.name} {at(high)}"
    ends = f"{what.name} from {at(low)} to {at(high)}"
    spans = [(held.label, _span(lines, what.logarithmic)) for held, lines in ((columns, values.T), (rows, values))]
    told = [(label, _size(span, what.logarithmic)) for label, span in spans if span is not None]
    if not told:
        return ends
    (label, size), *other = told
    more = "".join(f", at one {second} {apart}" for second, apart in other)
    return f"{ends}; at one {label} the largest and the smallest are {size} apart on average{more}"


def _span(lines: Floats, logarithmic: bool) -> float | None:
    """Mean over the lines of the largest difference within one; of the ratio's logarithm, where that is asked for."""
    known = [line[np.isfinite(line)] for line in (_logarithms(lines) if logarithmic else lines)]
    spans = [float(line.max() - line.min()) for line in known if len(line) > 1]
    return float(np.mean(spans)) if spans else None


def _logarithms(values: Floats) -> Floats:
    """Of positive values; NaN for all others."""
    positive = values > 0
    return np.where(positive, np.log10(np.where(positive, values, 1.0)), np.nan)


def _size(span: float, logarithmic: bool) -> str:
    return f"a factor of {10**span:.3g}" if logarithmic else number(span)


