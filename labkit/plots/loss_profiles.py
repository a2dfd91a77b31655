"""What a loss costs, and how hard it pulls or pushes, against the distance or the cosine to one reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import Tensor

from labkit.plots.histograms import OTHER, SAME
from labkit.plots.palette import FAINT, present, translucent
from labkit.plots.probing import Scene, ask_moving, check_loss, measured, owns_weight, prepared
from labkit.plots.reading import Floats, check_pixels
from labkit.plots.zones import active, rule_of
from labkit.validation import check_choice, check_number

COMPANION = 1.0  # distance at which what does not move is held: 60° on the circle
NEAREST = 0.004  # where a profile begins: two points that coincide have no direction between them
FINE = 2001  # points at which zones are looked up, so that their edges are drawn where they are
STEP = 1e-3  # half the width in which a step is drawn
AXES = {"distance": "Euclidean distance d to the reference", "similarity": "cosine s to the reference"}
ENDS = {"distance": (0.0, 2.0), "similarity": (-1.0, 1.0)}
SIDES = ("same", "other")


@dataclass(frozen=True)
class Profile:
    """A loss along one axis, with a reference of the sample's own class ("same") or of another ("other").

    Attributes
    ----------
    on : "distance" or "similarity". at : (P,) places on that axis, rising.
    loss : {"same": (P,), "other": (P,)}. slope : the same, the derivative by the axis.
    zones : {side: list of (low, high)} where that reference acts.
    texts : {side: why it acts there}. companion : distance of what did not move, None where nothing else was there.
    """

    on: str
    at: Floats
    loss: dict[str, Floats]
    slope: dict[str, Floats]
    zones: dict[str, list[tuple[float, float]]]
    texts: dict[str, str]
    companion: float | None

    def span(self, what: str) -> list[float]:
        """Ends of an axis on which both sides' "loss" or "slope" have room, and 0 is seen."""
        values = np.concatenate([getattr(self, what)[side] for side in SIDES])
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        room = 0.07 * (high - low) or 1.0
        return [low - room, high + room]


def profile_values(loss: Any, *, on: str | None = None, companion: float | None = None, points: int = 81) -> Profile:
    """Compute what `loss_profile` draws; parameters and errors are described there."""
    check_loss(loss)
    rule = rule_of(loss)
    on = check_choice("on", on or (rule.on if rule else "distance"), AXES)
    points = int(check_number("points", points, low=2, high=10_000, whole=True))
    if companion is None:
        beside = COMPANION if owns_weight(loss) or rule is None or rule.companion else None
    else:
        beside = check_number("companion", companion, low=0.0, high=2.0)
    loss = prepared(loss)
    casts = {side: _cast(loss, side, beside) for side in SIDES}
    zones = {side: _zones(loss, on, _axis(on, FINE), casts[side]) for side in SIDES}
    at = _with_edges(_axis(on, points), zones)
    values: dict[str, Floats] = {}
    slopes: dict[str, Floats] = {}
    for side, (labels, moves, held) in casts.items():
        probe, paths = _stage(at, on, moves, held, getattr(loss, "embedding_size", 2))
        values[side], slopes[side] = ask_moving(loss, probe, paths, labels)
    same, other = rule.texts(loss) if rule else ("costs something", "costs something")
    if rule is None:
        zones = {side: _runs(on, at, np.abs(slopes[side]) > 1e-9) for side in SIDES}
    return Profile(on, at, values, slopes, zones, {"same": same, "other": other}, beside)


def _axis(on: str, points: int) -> Floats:
    if on == "distance":
        return np.linspace(NEAREST, 2 - NEAREST, points)
    return np.linspace(-1 + NEAREST**2 / 2, 1 - NEAREST**2 / 2, points)


def _with_edges(at: Floats, zones: dict[str, list[tuple[float, float]]]) -> Floats:
    """The places (P,) and two more around every edge of a zone, so that a step of the slope is drawn as one."""
    edges = np.array([edge for runs in zones.values() for run in runs for edge in run])
    inside = edges[(edges > at[0] + STEP) & (edges < at[-1] - STEP)]
    joined: Floats = np.unique(np.concatenate((at, inside - STEP, inside + STEP)))
    return joined


def _cast(loss: Any, side: str, beside: float | None) -> tuple[Any, Any, Floats | None]:
    """Labels (M,) of the references of a sample of class 0, which of them move (M,), and where the others stand (2,)."""
    if owns_weight(loss):
        labels = np.repeat(np.arange(loss.num_classes), loss.proxies_per_class)
        moves = labels == (0 if side == "same" else min(1, loss.num_classes - 1))
    else:
        labels = np.array([0 if side == "same" else 1] + ([] if beside is None else [1 if side == "same" else 0]))
        moves = np.arange(len(labels)) == 0
    return labels, moves, None if beside is None else _on_circle(np.array([beside]))[0] * [1, -1]


def _on_circle(distances: Floats) -> Floats:
    """(P, 2) points of the unit circle so far from (1, 0)."""
    cosines = 1 - distances**2 / 2
    return np.stack([cosines, np.sqrt(np.clip(1 - cosines**2, 0, None))], axis=1)


def _stage(at: Floats, on: str, moves: Any, held: Floats | None, width: int) -> tuple[Tensor, list[tuple[Any, Any]]]:
    """The sample at (1, 0, …), and for each place the references with their velocity along the axis."""
    cosines = 1 - at**2 / 2 if on == "distance" else at
    sines = np.sqrt(1 - cosines**2)
    per_unit = -at if on == "distance" else np.ones_like(at)  # how fast the cosine changes along the axis
    places = np.zeros((len(at), len(moves), width))
    velocities = np.zeros_like(places)
    if held is not None:
        places[:, ~moves, :2] = held
    places[:, moves, :2] = np.stack([cosines, sines], axis=1)[:, None]
    velocities[:, moves, :2] = np.stack([per_unit, -cosines / sines * per_unit], axis=1)[:, None]
    probe = torch.zeros(1, width, dtype=torch.float64)
    probe[0, 0] = 1.0
    return probe, list(zip(torch.as_tensor(places), torch.as_tensor(velocities), strict=True))


def _zones(loss: Any, on: str, fine: Floats, cast: tuple[Any, Any, Any]) -> list[tuple[float, float]]:
    labels, moves, held = cast
    probe, paths = _stage(fine, on, moves, held, getattr(loss, "embedding_size", 2))
    scene = Scene(np.zeros((len(labels), 2)), labels, 0)
    places = torch.stack([references for references, _ in paths])
    distances, products = measured(loss, probe, places.flatten(0, 1))
    mask = active(loss, distances.reshape(len(fine), -1), products.reshape(len(fine), -1), scene)
    return [] if mask is None else _runs(on, fine, mask[:, moves].any(axis=1))


def _runs(on: str, at: Floats, acting: Any) -> list[tuple[float, float]]:
    """(low, high) of each stretch in which `acting` (P,) holds, to the middle between two places or the axis's ends."""
    edges = np.flatnonzero(np.diff(acting.astype(int)))
    first, last = ENDS[on]
    bounds = [first, *((at[edges] + at[edges + 1]) / 2).tolist(), last]
    starts = range(0 if acting[0] else 1, len(bounds) - 1, 2)
    return [(bounds[i], bounds[i + 1]) for i in starts]


def loss_profile(
    loss: Any,
    *,
    on: str | None = None,
    companion: float | None = None,
    points: int = 161,
    title: str | None = None,
    width: int = 860,
) -> Any:
    """Draw the loss of one sample against its distance or cosine to one reference, and the derivative below it.

    Left the reference is of the sample's own class, right of another. Sample and reference are on the unit circle, so
    that d² = 2 − 2 s and any normalisation leaves them where they are; values come from calling the loss, derivatives
    from autograd. Shaded: where the reference acts, as the loss's formula has it (`labkit.plots.zones`). A loss with
    proxies gets all proxies of a class at one place. Parts that no sample changes (regularisers) are left out, and the
    sample is the anchor.

    Parameters
    ----------
    loss : any loss with the interface of `labkit.losses`, also one of your own.
    on : "distance" (0 … 2) or "similarity" (cosine, −1 … 1); by default what the loss's formula is written in.
    companion : distance in [0, 2] at which everything that does not move is held: the one reference of the other kind,
        for a loss with proxies all other proxies. By default 1 (cosine ½) where the loss needs it (triplets, softmax
        over classes, unknown losses), else there is nothing else.
    points : at which the loss is called, 2 … 10,000. title : instead of the loss's name. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : no loss, a parameter of it out of range, an unknown axis, or a setting out of its range.
    """
    check_pixels("width", width)
    profile = profile_values(loss, on=on, companion=companion, points=points)
    heads = [f"{kind} class: {profile.texts[side]}" for side, kind in zip(SIDES, ("own", "another"), strict=True)]
    fig = make_subplots(2, 2, shared_xaxes=True, shared_yaxes="rows", subplot_titles=heads, vertical_spacing=0.06,
                        horizontal_spacing=0.05, row_heights=[0.6, 0.4])  # fmt: skip
    for column, side in enumerate(SIDES, start=1):
        for row, trace in enumerate(profile_traces(profile, side), start=1):
            fig.add_trace(trace, row=row, col=column)
        for shape in zone_shapes(profile, side):
            fig.add_shape(shape | {"xref": f"x{column if column > 1 else ''}", "yref": "paper"})
        fig.update_xaxes(title_text=AXES[profile.on], row=2, col=column)
    for row, name in ((1, "loss"), (2, f"d loss / d {'d' if profile.on == 'distance' else 's'}")):
        fig.update_yaxes(title_text=name, row=row, col=1)
        fig.update_yaxes(zeroline=True, zerolinecolor=FAINT, range=profile.span(("loss", "slope")[row - 1]), row=row)
    fig.update_xaxes(range=ENDS[profile.on])
    fig.update_annotations(font_size=13)
    rule = rule_of(loss)
    head = title if title is not None else rule.title if rule else type(loss).__name__
    present(fig, head, _note(profile, owns_weight(loss)), width=width, height=400, above=14)
    fig.update_layout(showlegend=False)
    return fig


def _note(profile: Profile, proxies: bool) -> str:
    kind = "all other proxies are" if proxies else "a reference of the other kind is"
    held = f"; {kind} held at d = {profile.companion:g}" if profile.companion is not None else ""
    return f"One sample and one {'class of proxies' if proxies else 'reference'}{held}. Shaded: where it acts"


def profile_traces(profile: Profile, side: str) -> tuple[Any, Any]:
    """The lines of loss and derivative of one side, for a figure of one's own."""
    color = SAME if side == "same" else OTHER
    letter = "d" if profile.on == "distance" else "s"
    hover = f"{letter} = %{{x:.3f}}: %{{y:.3f}}<extra></extra>"
    line = {"color": color, "width": 2.5, "dash": "solid" if side == "same" else "dash"}
    name = "own class" if side == "same" else "another class"
    return (
        go.Scatter(x=profile.at.round(4), y=profile.loss[side].round(6), mode="lines", line=line, name=name,
                   hovertemplate="loss at " + hover),
        go.Scatter(x=profile.at.round(4), y=profile.slope[side].round(6), mode="lines", line=line, name=name,
                   showlegend=False, hovertemplate="derivative at " + hover),
    )  # fmt: skip


def zone_shapes(profile: Profile, side: str) -> list[dict[str, Any]]:
    """Rectangles over the whole height, one per stretch in which the reference acts; give them xref and yref."""
    color = SAME if side == "same" else OTHER
    return [
        {"type": "rect", "x0": low, "x1": high, "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0},
         "fillcolor": translucent(color, 0.13)}
        for low, high in profile.zones[side]
    ]  # fmt: skip
