"""The two bounds: what is drawn is what was measured, and nothing lies above a bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import AnchorGap, anchor_gaps, choose_anchors, violation_rate
from labkit.plots import anchor_bound, chance_constraint, covering_picture
from labkit.plots.covering_steps import CoveringSteps, PointSet
from labkit.plots.covering_traces import TRACES
from tests.plots.recordings import make_recording


@pytest.fixture
def gaps():
    recording = make_recording(2)
    x, y = recording.embeddings[4], recording.labels
    generator = torch.Generator().manual_seed(0)
    subsets = [choose_anchors(x, y, k, "random", generator) for k in (1, 3, 6)]
    return anchor_gaps(x, y, subsets, 0.0, 0.7)


@pytest.mark.parametrize("against", ["radius", "mean_distance"])
def test_a_mark_per_choice_and_none_above_the_line(gaps, against):
    fig = anchor_bound({"random": gaps, "<b>": gaps[:1]}, against=against)
    marks, other, line = fig.data
    assert list(marks.x) == [getattr(g, against) for g in gaps] and list(marks.y) == [g.gap for g in gaps]
    assert all(y <= x for x, y in zip(marks.x, marks.y, strict=True)) and list(line.x) == list(line.y)
    assert line.x[0] <= min(marks.x) and line.x[1] >= max(marks.x)
    assert other.name == "&lt;b&gt;" and other.marker.symbol != marks.marker.symbol
    ratio = max(g.gap / getattr(g, against) for g in gaps)
    assert f"at most {ratio:.3f} times the bound, over 4 choices" in fig.layout.meta["title"]


def test_gaps_of_nothing_can_be_drawn_on_a_logarithmic_axis():
    fig = anchor_bound({"all": [AnchorGap(5, 0.0, 0.0, 0.3, 0.3)]})
    assert min(fig.data[0].x) > 0 and min(fig.data[0].y) > 0


def test_the_violation_and_markov_s_bound():
    recording = make_recording(2)
    recording.experiment = {**recording.experiment, "loss": {"name": "c2", "options": {"neg_margin": 0.7}}}
    probability, bound = chance_constraint(recording).data
    assert list(probability.y) == pytest.approx(recording.metrics["violation"])
    assert list(bound.y) == pytest.approx(recording.metrics["surrogate"] / 0.35)
    assert list(chance_constraint({"a": recording}, alpha=0.5).data[1].y) == pytest.approx(
        2 * recording.metrics["surrogate"]
    )


def test_the_recorded_figures_are_those_of_the_embeddings():
    """alpha as the picture takes it is the alpha that a recording was evaluated with."""
    from labkit.training import load_shipped

    recording = load_shipped("mnist-2d-ccp-seed0")
    rate = violation_rate(recording.embeddings[-1], recording.labels, beta=0.35, alpha=0.35)
    probability, bound = chance_constraint(recording).data
    assert probability.y[-1] == pytest.approx(rate.probability, abs=1e-4)  # embeddings are stored in half precision
    assert bound.y[-1] == pytest.approx(rate.bound, abs=1e-4) and rate.probability <= rate.bound


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: anchor_bound({}), "groups"),
        (lambda: anchor_bound({"a": []}), "groups"),
        (lambda: anchor_bound({"a": [AnchorGap(1, 1.0, 1.0, 0.0, 0.0)]}, against="k"), "against"),
        (lambda: chance_constraint({}), "recordings"),
        (lambda: chance_constraint(make_recording(1), alpha=0.0), "alpha"),
        (lambda: chance_constraint({"a": make_recording(1, snapshots=2), "b": "c"}), "recordings"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(LabError, match=message):
        call()


def test_a_recording_without_the_figures_is_told():
    recording = make_recording(1)
    del recording.metrics["violation"]
    with pytest.raises(LabError, match="violation and surrogate"):
        chance_constraint(recording)


def test_the_covering_picture_is_the_stepper_s():
    random = np.random.default_rng(0)
    sets = [PointSet(str(i), i, random.normal(size=(9, 2))) for i in range(2)]
    steps = CoveringSteps(sets, 4)
    fig = covering_picture(steps, 3)
    assert len(fig.data) == len(TRACES) and len(fig.data[TRACES["picks"]].x) == 6
    assert f"radius is {steps.greedy[3]:.3f} (mean over classes)" in fig.layout.meta["title"]
    assert [a.text for a in fig.layout.annotations] == ["<b>0</b>", "<b>1</b>"]
    assert "squares" not in fig.layout.meta["subtitle"] and "each class's own radius" in fig.layout.meta["subtitle"]
    assert covering_picture(steps, 0).layout.meta["title"] == "No centre yet"
    assert covering_picture(steps, 0).layout.meta["subtitle"] == ""
    alone = covering_picture(CoveringSteps([PointSet("a", 0, sets[0].points, sets[1].points[:1])], 2), 0)
    assert "squares" in alone.layout.meta["subtitle"] and "rings" not in alone.layout.meta["subtitle"]
    with pytest.raises(LabError, match="step"):
        covering_picture(steps, 5)
