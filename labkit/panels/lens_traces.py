"""What `LossLens` draws: numbers of a loss in a scene, and the traces that show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.plots.gradient_fields import (
    Field,
    arrow_traces,
    field_values,
    ground_traces,
    reference_traces,
    scale_note,
)
from labkit.plots.histograms import OTHER, SAME
from labkit.plots.loss_profiles import ENDS, SIDES, Profile, profile_traces, profile_values, zone_shapes
from labkit.plots.marks import short
from labkit.plots.palette import INK
from labkit.plots.probing import ask, measured, owns_weight, prepared
from labkit.plots.reading import Floats
from labkit.plots.zones import active, rule_of

GRID, POINTS = 19, 41  # arrows a side and places of a profile: what a slider can move without lagging
STEPS, REACH = 60, 0.03  # of gradient descent, and how far one with a typical gradient goes
CLICKED = 0  # the trace that hears a click: the tint covers the whole plane
PLANE, PROFILES = (1, 1), ((1, 2), (2, 2), (1, 3), (2, 3))
MOVING = ("x", "y", "z", "text", "customdata", "name", "colorscale")  # what an update may change, beside marks


@dataclass(frozen=True)
class Drawn:
    """The numbers on show. `loss` : a copy as the pictures ask it. See `Field` and `Profile`."""

    loss: Any
    title: str
    notice: str
    proxies: bool
    field: Field
    profile: Profile

    @classmethod
    def of(cls, loss: Any, references: Any, labels: Any, label: int, axis: str, extent: float) -> Drawn:
        """Compute everything; raises as `gradient_field` and `loss_profile` do."""
        field = field_values(loss, references, labels, label=label, extent=extent, grid=GRID)
        profile = profile_values(loss, on=axis, points=POINTS)
        rule = rule_of(loss)
        title = rule.title if rule else type(loss).__name__
        notice = (
            rule.notice if rule else "A loss of your own: where are its arrows long, and where does it fall silent?"
        )
        return cls(prepared(loss), title, notice, owns_weight(loss), field, profile)

    @staticmethod
    def native_axis(loss: Any) -> str:
        """What the loss's formula is written in."""
        rule = rule_of(loss)
        return rule.on if rule else "distance"

    def path_from(self, probe: tuple[float, float]) -> Floats:
        """(STEPS + 1, 2): the way of gradient descent from the probe."""
        rate = REACH / self.field.strength_at_cell()
        path = [np.array(probe, dtype=np.float64)]
        for _ in range(STEPS):
            _, gradient = ask(self.loss, path[-1][None], self.field.scene)
            step = -rate * gradient[0]
            length = float(np.linalg.norm(step))
            path.append(path[-1] + step * min(1.0, 3 * REACH / length if length > 0 else 1.0))
        return np.stack(path)

    def to_references(self, probe: tuple[float, float]) -> Floats:
        """(M,) distances or cosines from the probe to the references, as the profile's axis has them."""
        distances, products = measured(self.loss, np.array([probe]), self.field.scene.references)
        values: Floats = (distances if self.profile.on == "distance" else products)[0]
        return values

    def shapes(self) -> list[dict[str, Any]]:
        """The profile's zones."""
        return [
            shape | {"xref": f"x{n}", "yref": f"y{n} domain"}
            for side, numbers in (("same", (2, 4)), ("other", (3, 5)))
            for shape in zone_shapes(self.profile, side)
            for n in numbers
        ]


def blank_traces() -> list[tuple[Any, tuple[int, int]]]:
    """Every trace of the panel, empty, with its place in the figure; `draw` fills them."""
    from labkit.losses import ContrastiveLoss

    start = Drawn.of(ContrastiveLoss(), [[0.0, 1.0], [1.0, 0.0]], np.array([0, 1]), 0, "distance", 1.2)
    return _traces(start, np.zeros((1, 2)), log=False)


def _traces(drawn: Drawn, path: Floats, *, log: bool) -> list[tuple[Any, tuple[int, int]]]:
    field, profile = drawn.field, drawn.profile
    tint, *lines = ground_traces(field)
    tint.hoverinfo = "none"  # unlike "skip" it lets the trace hear clicks
    lines[-1].update(hoverinfo="skip", hovertemplate=None)
    shafts, heads = arrow_traces(field, log=log)
    heads.update(hoverinfo="skip", hovertemplate=None)
    way = go.Scatter(x=short(path[:, 0]), y=short(path[:, 1]), mode="lines+markers", hoverinfo="skip", name="way",
                     line={"color": "#CC79A7", "width": 3}, marker={"size": 4})  # fmt: skip
    star = go.Scatter(x=short(path[:1, 0]), y=short(path[:1, 1]), mode="markers", hoverinfo="skip", name="probe",
                      marker={"symbol": "star", "size": 17, "color": "white", "line": {"color": INK, "width": 2}})  # fmt: skip
    plane = [tint, *lines, shafts, heads, *reference_traces(field.scene, drawn.proxies), way, star]
    curves = [trace for side in SIDES for trace in profile_traces(profile, side)]
    seen = drawn.to_references((float(path[0, 0]), float(path[0, 1])))
    rugs = [
        go.Scatter(x=short(seen[mask]), y=np.full(int(mask.sum()), profile.span("loss")[0]), mode="markers",
                   name="probe to reference", marker={"symbol": "line-ns", "size": 22, "line": {"color": color, "width": 3}},
                   hovertemplate="from the star: %{x:.3f}<extra></extra>")
        for mask, color in ((field.scene.same, SAME), (~field.scene.same, OTHER))
    ]  # fmt: skip
    places = [PLANE] * len(plane) + list(PROFILES) + [PROFILES[0], PROFILES[2]]
    return list(zip([*plane, *curves, *rugs], places, strict=True))


def draw(figure: Any, drawn: Drawn, path: Floats, *, log: bool) -> None:
    """Bring the panel's figure to these numbers; the path's first point is the probe."""
    for old, (new, _) in zip(figure.data, _traces(drawn, path, log=log), strict=True):
        changes = {key: new[key] for key in MOVING if key in new and new[key] is not None}
        if "marker" in new and new["marker"] is not None:
            changes["marker"] = new["marker"].to_plotly_json()
        old.update(changes)
    layout, profile = figure.layout, drawn.profile
    letter = "d" if profile.on == "distance" else "s"
    for n in (2, 3, 4, 5):
        layout[f"xaxis{n}"].range = ENDS[profile.on]
        layout[f"yaxis{n}"].range = profile.span("loss" if n < 4 else "slope")
    for n in (4, 5):
        layout[f"xaxis{n}"].title.text = "distance d" if letter == "d" else "cosine s"
    layout.yaxis2.title.text, layout.yaxis4.title.text = "loss", f"d loss / d {letter}"
    for annotation, side, kind in zip(layout.annotations, SIDES, ("own class", "another class"), strict=True):
        annotation.text = f"<b>{kind}</b><br>{profile.texts[side]}"
        annotation.font.size = 12
    layout.title.text = (
        f"<b>{drawn.title}</b><br><span style='font-size:12px;color:#555'>{scale_note(drawn.field, log)}</span>"
    )


def readout(drawn: Drawn, probe: tuple[float, float]) -> str:
    """What happens at the star, in a sentence."""
    scene = drawn.field.scene
    value, gradient = ask(drawn.loss, np.array([probe]), scene)
    text = f"★ loss {value[0]:.3f}, gradient {np.linalg.norm(gradient):.3f}"
    mask = active(drawn.loss, *measured(drawn.loss, np.array([probe]), scene.references), scene)
    if mask is None:
        return text
    pull, push = int(mask[0, scene.same].sum()), int(mask[0, ~scene.same].sum())
    return (
        f"{text}; {pull} of {int(scene.same.sum())} of its class pull, {push} of {int((~scene.same).sum())} others push"
    )
