"""The marks that every picture of an embedding is made of: samples, class numbers, proxies, covering balls, axes."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.plots.palette import (
    FAINT,
    INK,
    NEXT_PROXY_SYMBOL,
    PAPER,
    PROXY_SYMBOL,
    SAMPLE_SYMBOL,
    class_color,
    plain,
    translucent,
)
from labkit.plots.plane import Plane
from labkit.plots.reading import Floats, Ints

MANY = 5000  # from so many samples on, drawing is left to WebGL
NUMBER_GAP = 0.08  # between a class's outer edge and its number, in half widths of the picture
MOST_TURNS = 100  # of moving numbers apart
MOST_NAMED = 20  # classes that a map writes the names of
WORD, WORDY = 3, 13  # a name of more characters than WORD is written in letters of WORDY pixels, in lines of so many
FEW = 500  # so many samples, with no proxies among them, are told apart by one filled shape for each class
SHAPES = (
    "circle", "diamond", "triangle-up", "cross", "star", "triangle-down", "pentagon", "x", "hexagon", "star-diamond"
)  # fmt: skip


def short(points: Floats) -> Any:
    """Three decimals in single precision: what a picture can show, in a third of the bytes."""
    return np.round(points, 3).astype(np.float32)


def sample_traces(
    xy: Floats,
    labels: Ints,
    classes: Ints,
    names: list[str],
    pictures: list[str] | None = None,
    *,
    size: float = 6,
    legend: bool = True,
    shapes: bool = False,
) -> list[Any]:
    """One trace per class of three-armed marks for (n, 2) points; `customdata` holds each sample's row.

    shapes : a filled shape of its own for each class instead, half as large again.
    """
    kind = go.Scattergl if len(xy) > MANY else go.Scatter
    traces = []
    for index, (c, name) in enumerate(zip(classes, names, strict=True)):
        rows = np.flatnonzero(labels == c)
        name = plain(name)
        hover = f"class {name}, sample %{{customdata}}<br>(%{{x:.3f}}, %{{y:.3f}})"
        traces.append(
            kind(
                x=short(xy[rows, 0]),
                y=short(xy[rows, 1]),
                mode="markers",
                name=name,
                legendgroup=name,
                showlegend=legend,
                marker={
                    # Beyond the tenth class colours begin again, with other shapes.
                    "symbol": SHAPES[(index + index // len(SHAPES)) % len(SHAPES)] if shapes else SAMPLE_SYMBOL,
                    "size": 1.5 * size if shapes else size,
                    "color": class_color(index),
                    "line": {"width": 0.5 if shapes else 1, "color": PAPER if shapes else class_color(index)},
                },
                opacity=0.75,
                customdata=rows.astype(np.int32),
                text=[pictures[row] for row in rows] if pictures else None,
                hovertemplate=hover + ("<br>%{text}" if pictures else "") + "<extra></extra>",
            )
        )
    return traces


def number_positions(xy: Floats, labels: Ints, classes: Ints, gap: float) -> Floats:
    """(C, 2) places for the class numbers: from a class's median outwards, `gap` beyond its edge, hiding nothing."""
    members = [xy[labels == c] for c in classes]
    medians = np.stack([np.median(m, axis=0) for m in members])
    outward = medians - medians.mean(axis=0)
    length = np.linalg.norm(outward, axis=1, keepdims=True)
    outward = np.divide(outward, length, out=np.zeros_like(outward), where=length > 1e-9)
    edge = [np.quantile((m - middle) @ o, 0.98) for m, middle, o in zip(members, medians, outward, strict=True)]
    return kept_apart(medians + (np.array(edge)[:, None] + gap) * outward, gap)


def kept_apart(places: Floats, apart: float, edge: float = np.inf) -> Floats:
    """(C, 2) places, those nearer to each other than `apart` moved, in a great crowd as far as it goes; none beyond ± `edge`."""
    angles = 2.4 * np.arange(len(places))  # no two alike, for those on one spot
    nudge = 1e-3 * np.stack((np.cos(angles), np.sin(angles)), axis=1)
    moved: Floats = places / apart
    for turn in range(MOST_TURNS):
        gaps = (moved + nudge)[:, None] - (moved + nudge)
        distances = np.linalg.norm(gaps, axis=2) + 2 * np.eye(len(places))
        lacking = np.maximum(1 - distances, 0)
        if lacking.max(initial=0) < 0.02:
            return places if turn == 0 else moved * apart
        moved += (gaps * (0.5 * lacking / distances)[:, :, None]).sum(axis=1)
        moved = moved.clip(-edge / apart, edge / apart)
    return moved * apart


def number_trace(positions: Floats, names: list[str], *, size: int = 18) -> Any:
    """The class numbers, in their class's colour with a white rim, so that no colour has to be told from another.

    More than 20 names would hide the samples: then pointing at a mark tells its class, and nothing is written.
    """
    shown = names if len(names) <= MOST_NAMED else [""] * len(names)
    size, lines = _fitted(shown, size)
    return go.Scatter(
        x=short(positions[:, 0]),
        y=short(positions[:, 1]),
        mode="text",
        text=["<br>".join(f"<b>{plain(line)}</b>" for line in name) for name in lines],
        textfont={
            "size": size,
            "color": [class_color(i) for i in range(len(names))],
            "shadow": ", ".join(["0px 0px 2px white"] * 6),
        },
        showlegend=False,
        hoverinfo="skip",
    )


def _fitted(names: list[str], size: int) -> tuple[int, list[list[str]]]:
    """The size of letters for these names, and each name in lines, broken at spaces and underscores."""
    if max(map(len, names), default=0) <= WORD:
        return size, [[name] for name in names]
    return min(size, WORDY), [textwrap.wrap(name.replace("_", " "), WORDY, break_long_words=False) or [""] for name in names]


def room_for_names(extent: float, positions: Floats, names: list[str], pixels: float, *, size: int = 18) -> float:
    """`extent`, or as much more as keeps the names of `number_trace` at (C, 2) `positions` inside a square of `pixels`."""
    if len(names) > MOST_NAMED:
        return extent
    size, lines = _fitted(names, size)
    longest = [max(map(len, name)) for name in lines]
    # A bold letter is about 0.62 of its height wide; a name of half the picture's width is as much room as can be made.
    shares = [(min(0.5, 0.62 * size * n / pixels), min(0.5, 1.3 * size * len(of) / pixels)) for n, of in zip(longest, lines)]
    needed = np.abs(positions) / (1 - np.array(shares))
    return max(extent, float(needed.max(initial=0)))


def proxy_trace(
    xy: Floats | None, names: list[str], *, following: bool = False, size: float = 10, legend: bool = True
) -> Any:
    """(C, K, 2) proxies: squares filled with the class's colour or, `following`, rings; None gives an empty trace."""
    points = np.zeros((0, 0, 2)) if xy is None else xy
    owner = np.repeat(np.arange(points.shape[0]), points.shape[1])
    colors = [class_color(int(i)) for i in owner]
    if following:
        marker = {"symbol": NEXT_PROXY_SYMBOL, "color": "white", "line": {"width": 2.5, "color": colors or INK}}
    else:
        marker = {"symbol": PROXY_SYMBOL, "color": colors or INK, "line": {"width": 1.5, "color": INK}}
    title = "next proxies (K-Center)" if following else "proxies"
    return go.Scatter(
        x=short(points[..., 0].ravel()),
        y=short(points[..., 1].ravel()),
        mode="markers",
        name=title,
        showlegend=legend,
        marker=marker | {"size": size, "opacity": 1.0},
        text=[plain(names[i]) for i in owner],
        hovertemplate=f"{title}, class %{{text}}<br>(%{{x:.4f}}, %{{y:.4f}})<extra></extra>",
    )


def coordinates(points: Floats) -> dict[str, Any]:
    """x and y of (n, 2) points as a trace's update, in single precision and not rounded: a class alone may be very small."""
    single = points.astype(np.float32)
    return {"x": single[:, 0].copy(), "y": single[:, 1].copy()}


def ball_traces(proxies_xy: Floats, radii: Floats, names: list[str], title: str) -> list[Any]:
    """Around each proxy of (C, K, 2) a circle of its class's radius; one trace per class, filled faintly."""
    turn = np.append(np.linspace(0, 2 * np.pi, 49), np.nan)  # NaN lifts the pen between two circles
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    traces = []
    for index, name in enumerate(names):
        rings = short((proxies_xy[index][:, None] + radii[index] * circle).reshape(-1, 2))
        color = class_color(index)
        traces.append(
            go.Scatter(
                x=[None if np.isnan(v) else float(v) for v in rings[:, 0]],
                y=[None if np.isnan(v) else float(v) for v in rings[:, 1]],
                mode="lines",
                fill="toself",
                fillcolor=translucent(color, 0.08),
                line={"color": translucent(color, 0.6), "width": 1},
                name=title,
                legendgroup="balls",
                legendrank=2000,
                showlegend=index == 0,
                hoverinfo="skip",
            )
        )
    return traces


def extent_of(plane: Plane, *clouds: Floats | None) -> float:
    """Half the side of the square that holds all points, the unit circle (for D = 2) and the class numbers."""
    largest = max([float(np.nanmax(np.abs(c))) for c in clouds if c is not None and np.isfinite(c).any()], default=1.0)
    if not plane.projected and largest <= 1.001:
        return 1.2
    return 1.2 * largest if largest > 0 else 1.0


def square_axes(
    fig: Any, extent: float, plane: Plane, *, row: int | None = None, col: int | None = None, bare: bool = False
) -> None:
    """Equal scales on both axes, -extent to extent; a faint unit circle where the plane is the embedding space."""
    where = {} if row is None else {"row": row, "col": col}
    label = "principal component {}" if plane.projected else "embedding, coordinate {}"
    units = "" if plane.projected else " (unit ball)"
    common = {
        "range": [-extent, extent],
        "constrain": "domain",
        "showticklabels": not bare,
        "ticks": "" if bare else "outside",
    }
    fig.update_xaxes(title_text="" if bare else label.format(1) + units, **common, **where)
    fig.update_yaxes(title_text="" if bare else label.format(2) + units, **common, **where)
    anchor = next(fig.select_traces(**where)).xaxis or "x"
    fig.update_yaxes(scaleanchor=anchor, scaleratio=1, **where)
    if not plane.projected:
        fig.add_shape(
            type="circle",
            x0=-1,
            y0=-1,
            x1=1,
            y1=1,
            line={"color": FAINT, "width": 1, "dash": "dot"},
            layer="below",
            **where,
        )
