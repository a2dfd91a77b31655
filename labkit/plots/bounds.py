"""Two bounds as pictures: the loss over anchor pairs against the covering radius, and Markov's on the chance constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import plotly.graph_objects as go

from labkit.errors import LabError
from labkit.losses.contrastive import MARGINS
from labkit.plots.findings import number
from labkit.plots.log_ticks import log_ticks
from labkit.plots.palette import FAINT, INK, RUN_COLORS, plain, present, run_line, translucent
from labkit.plots.reading import Floats, Ints, RecordingLike, Runs, check_pixels, named_runs, series
from labkit.validation import check_choice, check_number, describe

SYMBOLS = ("circle", "diamond", "square", "cross", "triangle-up", "star")
AGAINST = {"radius": "covering radius δ<sub>s</sub>", "mean_distance": "mean distance to the nearest stand-in"}
_FLOOR = 1e-7  # a logarithmic axis has no zero


class GapLike(Protocol):
    """One choice of anchors, see `labkit.metrics.AnchorGap`."""

    @property
    def anchors(self) -> int: ...
    @property
    def radius(self) -> float: ...
    @property
    def mean_distance(self) -> float: ...
    @property
    def gap(self) -> float: ...


def anchor_bound(
    groups: Mapping[str, Sequence[GapLike]], *, against: str = "radius", title: str | None = None, width: int = 760
) -> Any:
    """How far the loss over anchor pairs is from the loss over all pairs, with the line that it cannot cross.

    An anchor stands in for the samples nearest to it; the picture says stand-in, since losses call other things anchors.

    Parameters
    ----------
    groups : by name, what `labkit.metrics.anchor_gaps` gives for many choices of anchors.
    against : "radius", the covering radius, as in Proposition 4.2 of "Deep Metric Learning with Chance Constraints", or
        "mean_distance", which bounds the gap more tightly.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure, both axes logarithmic, in the units of the embeddings.

    Raises
    ------
    LabError : no groups, an empty one, another `against`, or `width` < 10.
    """
    check_pixels("width", width)
    check_choice("against", against, AGAINST)
    if not isinstance(groups, Mapping) or not groups or not all(len(group) for group in groups.values()):
        raise LabError("groups", "at least one list of anchor gaps by name, none empty", describe(groups))
    fig = go.Figure()
    everything = []
    for index, (name, group) in enumerate(groups.items()):
        x = np.array([getattr(one, against) for one in group])
        y = np.array([one.gap for one in group])
        everything.append(np.column_stack((x, y)))
        fig.add_scatter(
            x=np.maximum(x, _FLOOR), y=np.maximum(y, _FLOOR), mode="markers", name=plain(str(name)),
            customdata=[one.anchors for one in group],
            marker={"size": 8, "symbol": SYMBOLS[index % len(SYMBOLS)], "opacity": 0.7,
                    "color": RUN_COLORS[index % len(RUN_COLORS)]},
            hovertemplate="%{customdata} stand-ins: bound %{x:.4f}, gap %{y:.5f}<extra>" + plain(str(name)) + "</extra>",
        )  # fmt: skip
    both = np.concatenate(everything)
    low, high = max(_FLOOR, float(both[:, 0].min()) / 1.5), max(float(both[:, 0].max()) * 1.5, 2 * _FLOOR)
    fig.add_scatter(
        x=[low, high], y=[low, high], mode="lines", name="bound", line={"color": INK, "width": 2, "dash": "dash"},
        hoverinfo="skip",
    )  # fmt: skip
    ratio = float((both[:, 1] / np.maximum(both[:, 0], _FLOOR)).max())
    head = f"The gap is at most {number(ratio)} times the bound, over {len(both)} choices"
    present(fig, title if title is not None else head, "nothing can lie above the dashed line", width=width, height=420)
    across, up = (_shown(np.append(both[:, at], (low, high))) for at in (0, 1))
    fig.update_xaxes(title_text=AGAINST[against] + " (distance)", **log_ticks(across, 6))
    fig.update_yaxes(title_text="|loss over all pairs − over pairs with stand-ins|", **log_ticks(up, 6))
    return fig


def chance_constraint(
    recordings: RecordingLike | Runs, *, alpha: float | None = None, title: str | None = None, width: int = 860
) -> Any:
    """How often a pair lies on the wrong side of beta as training goes on, and Markov's bound on it: the surrogate over alpha.

    Parameters
    ----------
    recordings : one recording or a dict of them, with the metrics "violation" and "surrogate".
    alpha : the margin around beta; None: half the distance between the loss's margins, as the recording was evaluated.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure with a logarithmic axis.

    Raises
    ------
    LabError : no recording, one without these metrics, alpha <= 0, or `width` < 10.
    """
    check_pixels("width", width)
    runs = named_runs(recordings)
    fig = go.Figure()
    ends = []
    for index, (name, recording) in enumerate(runs.items()):
        steps, probability = series(recording, "violation")
        _, surrogate = series(recording, "surrogate")
        if not len(steps) or len(surrogate) != len(steps):
            raise LabError(f"recordings[{name!r}]", "a recording with the metrics violation and surrogate", "neither")
        given = None if alpha is None else check_number("alpha", alpha, low=0, open_low=True)
        bound = surrogate / (_alphas(recording, steps) if given is None else given)
        line = run_line(index)
        for values, what, style in (
            (probability, "violation probability", line | {"width": 2.5}),
            (bound, "Markov's bound", line | {"color": translucent(line["color"], 0.5), "width": 1.5}),
        ):
            fig.add_scatter(
                x=steps, y=_shown(values), mode="lines", name=f"{plain(name)}: {what}", line=style,
                hovertemplate=f"step %{{x}}: {what} %{{y:.4f}}<extra>{plain(name)}</extra>",
            )  # fmt: skip
        ends.append(f"{name} {number(probability[-1], 4)} ≤ {number(bound[-1], 4)}")
    head = f"At the end a pair lies on the wrong side of β with probability {'; '.join(ends)}"
    note = "strong: share of all pairs on the wrong side; pale: mean hinge loss over all pairs, divided by α"
    present(fig, title if title is not None else head, note, width=width, height=380, above=45)
    fig.update_layout(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    fig.add_hline(y=1, line={"color": FAINT, "width": 1, "dash": "dot"})
    fig.update_xaxes(title_text="step")
    drawn = np.concatenate([np.asarray(trace.y, float) for trace in fig.data])
    fig.update_yaxes(title_text="probability, and its bound", **log_ticks(drawn[np.isfinite(drawn)], 6))
    return fig


def margins_at(recording: RecordingLike, steps: Ints) -> tuple[Floats, Floats]:
    """The Euclidean margins m⁺ and m⁻ of the recording's loss at each of these snapshots, C2's defaults where it has none.

    A margin that was moved by hand counts from the snapshot after that step on.
    """
    options = recording.experiment.get("loss", {}).get("options", {})
    margins = []
    for name, default in zip(("pos_margin", "neg_margin"), MARGINS, strict=True):
        values = np.full(len(steps), float(options.get(name, default)))
        for event in recording.events:
            if event.get("setting") == f"loss.options.{name}":
                values[steps > event["step"]] = float(event["value"])
        margins.append(values)
    return margins[0], margins[1]


def _alphas(recording: RecordingLike, steps: Ints) -> Floats:
    low, high = margins_at(recording, steps)
    result: Floats = (high - low) / 2
    return result


def _shown(values: Floats) -> Floats:
    result: Floats = np.maximum(values, _FLOOR)
    return result
