"""The stepper's numbers against plain loops, its traces against the numbers, and its sentences against both."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots.covering_figure import covering_picture, what_marks_mean
from labkit.plots.covering_steps import CoveringSteps, PointSet, class_sets, example_sets
from labkit.plots.covering_traces import BALLS, TRACES, _free_sides, blank_traces, notice, trace_updates, widest
from labkit.plots.plane import Plane
from tests.oracles.selection import optimal_radius, radius


def cloud(n=12, size=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, size))


@pytest.mark.parametrize("with_initial", [False, True])
def test_each_step_is_the_cover_of_its_centres(with_initial):
    initial = cloud(2, seed=5) if with_initial else None
    steps = CoveringSteps([PointSet("a", 0, cloud(), initial)], 5)
    for step in range(1, 6):
        cover = steps.at(step)[0]
        centres = [*cloud()[cover.picks], *([] if initial is None else initial)]
        assert cover.radius == pytest.approx(radius(cloud(), centres)) == pytest.approx(steps.greedy[step])
        reach = [min(np.linalg.norm(p - c) for c in centres) for p in cloud()]
        assert cover.farthest == int(np.argmax(reach))
        assert np.linalg.norm(cloud()[cover.farthest] - cover.nearest) == pytest.approx(cover.radius)
        if step < 5:
            assert steps.at(step + 1)[0].picks[-1] == cover.farthest


def test_without_centres_there_is_no_radius_and_with_them_there_is():
    assert np.isnan(CoveringSteps([PointSet("a", 0, cloud())], 3).greedy[0])
    both = PointSet("a", 0, cloud(), cloud(2, seed=5))
    assert CoveringSteps([both], 3).greedy[0] == pytest.approx(radius(cloud(), cloud(2, seed=5)))
    assert np.isnan(CoveringSteps([both], 3, use_initial=False).greedy[0])


def test_several_classes_are_averaged_and_covered_each_by_itself():
    sets = [PointSet(str(i), i, cloud(seed=i)) for i in range(3)]
    together, alone = CoveringSteps(sets, 4), [CoveringSteps([s], 4) for s in sets]
    assert together.greedy[1:] == pytest.approx(np.mean([a.greedy[1:] for a in alone], axis=0))
    assert together.optimum[1:] == pytest.approx(np.mean([a.optimum[1:] for a in alone], axis=0))
    assert together.random.shape == (50, 5)


def test_the_optimum_is_exact_and_absent_for_large_sets():
    steps = CoveringSteps([PointSet("a", 0, cloud(9))], 3)
    assert steps.optimum[1:] == pytest.approx([optimal_radius(cloud(9), k) for k in (1, 2, 3)])
    assert CoveringSteps([PointSet("a", 0, cloud(61))], 3).optimum is None
    assert CoveringSteps([PointSet("a", 0, cloud(31)), PointSet("b", 1, cloud(31))], 3).optimum is None


def test_a_pool_is_drawn_per_class_and_repeats_with_its_seed():
    x, y = cloud(40), np.arange(40) % 4
    first, second, other = (class_sets(x, y, pool_size=6, seed=s) for s in (1, 1, 2))
    assert [len(s.points) for s in first] == [6] * 4 and [s.name for s in first] == list("0123")
    assert all(np.array_equal(a.points, b.points) for a, b in zip(first, second, strict=True))
    assert not all(np.array_equal(a.points, b.points) for a, b in zip(first, other, strict=True))
    members = {tuple(row) for row in x[y == 2]}
    assert {tuple(row) for row in first[2].points} <= members
    assert len(class_sets(x, y, pool_size=99)[0].points) == 10


def test_greedy_is_at_its_worst_on_the_line():
    line = CoveringSteps(example_sets()["nine points on a line: greedy at its worst"], 3)
    assert line.greedy[1:] / line.optimum[1:] == pytest.approx([2, 2, 2])


@pytest.mark.parametrize("name", example_sets())
def test_examples_can_be_drawn_at_every_step(name):
    steps = CoveringSteps(example_sets()[name], 8)
    for step in range(9):
        updates = trace_updates(steps, step, Plane.of(steps.sets[0].points))
        assert set(updates) == set(TRACES)
        assert len(updates["picks"]["x"]) == step
        assert len(notice(steps, step)) > 40


def test_traces_hold_the_covers():
    sets = [PointSet(str(i), i, cloud(seed=i), cloud(2, seed=9)) for i in range(3)]
    steps = CoveringSteps(sets, 4)
    updates = trace_updates(steps, 2, Plane.of(cloud()))
    assert len(updates["samples"]["x"]) == 36 and len(updates["samples"]["text"]) == 36
    numbered = int(np.argmax([s.radius for s in steps.at(0)]))
    assert list(updates["picks"]["text"]) == ["", ""] * numbered + ["1", "2"] + ["", ""] * (2 - numbered)
    assert len(updates["proxies"]["x"]) == 6 and len(updates["farthest"]["x"]) == 3
    ring = np.column_stack([updates[BALLS[1]]["x"], updates[BALLS[1]]["y"]]).reshape(4, 50, 2)[:, :49]
    center = steps.at(2)[1].centres
    assert np.linalg.norm(ring - center[:, None], axis=2) == pytest.approx(
        np.full((4, 49), steps.at(2)[1].radius), abs=2e-3
    )
    assert updates["now"]["y"][0] == pytest.approx(steps.greedy[2], abs=1e-3)
    hidden = trace_updates(steps, 2, Plane.of(cloud()), random=False, best=False)
    assert all(len(hidden[name]["x"]) == 0 for name in ("random band", "random median", "best", "greedy / 2"))
    assert len(blank_traces()) == len(TRACES)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("given", [0, 1, 3])
def test_half_of_greedy_bounds_the_best_with_centres_there_before_and_without(seed, given):
    initial = cloud(given, seed=seed + 20) if given else None
    steps = CoveringSteps([PointSet("a", 0, cloud(seed=seed), initial)], 3)
    halves = trace_updates(steps, 1, Plane.of(cloud()))["greedy / 2"]
    known = slice(0 if given else 1, 4)
    assert list(halves["x"]) == [0, 1, 2, 3][known]
    assert halves["y"] == pytest.approx(steps.greedy[known] / 2, abs=1e-3)
    assert (halves["y"] <= steps.optimum[known] + 1e-3).all()


@pytest.mark.parametrize("with_initial", [False, True])
def test_of_several_classes_the_one_with_the_largest_radius_at_first_has_its_picks_numbered(with_initial):
    far = np.array([[0, 0], [0.1, 0], [0.2, 0.0]])
    sets = [PointSet(str(i), i, scale * far, far[:1] if with_initial else None) for i, scale in enumerate((1, 3, 2))]
    steps = CoveringSteps(sets, 2)
    assert widest(steps) == 1 and "numbered for the widest class, 1" in what_marks_mean(steps, 2)
    texts = trace_updates(steps, 2, Plane.of(3 * far))["picks"]["text"]
    assert texts == ["", "", "1", "2", "", ""]
    alone = CoveringSteps(sets[2:], 2)
    assert trace_updates(alone, 2, Plane.of(far))["picks"]["text"] == ["1", "2"]
    assert "numbered" not in what_marks_mean(alone, 2)


def test_a_number_stands_on_a_side_where_no_mark_lies():
    place = np.zeros((1, 2))
    above, left = np.array([0, 0.13]), np.array([-0.13, 0])
    assert _free_sides(place, place, 0.1) == ["top center"]
    assert _free_sides(place, np.stack([place[0], above]), 0.1) == ["middle left"]
    assert _free_sides(place, np.stack([place[0], above, left]), 0.1) == ["middle right"]
    crowded = np.stack([above, left, -left, 1.7 * -above])
    assert _free_sides(place, crowded, 0.1) == ["bottom center"], "none is free; there most room is left"


def test_a_class_alone_fills_the_picture():
    near = 0.1 * cloud() + [0.5, 0]
    fig = covering_picture(CoveringSteps([PointSet("a", 0, near)], 3), 2)
    for axis, values in ((fig.layout.xaxis, near[:, 0]), (fig.layout.yaxis, near[:, 1])):
        assert axis.range[0] < values.min() and values.max() < axis.range[1]
        assert axis.range[1] - axis.range[0] < 1.4 * np.ptp(near, axis=0).max()
    both = covering_picture(CoveringSteps([PointSet("a", 0, near), PointSet("b", 1, near)], 3), 2)
    assert both.layout.xaxis.range == (-1.2, 1.2)


def test_notices_say_what_the_numbers_say():
    steps = CoveringSteps([PointSet("a", 0, cloud())], 3)
    assert notice(steps, 0).startswith("No centre yet")
    text = notice(steps, 2)
    assert f"Radius {steps.greedy[2]:.3f} after 2 picks." in text and f"leaves {steps.greedy[3]:.3f}" in text
    assert f"The best 2 picks: {steps.optimum[2]:.3f}" in text
    assert "too large" in notice(CoveringSteps([PointSet("a", 0, cloud(61))], 3), 1)
    assert "The best" not in notice(steps, 1, best=False) and "Random" not in notice(steps, 1, random=False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CoveringSteps([], 1), "sets: expected at least one"),
        (lambda: CoveringSteps([PointSet("a", 0, cloud())], 13), r"k: expected a whole number in \[1, 12\]"),
        (lambda: CoveringSteps([PointSet("a", 0, cloud())], 3).at(4), "step: expected"),
        (lambda: class_sets(cloud(), np.zeros(12, int), pool_size=0), "pool_size"),
        (lambda: class_sets(cloud(), np.zeros(12, int), np.zeros((1, 2, 3))), "proxies: expected D = 2"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(LabError, match=message):
        call()
