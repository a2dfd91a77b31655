"""k-Center curves of many classes at several moments of a run, with a slider over the moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.errors import LabError
from labkit.plots.findings import number
from labkit.plots.palette import FAINT, INK, plain, present
from labkit.plots.radius_curves import mean_curve
from labkit.plots.reading import Floats, Ints, check_pixels, float_array
from labkit.plots.standing_out import PALE, StandOut, looks
from labkit.validation import check_choice, describe


def class_curves(
    curves: Mapping[str, Sequence[Any]],
    labels: Any,
    *,
    stand_out: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
    shown: str | None = None,
    title: str | None = None,
    width: int = 900,
) -> Any:
    """Covering radius against k, a line for each class, as the slider moves from one moment to the next.

    Dotted: the mean over classes at the first moment, for comparison.

    Parameters
    ----------
    curves : by moment, in order: what `labkit.metrics.covering_curve` gives, one (n_c,) array per class, classes sorted.
    labels : whole numbers, those of the samples or one of each class; sorted and each counted once they name the curves.
    stand_out, class_names : as in `labkit.plots.problem_maps`. shown : the moment that the slider opens at; None: the
        last. title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure with a frame for each moment.

    Raises
    ------
    LabError : no moment, none of that name, another number of curves than classes, curves that are empty or not finite, a
        class that stands out and is not there, or `width` < 10.

    Reference: "Deep Metric Learning with Chance Constraints", covering radius in the test domain.
    """
    check_pixels("width", width)
    if not isinstance(curves, Mapping) or not curves:
        raise LabError("curves", "a dict of curves by moment", describe(curves))
    classes = np.unique(np.asarray(labels))
    styles = looks(stand_out, classes, class_names)
    read = {str(name): _read(name, group, classes) for name, group in curves.items()}
    means = {name: mean_curve(group) for name, group in read.items()}
    averages = {name: float(np.mean([c.mean() for c in group])) for name, group in read.items()}
    first = next(iter(read))
    now = next(reversed(read)) if shown is None else check_choice("shown", shown, list(read))
    fig = go.Figure(_traces(read[now], means[now], means[first], classes, styles, first))
    moving = list(range(len(fig.data) - 1))  # the dotted line stays
    for name, group in read.items():
        data = _traces(group, means[name], means[first], classes, styles, first)[:-1]
        fig.frames += (go.Frame(name=name, traces=moving, data=[{"type": "scatter", "x": t.x, "y": t.y} for t in data]),)
    told = [f"{number(averages[name])} at “{name}”" for name in dict.fromkeys((first, now))]
    head = f"Mean over k and classes: {', '.join(told)}"
    note = "one line a class, down to 0 where every sample is a centre"
    note += "; the slider below goes through the moments" if len(read) > 1 else ""
    present(fig, title if title is not None else head, note, width=width, height=400)
    top = 1.05 * max(float(c.max()) for group in read.values() for c in group)
    fig.update_xaxes(title_text="k, centres taken greedily per class")
    fig.update_yaxes(range=[0, top or 1], title_text="covering radius (distance)")
    steps = [
        {"label": plain(name), "method": "animate",
         "args": [[name], {"mode": "immediate", "transition": {"duration": 0}, "frame": {"duration": 0, "redraw": False}}]}
        for name in read
    ]  # fmt: skip
    slider = {"active": list(read).index(now), "steps": steps, "pad": {"t": 45}, "currentvalue": {"prefix": "shown: "}}
    fig.update_layout(sliders=[slider] if len(read) > 1 else [], margin={"b": 130 if len(read) > 1 else 55})
    fig.update_layout(height=fig.layout.height + (75 if len(read) > 1 else 0))
    return fig


def _read(name: str, group: Any, classes: Ints) -> list[Floats]:
    if not hasattr(group, "__len__") or len(group) != len(classes):
        raise LabError(f"curves[{name!r}]", f"{len(classes)} curves, one per class", describe(group))
    return [float_array("curves", radii, "n") for radii in group]


def _traces(
    group: list[Floats], mean: Floats, reference: Floats, classes: Ints, styles: list[StandOut], first: str
) -> list[Any]:
    """The pale many as one trace, each class that stands out, the mean, and the mean of the first moment."""
    special = {style.label for style in styles}
    many = [c for c, label in zip(group, classes.tolist(), strict=True) if label not in special]
    x: list[Any] = [v for c in many for v in (*range(1, len(c) + 1), None)]
    y: list[Any] = [v for c in many for v in (*c.round(4).tolist(), None)]
    traces = [go.Scatter(x=x, y=y, mode="lines", name="other classes", hoverinfo="skip", line={"color": PALE, "width": 1})]
    for style in styles:
        own = group[int(np.searchsorted(classes, style.label))]
        traces.append(
            go.Scatter(
                x=np.arange(1, len(own) + 1), y=own.round(4), mode="lines+markers", name=style.name,
                line={"color": style.color, "width": 1.5, "dash": style.dash}, marker={"symbol": style.symbol, "size": 6},
                hovertemplate=f"{style.name}, k = %{{x}}: %{{y:.3f}}<extra></extra>",
            )
        )  # fmt: skip
    for values, name, line in (
        (mean, "mean over classes", {"color": INK, "width": 4}),
        (reference, f"mean, {plain(first)}", {"color": FAINT, "width": 3, "dash": "dot"}),
    ):
        k = np.arange(1, len(values) + 1)
        hover = f"{name}, k = %{{x}}: %{{y:.3f}}<extra></extra>"
        traces.append(go.Scatter(x=k, y=values.round(4), mode="lines", name=name, line=line, hovertemplate=hover))
    return traces
