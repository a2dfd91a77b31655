"""The picture of a grid: the heat map at the left, the curves of the chosen run at the right, others faint behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.panels.common import Figure
from labkit.plots.comparison_traces import drawn_series, remark, without_spread
from labkit.plots.log_ticks import log_ticks
from labkit.plots.metric_axes import drawn
from labkit.plots.palette import FAINT, GRID, RUN_COLORS, present
from labkit.plots.setting_grid import MEASURES, Side, map_updates, outline, side_axis
from labkit.training.grid_cells import Cell
from labkit.training.grid_table import CellTable

CURVES = (
    ("map_at_r", "MAP@R<br>(held out)", False),
    ("covering_q95", "95 % cover<br>(log)", True),
    ("proxy_spread", "proxy spread<br>(log)", True),
)
CELLS, BLANKS, HATCHING = range(3)  # the map's traces; each curve has two more: the other runs, and the chosen one
WIDTH = 1060


class GridFigure:
    """One FigureWidget with map and curves.

    Attributes
    ----------
    sides : both settings, rows first. widget : the figure. cells : the traces whose clicks choose a cell.
    """

    def __init__(self, table: CellTable) -> None:
        self._table = table
        self.sides = Side(table.rows.label, table.rows.words()), Side(table.columns.label, table.columns.words())
        specs: list[list[Any]] = [[{"rowspan": 3}, {}], [None, {}], [None, {}]]
        self.widget = Figure(make_subplots(3, 2, specs=specs, horizontal_spacing=0.11, vertical_spacing=0.05))
        self._lay_out()
        self.cells = self.widget.data[CELLS], self.widget.data[BLANKS]
        self._drawn_map: tuple[Any, ...] = ()
        self._drawn_curves: tuple[Any, ...] = ()

    def _lay_out(self) -> None:
        figure, (rows, columns) = self.widget, self.sides
        figure.add_traces([go.Heatmap(), go.Heatmap(), go.Scatter()], rows=[1] * 3, cols=[1] * 3)
        for row, (_, label, logarithmic) in enumerate(CURVES, start=1):
            where = {"row": row, "col": 2}
            faint, bold = {"color": "#C8C8C8", "width": 1}, {"color": RUN_COLORS[1], "width": 2.5}
            figure.add_trace(go.Scatter(mode="lines", line=faint, hoverinfo="skip", showlegend=False), **where)
            told = "step %{x}: %{y:.4g}<extra></extra>"
            figure.add_trace(go.Scatter(mode="lines", line=bold, showlegend=False, hovertemplate=told), **where)
            figure.update_yaxes(title_text=label, title_font_size=12, nticks=5, **where)
            if logarithmic:
                figure.update_yaxes(**log_ticks(np.zeros(0)), **where)
            figure.update_xaxes(showticklabels=row == len(CURVES), matches=None if row == 1 else "x2", **where)
        figure.update_xaxes(title_text="step", row=len(CURVES), col=2)
        present(figure, "", "", width=WIDTH, height=max(360, 110 + 52 * len(rows.words)), above=30)
        figure.update_xaxes(**side_axis(columns), row=1, col=1)
        figure.update_yaxes(**side_axis(rows), autorange="reversed", row=1, col=1)
        figure.update_layout(plot_bgcolor="white", hovermode="closest", dragmode=False, clickmode="event")
        figure.update_yaxes(gridcolor=GRID, col=2)

    def draw(self, measure: str, chosen: tuple[int, int]) -> None:
        """Bring the picture to what is known now; sends nothing that is there already."""
        cells = self._table.cells
        words = [_words(cell) for cell in cells]
        known = (chosen, *(cell.done for cell in cells))
        with self.widget.batch_update():
            if (measure, words, known) != self._drawn_map:
                self._put_map(measure, words)
            if known != self._drawn_curves:
                self._put_curves(chosen)
        self._drawn_map, self._drawn_curves = (measure, words, known), known

    def _put(self, trace: int, update: dict[str, Any]) -> None:
        self.widget.data[trace].update(update)

    def _put_map(self, measure: str, words: list[str]) -> None:
        wide = len(self.sides[1].words)
        lines = [words[at : at + wide] for at in range(0, len(words), wide)]
        updates = map_updates(self._table.figures(measure), *self.sides, measure, lines)
        for trace, name in ((CELLS, "cells"), (BLANKS, "blanks"), (HATCHING, "hatching")):
            self._put(trace, updates[name])
        what = MEASURES[measure]
        colour = "brighter is more" if what.more_is_better is not False else "darker is better"
        note = f"<span style='font-size:12px;color:#555'>{colour}; a click opens a run</span>"
        self.widget.layout.title.text = f"<b>{what.name} on the test pictures</b><br>{note}"

    def _put_curves(self, chosen: tuple[int, int]) -> None:
        known = self._table.cell(*chosen)
        others = [c for c in self._table.cells if c.done and c is not known]
        shapes = [outline(*chosen)]
        for place, (key, _, logarithmic) in enumerate(CURVES):
            faint = [_curve(c, key, logarithmic) for c in others]
            bold = [_curve(known, key, logarithmic)] if known.done else []
            self._put(3 + 2 * place, _joined(faint))
            self._put(4 + 2 * place, _joined(bold))
            if logarithmic:
                shown = np.concatenate([np.zeros(0), *(values for _, values in faint + bold)])
                self.widget.layout[f"yaxis{place + 2}"].update(log_ticks(shown))
            if known.recording is not None:
                ends = [p.end for p in known.recording.problems[:-1]]
                shapes += [_line(step, place + 2) for step in ends]
        self.widget.layout.shapes = shapes
        alone = "" if known.recording is None else without_spread({"": known.recording})
        self.widget.layout.annotations = [remark(alone, len(CURVES) + 1)] if alone else []  # the last curve is the spread


def _words(cell: Cell) -> str:
    """What stands in a cell whose figure is not known yet."""
    if cell.done:
        return ""
    if cell.state == "running":
        return f"{cell.step / cell.experiment.steps:.0%}"
    return "failed" if cell.state == "failed" else ""


def _curve(cell: Cell, key: str, logarithmic: bool) -> tuple[Any, Any]:
    assert cell.recording is not None
    steps, values = drawn_series(cell.recording, key, logarithmic)
    shown = drawn(values, "log" if logarithmic else "linear")
    return steps, np.array([float(f"{v:.4g}") for v in shown])


def _joined(curves: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    """Several curves as one trace, with gaps between them."""
    x: list[float | None] = []
    y: list[float | None] = []
    for steps, values in curves:
        x += [*steps.tolist(), None]
        y += [*values.tolist(), None]
    return {"x": x, "y": y}


def _line(step: int, axis: int) -> dict[str, Any]:
    """Where a proxy problem ended, in one of the curves."""
    return {"type": "line", "x0": step, "x1": step, "y0": 0, "y1": 1, "xref": f"x{axis}", "yref": f"y{axis} domain",
            "line": {"color": FAINT, "width": 1, "dash": "dot"}, "layer": "below"}  # fmt: skip
