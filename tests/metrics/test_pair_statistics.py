"""Means and probabilities over all pairs: inter-class distance, proxy spread, the chance constraint."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.metrics import inter_class_distance, pairs, proxy_spread, violation_rate
from tests.oracles.metrics import pairs as all_pairs
from tests.oracles.metrics import violations

labelled_grid = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 2)), min_size=2, max_size=12)


def random_rows(n=60, size=12, classes=4):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, size, generator=generator), torch.randint(classes, (n,), generator=generator)


def test_three_points_by_hand():
    # Distances: 0-1 is 3 (same), 0-2 is 4 (other), 1-2 is 5 (other); beta 4, alpha 2.
    points, labels = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 0, 1])
    assert inter_class_distance(points, labels) == 4.5
    rate = violation_rate(points, labels, beta=4.0, alpha=2.0)
    # Same: excess 3 - 4 = -1, hinge 1. Other: 0 (a violation, being >= 0), hinge 2; and -1, hinge 1.
    assert rate.probability == pytest.approx(1 / 3)
    assert rate.surrogate == pytest.approx(4 / 3)
    assert rate.bound == pytest.approx(2 / 3)


@given(labelled_grid, st.sampled_from([0.0, 0.75, 2.0, 5.5]), st.sampled_from([0.25, 1.0]))
@settings(max_examples=100, deadline=None)
def test_violation_rate_equals_the_definition(rows, beta, alpha):
    points, labels = [row[:2] for row in rows], [row[2] for row in rows]
    rate = violation_rate(torch.tensor(points).float(), torch.tensor(labels), beta, alpha)
    probability, surrogate, bound = violations(points, labels, beta, alpha)
    assert rate.probability == pytest.approx(probability, abs=1e-12)
    assert rate.surrogate == pytest.approx(surrogate, abs=1e-12)
    assert rate.bound == pytest.approx(bound, abs=1e-12)
    assert rate.probability <= rate.bound


@given(labelled_grid)
@settings(max_examples=60, deadline=None)
def test_inter_class_distance_equals_the_definition(rows):
    points, labels = [row[:2] for row in rows], [row[2] for row in rows]
    other = [d for d, same in all_pairs(points, labels) if not same]
    if other:
        result = inter_class_distance(torch.tensor(points).float(), torch.tensor(labels))
        assert result == pytest.approx(sum(other) / len(other), abs=1e-12)


def test_each_pair_comes_once_in_whatever_blocks(monkeypatch):
    points, labels = random_rows()
    low = points[:, :3].contiguous(), labels
    assert sum(d.numel() for d, _ in pairs.pair_blocks(*low)) == 60 * 59 // 2
    assert torch.cat([d for d, _ in pairs.pair_blocks(*low)]).sort().values.tolist() == pytest.approx(
        sorted(d for d, _ in all_pairs(low[0].tolist(), labels.tolist())), rel=1e-9
    )
    expected = sorted(all_pairs(points.tolist(), labels.tolist()))
    for block, direct in ((1, 1 << 40), (500, 1 << 40), (1 << 20, 1 << 40), (500, 0), (1 << 20, 0)):
        monkeypatch.setattr(pairs, "_BLOCK", block)
        monkeypatch.setattr(pairs, "_DIRECT", direct)
        parts = list(pairs.pair_blocks(points, labels))
        distance, same = (torch.cat(column) for column in zip(*parts, strict=True))
        distance, order = distance.sort()
        assert distance.tolist() == pytest.approx([d for d, _ in expected], rel=1e-9)
        assert same[order].tolist() == [s for _, s in expected]


def test_products_far_from_the_origin_keep_small_distances(monkeypatch):
    monkeypatch.setattr(pairs, "_DIRECT", 0)
    points, labels = random_rows()
    near, far = inter_class_distance(points.double(), labels), inter_class_distance(points.double() + 1e4, labels)
    assert far == pytest.approx(near, rel=1e-9)


def test_proxy_spread_by_hand():
    # First class: a triangle of sides 3, 4, 5, mean 4. Second: all on one point.
    proxies = torch.tensor([[[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]], [[1.0, 1.0]] * 3])
    assert proxy_spread(proxies) == 2.0
    assert proxy_spread(proxies.numpy()) == 2.0
    assert proxy_spread(proxies.half()) == 2.0
    assert proxy_spread(proxies[:, :1]) == 0.0


def test_a_nearly_complete_collapse_is_still_measured():
    proxies = torch.tensor([[[0.5, 0.5], [0.5, 0.5 + 1e-6]]], dtype=torch.float64)
    assert proxy_spread(proxies) == pytest.approx(1e-6, rel=1e-6)
    assert proxy_spread(proxies.float()) == pytest.approx(1e-6, rel=0.05)


def test_half_precision_and_strides():
    points, labels = random_rows()
    for measure in (inter_class_distance, lambda p, y: violation_rate(p, y, 3.0, 1.0)):
        for low in (points.half(), points.bfloat16()):
            assert measure(low, labels) == measure(low.float(), labels)
        assert measure(points[:, ::3], labels) == measure(points[:, ::3].contiguous(), labels)
        assert measure(points.numpy(), labels.numpy()) == measure(points, labels)


@pytest.mark.parametrize("measure", [inter_class_distance, lambda e, y: violation_rate(e, y, 0.5, 0.1)])
@pytest.mark.parametrize(
    ("embeddings", "labels", "named"),
    [
        (torch.randn(4), torch.arange(4), "embeddings"),
        (torch.ones(4, 2, dtype=torch.int64), torch.arange(4), "embeddings"),
        (torch.full((4, 2), math.nan), torch.arange(4), "embeddings"),
        (torch.ones(0, 2), torch.ones(0, dtype=torch.int64), "embeddings"),
        (torch.randn(4, 2), torch.arange(5), "labels"),
        (torch.randn(4, 2), torch.randn(4), "labels"),
    ],
)
def test_bad_input_is_named(measure, embeddings, labels, named):
    with pytest.raises(LabError) as error:
        measure(embeddings, labels)
    assert error.value.argument == named


def test_one_class_has_no_inter_class_distance():
    with pytest.raises(LabError, match="two classes"):
        inter_class_distance(torch.randn(3, 2), torch.zeros(3, dtype=torch.int64))


def test_bad_margins_and_a_single_sample_are_named():
    points, labels = random_rows(4, 2)
    for beta, alpha, named in ((-1.0, 1.0, "beta"), (math.nan, 1.0, "beta"), (1.0, 0.0, "alpha"), (1.0, "x", "alpha")):
        with pytest.raises(LabError) as error:
            violation_rate(points, labels, beta, alpha)
        assert error.value.argument == named
    with pytest.raises(LabError, match="two samples"):
        violation_rate(points[:1], labels[:1], 1.0, 1.0)


@pytest.mark.parametrize(
    "proxies", [torch.randn(3, 2), torch.ones(1, 2, 2, dtype=torch.int64), torch.ones(0, 2, 2), torch.full((1, 2, 2), math.nan)]
)
def test_bad_proxies_are_named(proxies):
    with pytest.raises(LabError) as error:
        proxy_spread(proxies)
    assert error.value.argument == "proxies"
