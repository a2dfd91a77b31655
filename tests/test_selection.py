"""Greedy K-Center and random selection: known answers, the guarantee, ties, ragged sets, bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import selection
from labkit.errors import LabError
from labkit.metrics import retrieval_metrics
from labkit.selection import greedy_k_center, random_selection
from tests.oracles.selection import greedy, optimal_radius

# Whole coordinates: every squared distance is exact, so that ties are ties in any arithmetic.
grid_points = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=9)


def as_tensor(points):
    return torch.tensor(points, dtype=torch.float32)


def gaussian(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_collinear_points_give_the_known_picks_and_radii():
    points = as_tensor([[0], [1], [2], [4], [8]])
    chosen = greedy_k_center(points, 5)
    assert chosen.indices.tolist() == [0, 4, 3, 2, 1]
    assert chosen.radii.tolist() == [8, 4, 2, 1, 0]


def test_initial_centres_come_first_and_are_not_counted():
    points = as_tensor([[0], [1], [2], [4], [8]])
    chosen = greedy_k_center(points, 2, initial=as_tensor([[8], [9]]))
    assert chosen.indices.tolist() == [0, 3]
    assert chosen.radii.tolist() == [4, 2]


def test_equal_distances_go_to_the_lower_index():
    square = as_tensor([[0, 0], [1, 1], [-1, 1], [1, -1], [-1, -1]])
    assert greedy_k_center(square, 5).indices.tolist() == [0, 1, 2, 3, 4]


@given(grid_points, st.data())
@settings(max_examples=150, deadline=None)
def test_equals_the_loop_over_all_distances(points, data):
    k = data.draw(st.integers(1, len(points)))
    initial = data.draw(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=3))
    chosen = greedy_k_center(as_tensor(points), k, initial=as_tensor(initial) if initial else None)
    picks, radii = greedy(points, k, initial)
    assert chosen.indices.tolist() == picks
    assert chosen.radii.tolist() == pytest.approx(radii, rel=1e-6)


@given(grid_points, st.data())
@settings(max_examples=100, deadline=None)
def test_radius_is_at_most_twice_the_optimum(points, data):
    k = data.draw(st.integers(1, len(points)))
    assert greedy_k_center(as_tensor(points), k).radii[-1] <= 2 * optimal_radius(points, k) + 1e-5


@given(grid_points)
@settings(max_examples=100, deadline=None)
def test_all_picks_differ_and_radii_never_grow(points):
    chosen = greedy_k_center(as_tensor(points), len(points))
    assert sorted(chosen.indices.tolist()) == list(range(len(points)))
    assert (chosen.radii[1:] <= chosen.radii[:-1]).all()
    assert chosen.radii[-1] == 0


def test_equal_points_are_each_picked_once():
    chosen = greedy_k_center(torch.full((6, 3), 0.7), 6)
    assert chosen.indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert chosen.radii.tolist() == [0] * 6


def test_points_on_the_initial_centres_are_each_picked_once():
    points = as_tensor([[1, 0], [1, 0], [0, 1]])
    assert greedy_k_center(points, 3, initial=points[:1]).indices.tolist() == [2, 0, 1]


def test_close_points_far_from_the_origin_keep_their_distances():
    points = torch.tensor([[1000.0, 1000.0], [1000.001, 1000.0], [1000.0, 1000.003]])
    expected = [math.dist(points[0].tolist(), points[2].tolist()), math.dist(points[0].tolist(), points[1].tolist())]
    assert greedy_k_center(points, 2).radii.tolist() == pytest.approx(expected, rel=1e-6)


def test_ragged_sets_equal_one_call_per_set():
    counts = torch.tensor([3, 7, 12, 5])
    points = gaussian(4, 12, 5)
    mask = torch.arange(12) < counts[:, None]
    centres = gaussian(4, 2, 5, seed=1)
    for initial in (None, centres):
        together = greedy_k_center(points, 3, initial=initial, mask=mask)
        for c, count in enumerate(counts):
            one = greedy_k_center(points[c, :count], 3, initial=None if initial is None else initial[c])
            assert together.indices[c].tolist() == one.indices.tolist()
            assert torch.equal(together.radii[c], one.radii)


def test_scattered_masks_start_at_the_first_valid_point_and_ignore_what_the_padding_holds():
    points = gaussian(6, 2)
    mask = torch.tensor([False, True, False, True, True, True])
    spoilt = points.masked_fill(~mask[:, None], math.nan)
    chosen = greedy_k_center(spoilt, 3, mask=mask)
    alone = greedy_k_center(points[mask], 3)
    assert chosen.indices[0] == 1
    assert chosen.indices.tolist() == mask.nonzero()[alone.indices, 0].tolist()
    assert torch.equal(chosen.radii, alone.radii)


def test_leading_dimensions_are_kept():
    points = gaussian(2, 3, 8, 4)
    chosen = greedy_k_center(points, 2, initial=gaussian(1, 4, seed=2))
    assert chosen.indices.shape == chosen.radii.shape == (2, 3, 2)
    for a in range(2):
        for b in range(3):
            one = greedy_k_center(points[a, b], 2, initial=gaussian(1, 4, seed=2))
            assert torch.equal(chosen.indices[a, b], one.indices)


@pytest.mark.parametrize("kind", ["gaussian", "clustered", "grid", "line", "duplicates", "far from the origin", "double"])
@pytest.mark.parametrize("start", [True, False])
def test_the_lazy_way_for_large_sets_equals_the_plain_one(kind, start, monkeypatch):
    """Ties included: on the grid, the line and among the duplicates every distance is exact."""
    n, k = 6000, 150
    points = {
        "gaussian": lambda: gaussian(n, 16),
        "clustered": lambda: gaussian(n, 16) * 0.05 + gaussian(20, 16, seed=1).repeat(n // 20, 1),
        "grid": lambda: torch.cartesian_prod(torch.arange(60.0), torch.arange(100.0)),
        "line": lambda: torch.arange(float(n))[:, None].flip(0),
        "duplicates": lambda: gaussian(100, 16).repeat(n // 100, 1),
        "far from the origin": lambda: gaussian(n, 16) + 3000,
        "double": lambda: gaussian(n, 16, dtype=torch.float64),
    }[kind]()
    initial = points[5:8] * 1.5 + 0.25 if start else None
    masks = torch.rand(2, n, generator=torch.Generator().manual_seed(4)) < 0.8
    lazy = greedy_k_center(points, k, initial=initial)
    lazy_masked = greedy_k_center(points.expand(2, -1, -1), k, initial=initial, mask=masks)
    monkeypatch.setattr(selection, "_LARGE", n + 1)
    plain = greedy_k_center(points, k, initial=initial)
    plain_masked = greedy_k_center(points.expand(2, -1, -1), k, initial=initial, mask=masks)
    for ours, expected in ((lazy, plain), (lazy_masked, plain_masked)):
        assert torch.equal(ours.indices, expected.indices)
        assert torch.allclose(ours.radii, expected.radii, rtol=1e-6, atol=0)


def test_the_lazy_way_is_not_misled_by_autocast():
    points = gaussian(5000, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = greedy_k_center(points, 40)
    assert torch.equal(inside.indices, greedy_k_center(points, 40).indices)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**80])
@pytest.mark.parametrize("n", [50, 5000])
def test_scale_does_not_matter(scale, n):
    points = gaussian(n, 6)
    plain, scaled = greedy_k_center(points.double(), 20), greedy_k_center(points * scale, 20, initial=None)
    assert torch.equal(plain.indices, scaled.indices)
    assert torch.equal((plain.radii * scale).float(), scaled.radii)


@pytest.mark.parametrize("n", [50, 5000])
def test_one_point_far_away_does_not_make_the_others_alike(n):
    points = gaussian(n, 6)
    points[7] = 1e25
    expected, chosen = greedy_k_center(points.double(), 20), greedy_k_center(points, 20)
    assert torch.equal(expected.indices, chosen.indices)
    assert torch.equal(expected.radii.float(), chosen.radii) and float(chosen.radii[-1]) < 10


def test_half_precision_and_strided_points_equal_their_float32_copy():
    wide = gaussian(20, 8)
    for points in (wide.half(), wide.bfloat16(), wide[:, ::2], wide.double(), wide.T):
        chosen = greedy_k_center(points, 4)
        copy = greedy_k_center(points.contiguous().to(chosen.radii.dtype), 4)
        assert torch.equal(chosen.indices, copy.indices)
        assert torch.equal(chosen.radii, copy.radii)
        assert chosen.radii.dtype == (torch.float64 if points.dtype == torch.float64 else torch.float32)


def test_no_gradient_is_recorded():
    assert not greedy_k_center(gaussian(5, 2).requires_grad_(), 2).radii.requires_grad


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"points": torch.randn(5)}, "points"),
        ({"points": [[1.0, 2.0]]}, "points"),
        ({"points": torch.ones(5, 2, dtype=torch.int64)}, "points"),
        ({"points": torch.ones(0, 2)}, "points"),
        ({"points": torch.tensor([[0.0], [math.nan]])}, "points"),
        ({"points": torch.tensor([[0.0], [math.inf]])}, "points"),
        ({"k": 6}, "k"),
        ({"k": 0}, "k"),
        ({"k": 1.5}, "k"),
        ({"k": True}, "k"),
        ({"k": 3, "mask": torch.tensor([True, True, False, False, False])}, "k"),
        ({"k": 1, "mask": torch.zeros(5, dtype=torch.bool)}, "k"),
        ({"mask": torch.ones(5)}, "mask"),
        ({"mask": torch.ones(4, dtype=torch.bool)}, "mask"),
        ({"initial": torch.ones(1, 3)}, "initial"),
        ({"initial": torch.ones(0, 2)}, "initial"),
        ({"initial": torch.ones(2)}, "initial"),
        ({"initial": torch.ones(2, 1, 2)}, "initial"),
        ({"initial": torch.ones(1, 2, dtype=torch.int32)}, "initial"),
        ({"initial": torch.full((1, 2), math.nan)}, "initial"),
    ],
)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(LabError) as error:
        greedy_k_center(**{"points": torch.randn(5, 2), "k": 2, **arguments})
    assert error.value.argument == named


def test_random_selection_takes_different_valid_indices_and_repeats_with_its_seed():
    mask = torch.arange(9) < torch.tensor([[4], [9], [6]])
    first, again = (random_selection(mask, 4, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (3, 4)
    assert mask.gather(1, first).all()
    assert all(len(set(row)) == 4 for row in first.tolist())
    assert sorted(random_selection(7, 7, torch.Generator().manual_seed(0)).tolist()) == list(range(7))


def test_random_selection_is_even():
    generator = torch.Generator().manual_seed(0)
    picks = random_selection(torch.ones(6000, 5, dtype=torch.bool), 2, generator)
    counts = picks.flatten().bincount(minlength=5)
    # 12,000 picks, 2,400 expected for each; the standard deviation is 38.
    assert (counts - 2400).abs().max() < 200


def test_random_selection_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    random_selection(10, 3, torch.Generator().manual_seed(1))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("candidates", "k", "named"),
    [
        (3, 4, "k"),
        (3, 0, "k"),
        (0, 1, "candidates"),
        ("three", 1, "candidates"),
        (torch.ones(4), 1, "candidates"),
        (torch.tensor([[True, True], [True, False]]), 2, "k"),
    ],
)
def test_random_selection_names_bad_input(candidates, k, named):
    with pytest.raises(LabError) as error:
        random_selection(candidates, k, torch.Generator())
    assert error.value.argument == named


ODD = {
    "sparse": lambda x: x.to_sparse(),
    "rows": lambda x: x.to_sparse_csr(),
    "meta": lambda x: x.to("meta"),
}


@pytest.mark.parametrize("kind", ODD)
def test_tensors_without_a_place_for_each_number_are_named(kind):
    odd, points = ODD[kind], torch.arange(12.0).view(6, 2)
    for call, named in (
        (lambda: greedy_k_center(odd(points), 2), "points"),
        (lambda: greedy_k_center(points, 2, initial=odd(points)), "initial"),
        (lambda: retrieval_metrics(odd(points), torch.tensor([0, 0, 1, 1, 2, 2])), "query"),
    ):
        with pytest.raises(LabError, match=f"^{named}: expected a dense tensor"):
            call()
    if kind != "rows":  # which torch has for tables only
        mask = torch.ones(6, dtype=torch.bool)
        for call, named in (
            (lambda: greedy_k_center(points, 2, mask=odd(mask)), "mask"),
            (lambda: random_selection(odd(mask), 2), "candidates"),
            (lambda: retrieval_metrics(points, odd(torch.tensor([0, 0, 1, 1, 2, 2]))), "query_labels"),
        ):
            with pytest.raises(LabError, match=f"^{named}: expected a dense tensor"):
                call()
