"""The traces of the run comparison: a map per run, curves over each other, and a line where the timeline stands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.plots import marks
from labkit.plots.film import Film
from labkit.plots.metric_axes import drawn, metric_axis, scale_of
from labkit.plots.palette import INK, NEXT_PROXY_SYMBOL, PROXY_SYMBOL, class_color, plain, run_line
from labkit.plots.reading import Floats, Ints, RecordingLike, Runs, series, value_at

MOST_MAPS = 4
CURVES = (
    ("map_at_r", "MAP@R", False),
    ("covering_q95", "95 % cover", True),
    ("proxy_spread", "proxy spread", True),
    ("loss", "loss", False),
)
NO_SPREAD = "one proxy per class: no spread"
PARTS = ("samples", "proxies", "next proxies", "numbers")  # the traces of one map, in order


def grid(maps: int) -> list[list[dict[str, int] | None]]:
    """Subplot specs: `maps` maps over the four curves."""
    columns = math.lcm(maps, len(CURVES))

    def line(count: int) -> list[dict[str, int] | None]:
        span = columns // count
        return [{"colspan": span} if i % span == 0 else None for i in range(columns)]

    return [line(maps), line(len(CURVES))]


def column(place: int, count: int, maps: int) -> int:
    """The grid's column, from 1, at which the `place`-th of `count` subplots of a row begins."""
    return 1 + place * math.lcm(maps, len(CURVES)) // count


def map_traces(film: Film) -> list[Any]:
    """One map without positions, in the order of PARTS."""
    colors = [class_color(int(np.searchsorted(film.classes, c))) for c in film.labels]
    kept = next((p for p in film.proxies if p is not None), np.zeros((len(film.classes), 0, 2)))
    owners = [class_color(i) for i in range(len(film.classes)) for _ in range(kept.shape[1])]
    quiet: dict[str, Any] = {"hoverinfo": "skip", "showlegend": False}
    texts = [film.names[int(np.searchsorted(film.classes, c))] for c in film.labels]
    return [
        go.Scattergl(
            mode="markers", marker={"size": 4, "color": colors, "opacity": 0.7}, showlegend=False,
            text=[f"class {plain(name)}, sample {row}" for name, row in zip(texts, film.rows, strict=True)],
            hovertemplate="%{text}<extra></extra>",
        ),
        go.Scatter(
            mode="markers", **quiet,
            marker={"symbol": PROXY_SYMBOL, "size": 8, "color": owners, "line": {"width": 1.2, "color": INK}},
        ),
        go.Scatter(
            mode="markers", **quiet,
            marker={"symbol": NEXT_PROXY_SYMBOL, "size": 8, "color": "white", "line": {"width": 2, "color": owners}},
        ),
        go.Scatter(
            mode="text", text=[f"<b>{plain(name)}</b>" for name in film.names], **quiet,
            textfont={"size": 13, "color": [class_color(i) for i in range(len(film.names))]},
        ),
    ]  # fmt: skip


def map_positions(film: Film, at: int) -> list[dict[str, Any]]:
    """Where the traces of a map stand at a snapshot, in the order of PARTS."""
    empty = np.zeros((0, 2))
    own, following = film.proxies[at], film.following[at]
    parts = [film.xy[at], empty if own is None else own, empty if following is None else following, film.numbers[at]]
    flat = [marks.short(part.reshape(-1, 2)) for part in parts]
    return [{"x": part[:, 0].copy(), "y": part[:, 1].copy()} for part in flat]


def curve_traces(runs: Runs, key: str, logarithmic: bool, *, legend: bool) -> list[Any]:
    """A metric of every run over the steps, each with marks where its proxy problems end."""
    traces, scale = [], scale_of(runs, key, logarithmic)
    for index, (name, recording) in enumerate(runs.items()):
        steps, values = drawn_series(recording, key, logarithmic)
        ends = np.array([p.end for p in recording.problems], dtype=np.int64)
        ends = ends if len(values) else ends[:0]
        at_ends = np.array([value_at(recording, key, int(end)) for end in ends])
        style: dict[str, Any] = {"name": plain(name), "legendgroup": str(index)}
        traces.append(
            go.Scatter(
                x=steps, y=drawn(values, scale), customdata=values.round(5), mode="lines", **style,
                line=run_line(index), showlegend=legend,
                hovertemplate=f"step %{{x}}: %{{customdata:.4g}}<extra>{plain(name)}</extra>",
            )
        )  # fmt: skip
        traces.append(
            go.Scatter(
                x=ends, y=drawn(at_ends, scale), mode="markers", **style, showlegend=False,
                marker={"symbol": "diamond", "size": 7, "color": run_line(index)["color"]},
                hovertemplate=f"a proxy problem ends at step %{{x}}<extra>{plain(name)}</extra>",
            )
        )  # fmt: skip
    return traces


def drawn_series(recording: RecordingLike, key: str, logarithmic: bool) -> tuple[Ints, Floats]:
    """Steps and values of a metric; none at all where a logarithmic axis has a place for none of them."""
    steps, values = series(recording, key)
    return (steps[:0], values[:0]) if logarithmic and not (values > 0).any() else (steps, values)


def without_spread(runs: Runs) -> str:
    """Which runs have one proxy per class, so that no curve of their spread is drawn, in words; empty where none has."""
    spreads = {name: series(recording, "proxy_spread")[1] for name, recording in runs.items()}
    alone = [name for name, values in spreads.items() if len(values) and not (values > 0).any()]
    return NO_SPREAD if len(alone) == len(runs) else f"no spread, one proxy per class:\n{', '.join(alone)}" if alone else ""


def remark(text: str, axis: int) -> dict[str, Any]:
    """A line of text in the middle of a subplot, by the number of its axes; several lines stand over it."""
    over = "\n" in text
    return {"text": plain(text).replace("\n", "<br>"), "x": 0.5, "xref": f"x{axis} domain", "yref": f"y{axis} domain",
            "y": 1 if over else 0.5, "yanchor": "bottom" if over else "middle", "xanchor": "center", "showarrow": False,
            "bgcolor": "rgba(255, 255, 255, 0.85)", "font": {"size": 11 if over else 12, "color": INK}}  # fmt: skip


def curve_axis(runs: Runs, key: str, label: str, logarithmic: bool) -> dict[str, Any]:
    """How the metric's axis is drawn and labelled: high MAP@R by what is missing to 1, so that .98 and .99 are told apart."""
    values = np.concatenate([drawn_series(recording, key, logarithmic)[1] for recording in runs.values()])
    return metric_axis(values, scale_of(runs, key, logarithmic), label)
