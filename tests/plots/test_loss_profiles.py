"""Profiles of the losses against calls by hand, finite differences, and the formulas' own boundaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, FunctionLoss, RankedListLoss, SoftTripleLoss
from labkit.plots import loss_profile
from labkit.plots.loss_profiles import profile_values
from tests.plots.losses import NAMES, nine, one_value

POINT = (1.0, 0.0)


def place(d: float, side: int = 1) -> list[float]:
    """The point of the unit circle at distance d from (1, 0)."""
    angle = side * 2 * math.asin(d / 2)
    return [math.cos(angle), math.sin(angle)]


def by_hand(name: str, d: float, side: str) -> float:
    """References placed one by one: what moves at distance d, all else at distance 1 on the other side."""
    if name in ("soft_triple", "nca", "anchor", "gml"):
        labels = np.array([0, 0, 1, 1, 2, 2])
        moves = labels == (0 if side == "same" else 1)
        references = np.array([place(d) if m else place(1.0, -1) for m in moves])
    elif name == "triplet":
        labels = np.array([0, 1] if side == "same" else [1, 0])
        references = np.array([place(d), place(1.0, -1)])
    else:
        labels, references = np.array([0 if side == "same" else 1]), np.array([place(d)])
    return one_value(name, POINT, references, labels)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["same", "other"])
def test_values_and_derivatives_against_calls_by_hand(name: str, side: str) -> None:
    profile = profile_values(nine()[name], on="distance", points=12)
    h = 1e-6
    for d, value, slope in zip(profile.at, profile.loss[side], profile.slope[side], strict=True):
        assert value == pytest.approx(by_hand(name, d, side), abs=1e-9)
        if h < d < 2 - h:
            difference = (by_hand(name, d + h, side) - by_hand(name, d - h, side)) / (2 * h)
            assert slope == pytest.approx(difference, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_both_axes_show_the_same_loss(name: str) -> None:
    profile = profile_values(nine()[name], on="similarity", points=9)
    for s, value, slope in zip(profile.at, profile.loss["same"], profile.slope["same"], strict=True):
        d = math.sqrt(2 - 2 * s)
        assert value == pytest.approx(by_hand(name, d, "same"), abs=1e-8)
        if -0.999 < s < 0.999:
            h = 1e-6
            ends = [by_hand(name, math.sqrt(2 - 2 * (s + step)), "same") for step in (-h, h)]
            assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "same", "other"),
    [
        ("c1", [(-1, 1)], [(0.5, 1)]),
        ("c2", [(0.2, 2)], [(0, 0.7)]),
        ("triplet", [(0.7, 2)], [(0, 1.3)]),  # the other reference is at 1, the margin 0.3
        ("ms", [(-1, 0.5)], [(0.5, 1)]),
        ("rll", [(0.8, 2)], [(0, 1.2)]),
        ("anchor", [(-1, 0.1)], [(-0.1, 1)]),
        ("gml", [(-1, 1)], [(0.5, 1)]),  # the moving class takes the place of the one at cosine ½
    ],
)
def test_zones_are_those_of_the_formulas(name: str, same: Any, other: Any) -> None:
    profile = profile_values(nine()[name], points=3)
    assert np.allclose(profile.zones["same"], same, atol=1e-3)
    assert np.allclose(profile.zones["other"], other, atol=1e-3)


@pytest.mark.parametrize("name", ["c1", "c2", "triplet", "rll", "gml"])
@pytest.mark.parametrize("side", ["same", "other"])
def test_hinges_act_within_their_zones_and_nowhere_else(name: str, side: str) -> None:
    profile = profile_values(nine()[name], points=61)
    inside, edge = np.zeros((2, len(profile.at)), dtype=bool)
    for low, high in profile.zones[side]:
        inside |= (profile.at > low + 0.0009) & (profile.at < high - 0.0009)
        edge |= np.abs(profile.at[:, None] - [low, high]).min(axis=1) <= 0.0009
    assert (np.abs(profile.slope[side][inside]) > 1e-6).all()
    assert (np.abs(profile.slope[side][~inside & ~edge]) < 1e-12).all()
    first, last = profile.at[[0, -1]]
    for within in (end for ends in profile.zones[side] for end in ends if first + 0.01 < end < last - 0.01):
        beside = profile.at - within  # a place on either side of an edge, so that a step is drawn as one
        assert -0.0021 < beside[beside < 0].max() < 0 < beside[beside > 0].min() < 0.0021


@pytest.mark.parametrize("name", ["soft_triple", "nca"])
def test_soft_zones_end_at_a_tenth_of_the_full_pull(name: str) -> None:
    """There the derivative by the cosine is a tenth of what it is far outside."""
    profile = profile_values(nine()[name], on="similarity", points=2001)
    ((low, high),) = profile.zones["same"]
    at_edge = np.interp(high, profile.at, profile.slope["same"])
    assert low == -1
    assert at_edge / profile.slope["same"][0] == pytest.approx(0.1, abs=0.01)


def test_the_figure_draws_what_was_computed() -> None:
    loss = RankedListLoss()
    profile = profile_values(loss, points=161)
    fig = loss_profile(loss)
    assert [t.name for t in fig.data] == ["own class", "own class", "another class", "another class"]
    drawn = (("loss", "same"), ("slope", "same"), ("loss", "other"), ("slope", "other"))
    for trace, (what, side) in zip(fig.data, drawn, strict=True):
        assert np.allclose(trace.y, getattr(profile, what)[side], atol=1e-6)
    assert [(round(s.x0, 2), round(s.x1, 2), s.xref) for s in fig.layout.shapes] == [
        (0.8, 2.0, "x"),
        (0.0, 1.2, "x2"),
    ]
    heads = [a.text for a in fig.layout.annotations[:2]]
    assert "P*: d > α − m = 0.8" in heads[0] and "N*: d < α = 1.2" in heads[1]
    assert fig.layout.meta["title"] == "Ranked list"


def test_a_loss_of_ones_own() -> None:
    def pull_and_push(distances: Any, same: Any, different: Any) -> Any:
        return distances[same].square().mean() + (0.5 - distances[different]).clamp(min=0).mean()

    profile = profile_values(FunctionLoss(pull_and_push), points=41)
    assert np.allclose(profile.loss["same"], profile.at**2)
    assert np.allclose(profile.slope["same"], 2 * profile.at)
    ((low, high),) = profile.zones["other"]
    assert low == 0 and high == pytest.approx(0.5, abs=0.05)
    assert loss_profile(FunctionLoss(pull_and_push)).layout.meta["title"] == "FunctionLoss"


def test_many_classes_and_wide_embeddings() -> None:
    loss = SoftTripleLoss(20, 64, 10)
    before = loss.weight.detach().clone()
    assert np.isfinite(profile_values(loss, points=5).loss["other"]).all()
    assert torch.equal(loss.weight, before) and loss.weight.dtype == torch.float32


def test_a_single_class_has_no_other_to_move() -> None:
    profile = profile_values(SoftTripleLoss(1, 2, 2), points=5)
    assert np.allclose(profile.loss["same"], 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": ContrastiveLoss}, "loss: expected a loss, not its class"),
        ({"loss": 3}, "loss: expected a loss"),
        ({"loss": ContrastiveLoss(pos_margin=-1)}, "pos_margin: expected"),
        ({"on": "angle"}, "on: expected one of"),
        ({"companion": 3}, "companion: expected"),
        ({"points": 1}, "points: expected"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        loss_profile(**{"loss": ContrastiveLoss(), **change})


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3.0, "expected a 0-d tensor returned; got 3.0"),
        (torch.ones(2), "expected a 0-d tensor returned"),
        (torch.tensor(math.nan), "expected a finite loss; got nan"),
    ],
)
def test_what_a_loss_returns_is_checked(returned: Any, message: str) -> None:
    with pytest.raises(LabError, match=message):
        loss_profile(lambda *arguments: returned)
