"""Curves: metrics over training."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.plots import findings
from labkit.plots.log_ticks import log_ticks
from labkit.plots.palette import FAINT, plain, present, run_line
from labkit.plots.reading import Floats, RecordingLike, Runs, check_pixels, named_runs, series

# metric, its name on the axis, logarithmic
STRIPS = (
    ("map_at_r", "MAP@R<br>(held out)", False),
    ("covering_q95", "95 % cover<br>(distance)", True),
    ("proxy_spread", "proxy spread<br>(distance)", True),
    ("inter_class_distance", "inter-class<br>distance", False),
    ("loss", "loss", False),
)
MAP_TICKS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
BOUNDARIES = ("dot", "dotted"), ("dash", "dashed"), ("longdash", "long dashes"), ("dashdot", "dashes and dots")
SMALLEST = 1e-9  # a logarithmic axis has no zero: proxies that coincide are drawn here


def metric_strips(recordings: RecordingLike | Runs, *, title: str | None = None, width: int = 860) -> Any:
    """Small panels over the training steps: MAP@R, 95 % cover, proxy spread, inter-class distance, loss.

    The title of one run tells where it began and where its chosen model stands, of several who is ahead at the end. Cover
    and spread have logarithmic axes. MAP@R's is logarithmic in what is missing to 1, so that .98 and .99 are told
    apart as clearly as .8 and .9.

    Dotted vertical lines: a proxy problem ends there, in its run's colour. Triangles at the top: something was changed
    by hand.

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
        for index, (name, recording) in enumerate(runs.items()):
            _add_run(fig, recording, key, name, index, logarithmic, row=row, legend=row == 1)
        fig.update_yaxes(
            title_text=label, title_font_size=12, row=row, col=1, type="log" if logarithmic else "linear", nticks=5
        )
        if key == "map_at_r":
            scores = np.concatenate([series(recording, key)[1] for recording in runs.values()])
            fig.update_yaxes(**towards_one(scores), row=row, col=1)
        if logarithmic:
            fig.update_yaxes(**log_ticks(logarithmic_values(runs, key), 4), row=row, col=1)
    note = _boundaries(fig, runs)
    _event_marks(fig, runs)
    several = findings.compare(runs)
    head = next((s for s in several if s.startswith("At step")), "") or findings.until_chosen(next(iter(runs.values())))
    fig.update_xaxes(title_text="step", row=len(strips), col=1)
    present(fig, title if title is not None else head, note, width=width, height=130 * len(strips) + 60, above=35)
    fig.update_layout(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
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
        _add_run(fig, recording, "proxy_spread", name, index, True, markers=True)
    note = _boundaries(fig, runs)
    present(fig, title if title is not None else findings.collapses(runs), note, width=width, height=360, above=35)
    fig.update_layout(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    fig.update_xaxes(title_text="step")
    fig.update_yaxes(**log_ticks(logarithmic_values(runs, "proxy_spread"), 12), title_text="proxy spread (distance)")
    return fig


def _add_run(
    fig: Any, recording: RecordingLike, key: str, name: str, index: int, logarithmic: bool, *,
    row: int | None = None, legend: bool = True,
    markers: bool = False,
) -> None:  # fmt: skip
    steps, values = series(recording, key)
    stretched = key == "map_at_r" and row is not None
    shown = np.maximum(1 - values if stretched else values, SMALLEST) if logarithmic or stretched else values
    fig.add_scatter(
        x=steps,
        y=np.array([float(f"{v:.5g}") for v in shown]),
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


def towards_one(scores: Any) -> dict[str, Any]:
    """Settings of an axis on which 1 − MAP@R is drawn downwards and logarithmically, labelled with MAP@R itself.

    Parameters
    ----------
    scores : all MAP@R to be drawn; where they lie so close that fewer than two of the usual labels are among them, their own
        are added.
    """
    shown = [score for score in MAP_TICKS if np.min(scores, initial=1) <= score <= np.max(scores, initial=0)]
    own = np.linspace(np.min(scores), np.max(scores), 3).tolist() if len(shown) < 2 and np.size(scores) else []
    own = sorted({float(f"{score:.3f}") for score in own})
    room = (_missing(own[0]) - _missing(own[-1])) / 3 if own else 0.0  # nearer than this, two labels would overprint
    usual = [score for score in MAP_TICKS if all(abs(_missing(score) - _missing(mine)) > room for mine in own)]
    labels = sorted({*usual, *own})
    ticks = [max(1 - score, SMALLEST) for score in labels]
    return {"type": "log", "autorange": "reversed", "tickvals": ticks, "ticktext": [f"{score:g}" for score in labels]}


def _missing(score: float) -> float:
    """Where a score stands on the axis of `towards_one`: decades of what is missing to 1."""
    return float(np.log10(max(1 - score, SMALLEST)))


def logarithmic_values(runs: Runs, key: str) -> Floats:
    """What all runs have of a metric, as a logarithmic axis draws it."""
    values: Floats = np.maximum(np.concatenate([series(r, key)[1] for r in runs.values()]), SMALLEST)
    return values


def _boundaries(fig: Any, runs: Runs) -> str:
    """Vertical lines where proxy problems end, each run's in its colour and dashes; what they mean, as a line of text."""
    said: list[str] = []
    for index, (name, recording) in enumerate(runs.items()):
        last = max((int(s) for s in recording.metrics.get("step", ())), default=0)
        ends = [problem.end for problem in recording.problems if problem.end < last]  # the end of the run is no boundary
        dash, word = BOUNDARIES[len(said) % len(BOUNDARIES)]
        for end in ends:
            line = {"color": run_line(index)["color"], "width": 1, "dash": dash}
            fig.add_vline(x=end, line=line, opacity=0.7)
        said += [f"{word}: {plain(name)}"] if ends else []
    if len(said) > 1:
        return f"vertical lines: a proxy problem ends ({', '.join(said)})"
    return "dotted lines: a proxy problem ends" if said else ""


def _event_marks(fig: Any, runs: Runs) -> None:
    marked = [(name, e) for name, r in runs.items() for e in r.events if "step" in e]
    for name, event in marked:
        fig.add_annotation(
            x=event["step"], y=1, xref="x", yref="y domain", text="▾",
            hovertext=plain(f"{name}: {event.get('what', 'changed')}"),
            showarrow=False, yanchor="bottom", font={"color": FAINT, "size": 14},
        )  # fmt: skip
