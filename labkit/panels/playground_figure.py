"""The playground's one figure: the embedding map on the left, the run's curves on the right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from plotly.subplots import make_subplots

from labkit.panels.common import Figure
from labkit.plots import marks
from labkit.plots.curves import SMALLEST
from labkit.plots.embedding_map import nearest_own_proxy
from labkit.plots.palette import FAINT, INK, RUN_COLORS, THEME, plain, translucent
from labkit.plots.plane import Plane
from labkit.plots.thumbnails import braille, grey_images
from labkit.training.live_run import Frame, Snapshot

# key of a figure in the recording, what its axis says, whether the axis is logarithmic
CURVES = (
    ("loss", "loss", False),
    ("map_at_r", "MAP@R", False),
    ("covering_q95", "95 % cover", True),
    ("proxy_spread", "proxy spread", True),
)
CHANGE, BOUNDARY = RUN_COLORS[0], FAINT
NOTHING = np.zeros((0, 2))
CAN_DRAW = 1e30  # weights that run away to infinity are drawn no farther than this


class _Traces(NamedTuple):
    """Where in `figure.data` each kind of trace begins."""

    samples: int
    balls: int
    proxies: int
    chosen: int
    numbers: int
    curves: int
    here: int
    problems: int
    changes: int


class LiveFigure:
    """Draws snapshots of a session into one FigureWidget, each in a single message to the page.

    Attributes
    ----------
    widget : the FigureWidget. balls : whether covering balls are drawn.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        specs = [[{"rowspan": 5}, {}], *([None, {}] for _ in range(4))]
        grid = make_subplots(
            5, 2, specs=specs, column_widths=[0.58, 0.42], row_heights=[0.09, 0.2275, 0.2275, 0.2275, 0.2275],
            horizontal_spacing=0.1, vertical_spacing=0.035,
        )  # fmt: skip
        self.widget: Any = grid
        self.balls = False
        self._run, self._extent = -1, 0.0
        self._lines: tuple[tuple[int, ...], tuple[tuple[int, str], ...]] = ((), ())
        self._lay_out()
        self.draw(snapshot)
        self.widget = Figure(grid)  # born with its traces: what is added before the page has loaded its script is lost

    def _lay_out(self) -> None:
        fig = self.widget
        fig.update_layout(
            template=THEME, width=1060, height=560, margin={"l": 55, "r": 40, "t": 30, "b": 45}, uirevision="kept",
            legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "tracegroupgap": 0, "font": {"size": 12}},
            hovermode="closest",
        )  # fmt: skip
        for row in range(1, 6):
            fig.update_xaxes(matches=None if row == 5 else "x6", showticklabels=row == 5, row=row, col=2)
        fig.update_xaxes(title_text="step", row=5, col=2)
        fig.update_xaxes(automargin=False)  # costs the page a second pass over the whole picture at every frame
        fig.update_yaxes(automargin=False)
        fig.update_yaxes(range=[0, 1], showticklabels=False, showgrid=False, ticks="", fixedrange=True, row=1, col=2)
        for row, (key, label, logarithmic) in enumerate(CURVES, start=2):
            fig.update_yaxes(title_text=label, title_font_size=12, tickfont_size=11, nticks=5, row=row, col=2)
            if logarithmic:
                fig.update_yaxes(
                    type="log", exponentformat="power", dtick="D2" if key == "covering_q95" else 1, row=row, col=2
                )
        fig.update_yaxes(range=[0, 1.02], row=3, col=2)

    # ------------------------------------------------------------ traces of a run

    def _begin(self, snapshot: Snapshot) -> None:
        """Traces for a new run: its classes, its samples and their pictures."""
        assert snapshot.labels is not None
        self._run = snapshot.run
        self._labels = snapshot.labels.astype(np.int64)
        self._classes = np.unique(self._labels)
        names = [str(name) for name in snapshot.class_names]
        self._names = [names[c] if 0 <= c < len(names) else str(c) for c in self._classes]
        self._members = [np.flatnonzero(self._labels == c) for c in self._classes]
        pictures = None
        if snapshot.thumbnails is not None:
            pictures = braille(grey_images("thumbnails", snapshot.thumbnails, len(self._labels)))
        nowhere = np.zeros((len(self._labels), 2))
        samples = marks.sample_traces(nowhere, self._labels, self._classes, self._names, pictures)
        first = snapshot.stored[0].proxies
        own = None if first is None else np.zeros((*first.shape[:2], 2))
        line = {"color": RUN_COLORS[1], "width": 2}
        left = [
            *samples,
            {
                "type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": translucent(INK, 0.05),
                "line": {"color": translucent(INK, 0.45), "width": 1}, "hoverinfo": "skip", "name": "95 % balls", "showlegend": False,
            },
            marks.proxy_trace(own, self._names),
            marks.proxy_trace(own, self._names, following=True).update(name="chosen by K-Center"),
            marks.number_trace(np.zeros((len(self._classes), 2)), self._names),
        ]  # fmt: skip
        curves = [
            {"type": "scatter", "mode": "lines", "line": line, "showlegend": False, "name": label,
             "hovertemplate": f"step %{{x}}: %{{y:.4g}}<extra>{label}</extra>"}
            for _, label, _ in CURVES
        ]  # fmt: skip
        here = [
            {
                "type": "scatter",
                "mode": "markers",
                "marker": {"color": INK, "size": 8},
                "showlegend": False,
                "hoverinfo": "skip",
            }
            for _ in CURVES
        ]
        strip: list[dict[str, Any]] = [
            {"type": "scatter", "mode": "text", "textfont": {"size": 12, "color": INK}, "showlegend": False, "hoverinfo": "skip"},
            {"type": "scatter", "mode": "markers", "marker": {"symbol": "triangle-down", "size": 11, "color": CHANGE},
             "showlegend": False, "hovertemplate": "step %{x}: %{text}<extra></extra>"},
        ]  # fmt: skip
        fig = self.widget
        fig.data = ()
        places = [(1, 1)] * len(left) + [(row, 2) for row in range(2, 6)] * 2 + [(1, 2)] * 2
        rows, cols = zip(*places, strict=True)
        fig.add_traces([*left, *curves, *here, *strip], rows=list(rows), cols=list(cols))
        c = len(samples)
        self._at = _Traces(0, c, c + 1, c + 2, c + 3, c + 4, c + 8, c + 12, c + 13)
        fig.layout.shapes = ()
        self._extent, self._lines = 0.0, ((), ())

    # ------------------------------------------------------------ drawing

    def draw(self, snapshot: Snapshot, at: int | None = None) -> None:
        """Show a stored frame of a snapshot, or (None) what is there now."""
        frame = snapshot.live if at is None else snapshot.stored[at]
        if frame is None:
            return
        if snapshot.run != self._run:
            self._begin(snapshot)
        with self.widget.batch_update():
            self._draw_map(frame, snapshot.chosen(at))
            self._draw_curves(snapshot, frame.step)
            self._draw_lines(snapshot)

    def _draw_map(self, frame: Frame, chosen: Any) -> None:
        embeddings = np.clip(np.nan_to_num(frame.embeddings.astype(np.float64)), -CAN_DRAW, CAN_DRAW)
        plane = Plane.of(embeddings)
        xy = plane(embeddings)
        proxies = None if frame.proxies is None else plane(frame.proxies.astype(np.float64))
        rings = None if chosen is None else plane(chosen.astype(np.float64))
        extent = marks.extent_of(plane, xy, proxies, rings)
        if abs(extent - self._extent) > 0.1 * self._extent:
            if self._extent == 0:
                marks.square_axes(self.widget, extent, plane, row=1, col=1)
            self._extent = extent
            self.widget.layout.xaxis.range = self.widget.layout.yaxis.range = [-extent, extent]
        data = self.widget.data
        for trace, rows in zip(data[self._at.samples :], self._members, strict=False):
            _move(trace, xy[rows])
        _move(data[self._at.proxies], NOTHING if proxies is None else proxies)
        _move(data[self._at.chosen], NOTHING if rings is None else rings)
        _move(
            data[self._at.numbers],
            marks.number_positions(xy, self._labels, self._classes, marks.NUMBER_GAP * self._extent),
        )
        self._draw_balls(data[self._at.balls], embeddings, frame.proxies, proxies)

    def _draw_balls(self, trace: Any, embeddings: Any, own: Any, own_xy: Any) -> None:
        if not self.balls or own is None:
            _move(trace, NOTHING)
            return
        distances = nearest_own_proxy(embeddings, self._labels, own, self._classes)
        radii = np.array([np.quantile(d, 0.95) for d in distances])
        turn = np.append(np.linspace(0, 2 * np.pi, 37), np.nan)  # NaN lifts the pen between two circles
        circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        _move(trace, (own_xy[:, :, None] + radii[:, None, None, None] * circle))

    def _draw_curves(self, snapshot: Snapshot, step: int) -> None:
        data, steps = self.widget.data, np.array(snapshot.metrics.get("step", ()))
        for index, (key, _, logarithmic) in enumerate(CURVES):
            values = np.array(snapshot.metrics.get(key, ()), dtype=np.float64)
            known = np.isfinite(values)
            x, y = steps[: len(values)][known], values[known]
            points = np.stack([x, np.maximum(y, SMALLEST) if logarithmic else y], axis=1)
            for place, shown in ((self._at.curves, points), (self._at.here, points[x <= step][-1:])):
                data[place + index].x, data[place + index].y = shown.astype(np.float32).T  # unrounded: a spread may be tiny

    def _draw_lines(self, snapshot: Snapshot) -> None:
        """Where problems end and where something was changed by hand; sent only when there is a new one."""
        ends = tuple(b.step for b in snapshot.boundaries if b.chosen is not None)
        changes = tuple(
            (int(event["step"]), str(event["what"])) for event in snapshot.events if event["step"] or "setting" in event
        )
        if (ends, changes) == self._lines:
            return
        self._lines = ends, changes
        fig = self.widget
        problems, changed = fig.data[self._at.problems], fig.data[self._at.changes]
        problems.update(x=[0, *ends], y=[0.75] * (1 + len(ends)), text=[str(i) for i in range(1, 2 + len(ends))])
        problems.textposition = "middle right"
        changed.update(x=[s for s, _ in changes], y=[0.15] * len(changes), text=[plain(what) for _, what in changes])
        lines = [*_lines(ends, BOUNDARY, "dot"), *_lines(sorted({s for s, _ in changes}), CHANGE, "dash")]
        circle = [shape for shape in fig.layout.shapes if shape.type == "circle"]
        fig.layout.shapes = [*circle, *lines]


def _lines(steps: Iterable[int], color: str, dash: str) -> list[dict[str, Any]]:
    """Vertical lines through all curves."""
    return [
        {"type": "line", "xref": "x6", "yref": "paper", "x0": s, "x1": s, "y0": 0, "y1": 1, "layer": "below",
         "line": {"color": color, "dash": dash, "width": 1}}
        for s in steps
    ]  # fmt: skip


def _move(trace: Any, points: Any) -> None:
    """Put the marks of a trace at (..., 2) points."""
    flat = points.reshape(-1, 2)
    trace.x, trace.y = marks.short(flat[:, 0]), marks.short(flat[:, 1])
