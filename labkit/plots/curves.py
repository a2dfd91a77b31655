"""Curves: metrics over training."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.plots import findings
from labkit.plots.metric_axes import Scale, drawn, metric_axis, recorded, scale_of
from labkit.plots.palette import FAINT, plain, present, run_line
from labkit.plots.reading import RecordingLike, Runs, check_pixels, named_runs, series

# metric, its name on the axis, logarithmic
STRIPS = (
    ("map_at_r", "MAP@R<br>(held out)", False),
    ("covering_q95", "95 % cover<br>(distance)", True),
    ("proxy_spread", "proxy spread<br>(distance)", True),
    ("inter_class_distance", "inter-class<br>distance", False),
    ("loss", "loss", False),
)
BOUNDARIES = ("dot", "dotted"), ("dash", "dashed"), ("longdash", "long dashes"), ("dashdot", "dashes and dots")
MANY = 8  # ends of problems, of all runs together, from beyond which lines through every panel would hide the curves
ABOVE, TICK, ROW = 2, 7, 10  # pixels: from the panel to the ticks in their place, how long they are, and a row for each run


def metric_strips(recordings: RecordingLike | Runs, *, title: str | None = None, width: int = 860) -> Any:
    """Small panels over the training steps: MAP@R, 95 % cover, proxy spread, inter-class distance, loss.

    The title of one run tells where it began and where its chosen model stands, of several who is ahead at the end. Cover
    and spread have logarithmic axes. Where a run reaches .9, MAP@R's is logarithmic in what is missing to 1, so that .98 and
    .99 are told apart as clearly as .8 and .9. The labels say so.

    Dotted vertical lines: a proxy problem ends there, in its run's colour; with more than eight, short ticks over the first
    panel instead, a row for each run. Triangles at the top: something was changed by hand.

    Parameters
    ----------
    recordings : one recording or a dict of them; runs differ by colour and dash. Metrics that no run has get no panel.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : an empty dict, something that is no recording, or `width` < 10.
    """
    check_pixels("width", width)
    runs = named_runs(recordings)
    strips = [strip for strip in STRIPS if any(len(series(r, strip[0])[0]) for r in runs.values())] or [STRIPS[0]]
    fig = make_subplots(rows=len(strips), cols=1, shared_xaxes=True, vertical_spacing=0.03)
    for row, (key, label, logarithmic) in enumerate(strips, start=1):
        scale = scale_of(runs, key, logarithmic)
        for index, (name, recording) in enumerate(runs.items()):
            _add_run(fig, recording, key, name, index, scale, row=row, legend=row == 1)
        axis = metric_axis(recorded(runs, key), scale, label)
        fig.update_yaxes(**axis, title_font_size=12, nticks=5, row=row, col=1)
    note, lift = _boundaries(fig, runs)
    _event_marks(fig, runs, lift)
    several = findings.compare(runs)
    head = next((s for s in several if s.startswith("At step")), "") or findings.until_chosen(next(iter(runs.values())))
    fig.update_xaxes(title_text="step", row=len(strips), col=1)
    height = 130 * len(strips) + 60
    present(fig, title if title is not None else head, note, width=width, height=height, above=35 + lift)
    _legend(fig, lift)
    return fig


def proxy_spread_over_time(recordings: RecordingLike | Runs, *, title: str | None = None, width: int = 860) -> Any:
    """Mean distance between a class's own proxies over the steps, on a logarithmic axis: where it dives, the proxies
    collapse.

    Parameters, errors and result as for `metric_strips`.
    """
    check_pixels("width", width)
    runs = named_runs(recordings)
    fig = go.Figure()
    for index, (name, recording) in enumerate(runs.items()):
        _add_run(fig, recording, "proxy_spread", name, index, "log", markers=True)
    note, lift = _boundaries(fig, runs)
    head = title if title is not None else findings.collapses(runs)
    present(fig, head, note, width=width, height=360, above=35 + lift)
    _legend(fig, lift)
    fig.update_xaxes(title_text="step")
    fig.update_yaxes(**metric_axis(recorded(runs, "proxy_spread"), "log", "proxy spread (distance)", 12))
    return fig


def _add_run(
    fig: Any, recording: RecordingLike, key: str, name: str, index: int, scale: Scale, *,
    row: int | None = None, legend: bool = True,
    markers: bool = False,
) -> None:  # fmt: skip
    steps, values = series(recording, key)
    fig.add_scatter(
        x=steps,
        y=np.array([float(f"{v:.5g}") for v in drawn(values, scale)]),
        mode="lines+markers" if markers or len(steps) < 2 else "lines",
        line=run_line(index),
        marker={"size": 5, "symbol": index},
        name=plain(name),
        legendgroup=name,
        showlegend=legend,
        customdata=values.round(5),
        hovertemplate=f"step %{{x}}: %{{customdata:.4g}}<extra>{plain(name)}</extra>",
        **({} if row is None else {"row": row, "col": 1}),
    )


def _legend(fig: Any, lift: int) -> None:
    """The legend in a line over the first panel, `lift` pixels above it."""
    inside = fig.layout.height - fig.layout.margin.t - fig.layout.template.layout.margin.b
    fig.update_layout(legend={"orientation": "h", "y": 1 + lift / inside, "yanchor": "bottom", "x": 0})


def _boundaries(fig: Any, runs: Runs) -> tuple[str, int]:
    """Mark where proxy problems end; what the marks mean, as a line of text, and how many pixels they take over the picture.

    Vertical lines, each run's in its colour and dashes, or, where there are many, rows of ticks over the first panel.
    """
    ends = {name: found for name, recording in runs.items() if (found := _ends(recording))}
    several, order = len(ends) > 1, list(runs)
    if sum(map(len, ends.values())) > MANY:
        for place, (name, steps) in enumerate(ends.items()):
            _ticks(fig, steps, ABOVE + ROW * (len(ends) - 1 - place), run_line(order.index(name))["color"])
        rows = f", a row for each run (from above: {'; '.join(ends)})" if several else ""
        return f"ticks at the top: a proxy problem ends{rows}", ABOVE + ROW * len(ends)
    said: list[str] = []
    for place, (name, steps) in enumerate(ends.items()):
        dash, word = BOUNDARIES[place % len(BOUNDARIES)]
        for step in steps:
            line = {"color": run_line(order.index(name))["color"], "width": 1, "dash": dash}
            fig.add_vline(x=step, line=line, opacity=0.7)
        said.append(f"{word}: {name}")
    if several:
        return f"vertical lines: a proxy problem ends ({', '.join(said)})", 0
    return ("dotted lines: a proxy problem ends" if said else ""), 0


def _ends(recording: RecordingLike) -> list[int]:
    """Steps at which a proxy problem ended and another began: the end of the run is no boundary."""
    last = max((int(s) for s in recording.metrics.get("step", ())), default=0)
    return [problem.end for problem in recording.problems if problem.end < last]


def _ticks(fig: Any, steps: list[int], low: int, color: str) -> None:
    """A row of ticks, `low` pixels over the picture."""
    for step in steps:
        fig.add_shape(
            type="line", x0=step, x1=step, xref="x", yref="paper", ysizemode="pixel", yanchor=1, y0=low, y1=low + TICK,
            line={"color": color, "width": 2},
        )  # fmt: skip


def _event_marks(fig: Any, runs: Runs, lift: int) -> None:
    marked = [(name, e) for name, r in runs.items() for e in r.events if "step" in e]
    for name, event in marked:
        fig.add_annotation(
            x=event["step"], y=1, xref="x", yref="y domain", text="▾", yshift=lift,
            hovertext=plain(f"{name}: {event.get('what', 'changed')}"),
            showarrow=False, yanchor="bottom", font={"color": FAINT, "size": 14},
        )  # fmt: skip
