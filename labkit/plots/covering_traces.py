"""The stepper's traces, by name, and what they hold after so many picks."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.plots.covering_steps import Cover, CoveringSteps
from labkit.plots.findings import number
from labkit.plots.marks import coordinates
from labkit.plots.palette import CLASS_COLORS, FAINT, INK, RUN_COLORS, class_color, plain, translucent
from labkit.plots.plane import Plane
from labkit.plots.reading import Floats

GREEDY, RANDOM, BEST = RUN_COLORS[0], RUN_COLORS[1], RUN_COLORS[2]
BALLS = [f"balls {i}" for i in range(len(CLASS_COLORS))]  # a trace per colour
ORDER = [
    *BALLS, "samples", "proxies", "links", "farthest", "picks",
    "random band", "random median", "greedy / 2", "best", "greedy", "now",
]  # fmt: skip
CLOSE = 0.045  # of the picture's width: numbers of picks nearer than that would lie over each other
SIDES = {"top center": (0, 1), "middle left": (-1, 0), "middle right": (1, 0), "bottom center": (0, -1)}
TRACES = {name: place for place, name in enumerate(ORDER)}


def blank_traces() -> list[tuple[Any, int]]:
    """Every trace without points, with the column it belongs to: 1, the plane; 2, the radius against the picks."""
    return [(trace, 1) for trace in _blank_plane()] + [(trace, 2) for trace in _blank_curves()]


def _blank_plane() -> list[Any]:
    shown = {"hoverinfo": "skip", "showlegend": False}
    balls = [
        go.Scatter(
            mode="lines", fill="toself", fillcolor=translucent(color, 0.08), name=name,
            line={"color": translucent(color, 0.6), "width": 1}, **shown,
        )
        for name, color in zip(BALLS, CLASS_COLORS, strict=True)
    ]  # fmt: skip
    return [
        *balls,
        go.Scattergl(
            mode="markers", name="samples", marker={"size": 6, "opacity": 0.8}, showlegend=False,
            hovertemplate="%{text}<br>(%{x:.3f}, %{y:.3f})<extra></extra>",
        ),
        go.Scatter(
            mode="markers", name="proxies", showlegend=False, hovertemplate="initial centre, %{text}<extra></extra>",
            marker={"symbol": "square", "size": 11, "line": {"width": 1.5, "color": INK}},
        ),
        go.Scatter(mode="lines", name="links", line={"color": INK, "width": 1.5, "dash": "dot"}, **shown),
        go.Scatter(
            mode="markers", name="farthest", showlegend=False,
            marker={"symbol": "star", "size": 15, "color": "white", "line": {"width": 2, "color": INK}},
            hovertemplate="farthest sample, %{text}: the next pick<extra></extra>",
        ),
        go.Scatter(
            mode="markers+text", name="picks", showlegend=False, textposition="top center",
            textfont={"size": 13, "color": INK, "shadow": ", ".join(["0px 0px 2px white"] * 6)},
            marker={"symbol": "circle", "size": 13, "color": "white", "line": {"width": 2.5}},
            customdata=[], hovertemplate="pick %{customdata}<extra></extra>",
        ),
    ]  # fmt: skip


def _blank_curves() -> list[Any]:
    radius = "%{x} picks: radius %{y:.3f}<extra></extra>"
    return [
        go.Scatter(
            mode="lines", fill="toself", fillcolor=translucent(RANDOM, 0.15), line={"width": 0}, name="90 % of random draws",
            hoverinfo="skip",
        ),
        go.Scatter(
            mode="lines", name="random, median", line={"color": RANDOM, "dash": "dash", "width": 2},
            hovertemplate="random, " + radius,
        ),
        go.Scatter(
            mode="lines", name="lower limit: greedy / 2", line={"color": FAINT, "dash": "dot", "width": 1.5},
            hovertemplate="half of greedy, " + radius,
        ),
        go.Scatter(
            mode="markers", name="best", marker={"symbol": "diamond-open", "size": 9, "color": BEST, "line": {"width": 2}},
            hovertemplate="best, " + radius,
        ),
        go.Scatter(
            mode="lines+markers", name="greedy", line={"color": GREEDY, "width": 2.5}, hovertemplate="greedy, " + radius
        ),
        go.Scatter(
            mode="markers", name="now", showlegend=False, hoverinfo="skip",
            marker={"symbol": "circle-open", "size": 16, "color": INK, "line": {"width": 2.5}},
        ),
    ]  # fmt: skip


def label_radii(fig: Any) -> None:
    """The axes and the legend of the curves, for the picture and the panel alike; below, clear of plotly's own buttons."""
    fig.update_layout(legend={"y": 0.0, "yanchor": "bottom", "x": 1.02, "xanchor": "left"})
    fig.update_xaxes(title_text="picks", dtick=1, row=1, col=2)
    fig.update_yaxes(title_text="covering radius (distance)", rangemode="tozero", row=1, col=2)


def trace_updates(
    steps: CoveringSteps, step: int, plane: Plane, *, random: bool = True, best: bool = True
) -> dict[str, dict[str, Any]]:
    """What each trace holds after `step` picks. A ball is drawn around every centre, with its class's covering radius."""
    covers = steps.at(step)
    return _plane_updates(steps, covers, plane) | _curve_updates(steps, step, random, best)


def _plane_updates(steps: CoveringSteps, covers: list[Cover], plane: Plane) -> dict[str, dict[str, Any]]:
    sets = steps.sets
    rings: dict[str, list[Any]] = {name: [] for name in BALLS}
    turn = np.append(np.linspace(0, 2 * np.pi, 49), np.nan)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for s, cover in zip(sets, covers, strict=True):
        if cover.farthest is not None:
            around = plane(cover.centres)[:, None] + cover.radius * circle
            rings[BALLS[s.index % len(BALLS)]].append(around.reshape(-1, 2))
    updates = {name: coordinates(np.concatenate(parts) if parts else np.zeros((0, 2))) for name, parts in rings.items()}
    names = [f"class {plain(s.name)}" for s in sets]
    colors = [class_color(s.index) for s in sets]
    counts = [len(s.points) for s in sets]
    updates["samples"] = coordinates(np.concatenate([plane(s.points) for s in sets])) | {
        "text": _repeat([f"{n}, sample" for n in names], counts),
        "marker": {"color": _repeat(colors, counts)},
    }
    given = [0 if s.initial is None else len(s.initial) for s in sets]
    updates["proxies"] = coordinates(_stack([plane(s.initial) for s in sets if s.initial is not None])) | {
        "text": _repeat(names, given),
        "marker": {"color": _repeat(colors, given)},
    }
    far = [(plane(s.points[c.farthest]), plane(c.nearest), n) for s, c, n in zip(sets, covers, names, strict=True)
           if c.farthest is not None and c.nearest is not None and c.radius > 0]  # fmt: skip
    gap = np.full(2, np.nan)
    updates["links"] = coordinates(_stack([np.stack((a, b, gap)) for a, b, _ in far]))
    updates["farthest"] = coordinates(_stack([a[None] for a, _, _ in far])) | {"text": [n for _, _, n in far]}
    taken = [plane(s.points[c.picks]) for s, c in zip(sets, covers, strict=True)]
    cloud = np.concatenate([plane(s.points) for s in sets])
    near = CLOSE * float(np.ptp(cloud, axis=0).max())
    numbers = [[""] * len(picks) for picks in taken]  # of all classes together they would lie over each other
    numbers[widest(steps)] = _pick_numbers(taken[widest(steps)], near)
    marks = _stack([plane(c.centres) for c in covers] + [a[None] for a, _, _ in far])
    updates["picks"] = coordinates(_stack(taken)) | {
        "text": [text for texts in numbers for text in texts],
        "textposition": _free_sides(_stack(taken), marks, near),
        "customdata": [f"{i + 1}, {name}" for picks, name in zip(taken, names, strict=True) for i in range(len(picks))],
        "marker": {"line": {"color": _repeat(colors, [len(picks) for picks in taken])}},
    }
    return updates


def widest(steps: CoveringSteps) -> int:
    """Place of the set with the largest radius before the first pick; after it, where there are no centres before."""
    return int(steps.radii[:, 0 if np.isfinite(steps.greedy[0]) else 1].argmax())


def _pick_numbers(places: Floats, near: float) -> list[str]:
    """A number for each of (m, 2) picks of a class; picks within `near` of an earlier one share its label: "1,3"."""
    texts: list[str] = []
    for i, place in enumerate(places):
        close = [j for j in range(i) if texts[j] and np.linalg.norm(place - places[j]) < near]
        if close:
            texts[close[0]] += f",{i + 1}"
        texts.append("" if close else str(i + 1))
    return texts


def _free_sides(places: Floats, marks: Floats, near: float) -> list[str]:
    """For each of (m, 2) places the first side on which a text has no mark (p, 2) within `near`; else the least crowded."""
    sides = []
    for place in places:
        room = {s: np.linalg.norm(place + 1.3 * near * np.array(way) - marks, axis=1).min() for s, way in SIDES.items()}
        sides.append(next((s for s, r in room.items() if r >= near), max(room, key=lambda s: room[s])))
    return sides


def _curve_updates(steps: CoveringSteps, step: int, random: bool, best: bool) -> dict[str, dict[str, Any]]:
    x: Floats = np.arange(steps.k + 1.0)
    known = np.isfinite(steps.greedy)
    low, middle, high = np.quantile(steps.random[:, known], [0.05, 0.5, 0.95], axis=0)
    band: Any = np.column_stack((np.append(x[known], x[known][::-1]), np.append(high, low[::-1])))
    nothing = np.zeros((0, 2))
    # The picks and the sample left farthest are k + 1 points that far from each other and from the centres there before.
    # So k new balls of less than half of that miss one of them, and the old ones hold none.
    halves = np.column_stack((x[known], steps.greedy[known] / 2))
    optimum = steps.optimum if best else None
    return {
        "random band": coordinates(band if random else nothing),
        "random median": coordinates(np.column_stack((x[known], middle)) if random else nothing),
        "greedy / 2": coordinates(halves if best else nothing),
        "best": coordinates(nothing if optimum is None else np.column_stack((x[known], optimum[known]))),
        "greedy": coordinates(np.column_stack((x[known], steps.greedy[known]))),
        "now": coordinates(np.array([[step, steps.greedy[step]]]) if known[step] else nothing),
    }


def notice(steps: CoveringSteps, step: int, *, random: bool = True, best: bool = True) -> str:
    """What the picture shows at this step, in words."""
    several = len(steps.sets) > 1
    if not np.isfinite(steps.greedy[step]):
        return (
            "No centre yet, so no radius. Greedy has nothing to be far from and starts at the first sample; press Next."
        )
    now = steps.greedy[step]
    text = f"Radius {number(now)}" + (" (mean over classes)" if several else "") + f" after {how_many(step)}."
    if step < steps.k:
        following = steps.greedy[step + 1]
        star = "Each class's star" if several else "The star"
        text += f" {star} is farthest from all centres and comes next, which leaves {number(following)}."
        if following > 0.95 * now:
            text += " That helps little: another sample is almost as far."
    if step and random:
        middle = float(np.median(steps.random[:, step]))
        share = float((steps.random[:, step] <= now).mean())
        as_well = f"{share:.0%}" if share else "none"
        text += f" Random picks: {number(middle)} (median of {len(steps.random)} draws); {as_well} of them do as well."
    if step and best and steps.optimum is not None:
        least = steps.optimum[step]
        ratio = f", so greedy is {now / least:.2f} times it" if least > 0 else ""
        text += f" The best {how_many(step)}: {number(least)}{ratio}."
    elif step and best:
        text += " The set is too large to find the best picks; take a smaller pool."
    return text


def how_many(count: int) -> str:
    """So many picks, in words."""
    return f"{count} pick" + ("" if count == 1 else "s")


def _stack(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros((0, 2))


def _repeat(values: list[Any], counts: list[int]) -> list[Any]:
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
