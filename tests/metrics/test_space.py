"""Effective rank and hubness: what can be said of an embedding space without its labels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.metrics import effective_rank, hubness, neighbours
from tests.oracles.metrics import occurrences, skewness

grid = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=12)


def cross(*lengths):
    """Both ends of an axis for each length: centred, with singular values sqrt(2) times the lengths."""
    arms = torch.diag(torch.tensor(lengths, dtype=torch.float64))
    return torch.cat((arms, -arms))


def by_definition(rows, centered):
    rows = np.asarray(rows, dtype=np.float64)
    values = np.linalg.svd(rows - rows.mean(0) * centered, compute_uv=False)
    share = [v / values.sum() for v in values if v > 1e-12 * values.max()]
    return math.exp(-sum(p * math.log(p) for p in share))


# ---------------------------------------------------------------- effective rank


@pytest.mark.parametrize(("lengths", "rank"), [((2.0,), 1), ((1.0, 1.0), 2), ((3.0, 3.0, 3.0, 0.0), 3)])
def test_equal_directions_count_one_each(lengths, rank):
    assert effective_rank(cross(*lengths)) == pytest.approx(rank, abs=1e-6)


def test_shares_are_those_of_the_singular_values_not_of_their_squares():
    # Lengths 1 and 3: shares 1/4 and 3/4, not 1/10 and 9/10.
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert effective_rank(cross(1.0, 3.0)) == pytest.approx(math.exp(entropy), rel=1e-12)


@pytest.mark.parametrize("shape", [(50, 6), (6, 50), (7, 7)])
@pytest.mark.parametrize("centered", [True, False])
def test_rank_equals_the_definition_through_an_svd(shape, centered):
    rows = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    assert effective_rank(rows, centered=centered) == pytest.approx(by_definition(rows, centered), rel=1e-9)


def test_rank_does_not_depend_on_scale_rotation_or_place():
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=generator, dtype=torch.float64)).Q
    rank = effective_rank(rows)
    assert effective_rank(rows @ turn + 7) == pytest.approx(rank, rel=1e-9)
    assert effective_rank(rows * 2.0**600) == pytest.approx(rank, rel=1e-12)
    assert effective_rank(rows * 2.0**-600) == pytest.approx(rank, rel=1e-12)


def test_one_direction_far_from_the_origin_is_one_direction():
    line = torch.linspace(0, 1, 20)[:, None] * torch.tensor([[1.0, 2.0, -1.0]]) + torch.tensor([[4.0, 0.0, 1.0]])
    assert effective_rank(line) == pytest.approx(1, abs=1e-3)
    assert effective_rank(line, centered=False) > 1.1


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30])
def test_where_nothing_is_spread_the_rank_is_0(value):
    assert effective_rank(torch.full((33, 7), value)) == 0
    assert effective_rank(torch.full((1, 7), value)) == 0


def test_rank_takes_arrays_and_refuses_what_is_none():
    assert effective_rank(cross(1.0, 1.0).numpy()) == effective_rank(cross(1.0, 1.0))
    with pytest.raises(LabError, match="embeddings"):
        effective_rank(torch.ones(3))
    with pytest.raises(LabError, match="NaN|infinit|finite"):
        effective_rank(torch.tensor([[0.0, math.nan], [1.0, 0.0]]))


# ---------------------------------------------------------------- hubness


@given(grid, st.integers(1, 2))
@settings(max_examples=80, deadline=None)
def test_hubness_equals_the_definition(points, k):
    result = hubness(torch.tensor(points).float(), k)
    expected = occurrences(points, k)
    assert result.occurrences.tolist() == expected
    assert result.skewness == pytest.approx(skewness(expected), rel=1e-9, abs=1e-9)
    assert result.antihubs == expected.count(0) / len(points)


def test_on_a_circle_nobody_is_a_hub():
    turn = 2 * math.pi * torch.arange(20, dtype=torch.float64) / 20
    result = hubness(torch.stack((turn.cos(), turn.sin()), 1), 2)
    assert result.occurrences.tolist() == [2] * 20
    assert (result.skewness, result.antihubs) == (0, 0)


def test_the_middle_of_a_star_is_everybody_s_neighbour():
    # Eight points on as many axes, sqrt(2) apart and 1 from the middle: it is the nearest of each, and they of nobody
    # but one, which the middle has for its own.
    result = hubness(torch.cat((torch.zeros(1, 8), torch.eye(8))), 1)
    assert result.occurrences.tolist() == [8, 1, 0, 0, 0, 0, 0, 0, 0]
    assert result.antihubs == pytest.approx(7 / 9)
    assert result.skewness == pytest.approx(skewness([8, 1] + [0] * 7), rel=1e-12) and result.skewness > 2


def test_blocks_do_not_change_hubness(monkeypatch):
    rows = torch.randn(60, 20, generator=torch.Generator().manual_seed(2))
    whole = hubness(rows, 5)
    monkeypatch.setattr(neighbours, "_AT_ONCE", 1)
    assert torch.equal(hubness(rows, 5).occurrences, whole.occurrences) and int(whole.occurrences.sum()) == 300


def test_in_many_dimensions_there_are_more_hubs():
    """The finding of the paper, on Gaussian noise."""
    generator = torch.Generator().manual_seed(3)
    flat, wide = (hubness(torch.randn(1000, size, generator=generator), 10).skewness for size in (3, 100))
    assert flat < 1 and wide > 2


@pytest.mark.parametrize("k", [0, 3, 1.5])
def test_hubness_refuses_a_k_without_neighbours(k):
    with pytest.raises(LabError, match="k"):
        hubness(torch.eye(3), k)


def test_hubness_refuses_one_sample():
    with pytest.raises(LabError, match="two samples"):
        hubness(torch.ones(1, 3), 1)
