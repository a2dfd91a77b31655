"""Greedy K-Center after so many picks, as a plain figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly.subplots import make_subplots

from labkit.plots.covering_steps import CoveringSteps
from labkit.plots.covering_traces import ORDER, blank_traces, how_many, label_radii, trace_updates, widest
from labkit.plots.findings import number
from labkit.plots.marks import NUMBER_GAP, extent_of, number_positions, square_axes
from labkit.plots.palette import class_color, plain, present
from labkit.plots.plane import Plane
from labkit.plots.reading import check_pixels


def covering_picture(steps: CoveringSteps, step: int, *, title: str | None = None, width: int = 1040) -> Any:
    """The stepper's picture after `step` picks, as a plain figure: the cover in the plane, and the radius so far.

    Parameters
    ----------
    steps : what was computed. step : 0 to its k. title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : a step out of range, or `width` < 10.
    """
    check_pixels("width", width)
    fig = make_subplots(rows=1, cols=2, column_widths=[0.54, 0.46], horizontal_spacing=0.1)
    plane = Plane.of(np.concatenate([s.points for s in steps.sets]))
    updates = trace_updates(steps, step, plane)
    for name, (trace, place) in zip(ORDER, blank_traces(), strict=True):
        fig.add_trace(trace.update(updates[name]), row=1, col=place)
    extent = frame_plane(fig, steps, plane)
    label_radii(fig)
    name_classes(fig, steps, plane, extent)
    now = steps.greedy[step]
    head = f"After {how_many(step)} the covering radius is {number(now)}" if np.isfinite(now) else "No centre yet"
    head += " (mean over classes)" if len(steps.sets) > 1 and np.isfinite(now) else ""
    present(fig, title if title is not None else head, what_marks_mean(steps, step), width=width, height=430)
    return fig


def frame_plane(fig: Any, steps: CoveringSteps, plane: Plane) -> float:
    """Axes that hold every sample and stay while stepping; a class alone fills the picture. Gives `extent_of` it all."""
    xy = [plane(s.points) for s in steps.sets] + [plane(s.initial) for s in steps.sets if s.initial is not None]
    extent = extent_of(plane, *xy)
    square_axes(fig, extent, plane, row=1, col=1)
    low, high = np.concatenate(xy).min(axis=0), np.concatenate(xy).max(axis=0)
    half = 0.65 * max(float((high - low).max()), 1e-6)
    if len(steps.sets) == 1 and half < extent:
        for axis, middle in zip((fig.layout.xaxis, fig.layout.yaxis), (low + high) / 2, strict=True):
            axis.range = [middle - half, middle + half]
    return extent


def what_marks_mean(steps: CoveringSteps, step: int) -> str:
    """What the marks in the plane mean, of those that are there; plain text, to be escaped where it is drawn."""
    covers = steps.at(step)
    numbered = f", numbered for the widest class, {steps.sets[widest(steps)].name}" if len(covers) > 1 else ""
    balls = "balls: each class's own radius" if len(covers) > 1 else "balls: the radius"
    parts = {
        "squares: centres that are there already": any(s.initial is not None for s in steps.sets),
        f"rings: picks{numbered}": step > 0,
        "star: the farthest sample, the next pick": any(c.farthest is not None and c.radius > 0 for c in covers),
        balls: any(len(c.centres) for c in covers),
    }
    return "; ".join(text for text, there in parts.items() if there)


def name_classes(fig: Any, steps: CoveringSteps, plane: Plane, extent: float) -> None:
    """Each class's name beyond the outer edge of its samples; one class alone needs none."""
    clouds = [plane(s.points) for s in steps.sets]
    if len(clouds) < 2:
        return
    owners = np.repeat(np.arange(len(clouds)), [len(cloud) for cloud in clouds])
    classes: Any = np.arange(len(clouds))
    places = number_positions(np.concatenate(clouds), owners, classes, NUMBER_GAP * extent)
    for s, (x, y) in zip(steps.sets, places.tolist(), strict=True):
        font = {"size": 15, "color": class_color(s.index), "shadow": ", ".join(["0px 0px 2px white"] * 6)}
        fig.add_annotation(x=x, y=y, text=f"<b>{plain(s.name)}</b>", showarrow=False, font=font, row=1, col=1)
