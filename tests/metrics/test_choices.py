"""Covering by choice: picks in order, random picks, and the optimum, against plain loops over everything."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.metrics import optimal_k_center, radii_in_order, random_radii
from labkit.selection import greedy_k_center
from tests.oracles.selection import optimal_radius, radius


def some_points(n, size=2, seed=0):
    return torch.randn(n, size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 10**6), st.booleans(), st.data())
def test_the_optimum_is_that_of_trying_every_subset(n, size, seed, with_initial, data):
    points = some_points(n, size, seed)
    if data.draw(st.booleans()):
        points = points.round()  # ties and duplicates
    k = data.draw(st.integers(1, n))
    initial = some_points(2, size, seed + 1) if with_initial else None
    found = optimal_k_center(points, k, initial)
    already = [] if initial is None else initial.tolist()
    expected = optimal_radius(points.tolist(), k, already)
    assert found.radius == pytest.approx(expected, abs=1e-12)
    assert radius(points.tolist(), [*points[found.indices].tolist(), *already]) <= found.radius + 1e-12
    assert len(set(found.indices.tolist())) == k


@settings(deadline=None, max_examples=20)
@given(st.integers(5, 30), st.integers(1, 5), st.integers(0, 10**6))
def test_greedy_is_within_twice_the_optimum(n, k, seed):
    points = some_points(n, 2, seed)
    greedy = float(greedy_k_center(points, k).radii[-1])
    assert optimal_k_center(points, k).radius <= greedy + 1e-12
    assert greedy <= 2 * optimal_k_center(points, k).radius + 1e-12


def test_the_factor_two_is_reached():
    """Greedy starts at one end of three points on a line; the middle one would have done."""
    points = torch.tensor([[0.0], [1.0], [2.0]])
    assert greedy_k_center(points, 1).radii[0] == 2 * optimal_k_center(points, 1).radius


@pytest.mark.parametrize("with_initial", [False, True])
def test_radii_in_order_are_those_of_the_centres_so_far(with_initial):
    points = some_points(12)
    initial = some_points(3, seed=9) if with_initial else None
    orders = torch.tensor([[0, 5, 3, 3], [11, 1, 2, 7]])
    radii = radii_in_order(points, orders, initial)
    for order, row in zip(orders, radii, strict=True):
        for j, found in enumerate(row):
            centres = [*points[order[: j + 1]].tolist(), *([] if initial is None else initial.tolist())]
            assert float(found) == pytest.approx(radius(points.tolist(), centres))


def test_radii_of_greedy_s_own_order_are_greedy_s(monkeypatch):
    points = some_points(40)
    greedy = greedy_k_center(points, 10)
    assert torch.equal(radii_in_order(points, greedy.indices[None])[0], greedy.radii)
    monkeypatch.setattr("labkit.metrics.choices._BLOCK", 100)  # a block per draw
    assert torch.equal(radii_in_order(points, greedy.indices.repeat(3, 1))[2], greedy.radii)


def test_random_radii_fall_with_every_pick_and_repeat_with_the_seed():
    points = some_points(30)
    first, second = (random_radii(points, 8, draws=5, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second) and first.shape == (5, 8)
    assert bool((first[:, 1:] <= first[:, :-1]).all())
    assert len({round(float(r), 9) for r in first[:, 0]}) > 1
    assert float(random_radii(points, 30, draws=2).max(0).values[-1]) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_k_center(some_points(61), 2), "points: expected at most 60 points"),
        (lambda: optimal_k_center(some_points(4), 5), r"k: expected a whole number in \[1, 4\]"),
        (lambda: optimal_k_center(some_points(4), 2, some_points(2, 3)), "initial: expected 2 columns"),
        (lambda: radii_in_order(some_points(4), [[0, 4]]), r"orders: expected indices in \[0, 4\)"),
        (lambda: radii_in_order(some_points(4), [0, 1]), "orders: expected integers of shape"),
        (lambda: random_radii(some_points(4), 5), "k: expected at most the number"),
        (lambda: random_radii(some_points(4), 2, draws=0), "draws: expected a whole number"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(LabError, match=message):
        call()


def test_radii_of_numbers_too_large_to_be_squared():
    points = torch.tensor([[0.0], [1e20], [2e20]])
    radii = radii_in_order(points, [[0, 2], [1, 0]])
    torch.testing.assert_close(radii, torch.tensor([[2e20, 1e20], [1e20, 1e20]]))
    assert radii.dtype == points.dtype
    with_initial = radii_in_order(points, [[1]], initial=torch.tensor([[0.0]]))
    torch.testing.assert_close(with_initial, torch.tensor([[1e20]]))
