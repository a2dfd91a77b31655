"""The loss over anchor pairs against a double loop, and never farther from all pairs than the anchors' covering radius."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.metrics import anchor_gaps, choose_anchors, covering_radius


def sample(n, classes, seed, size=2):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, size, generator=generator, dtype=torch.double)
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1)
    labels = torch.cat((torch.arange(classes), torch.randint(classes, (n - classes,), generator=generator)))
    return x, labels


def by_hand(x, labels, anchors, low, high):
    """Both losses, a pair at a time; every sample stands for itself or for its class's nearest anchor."""

    def loss(i, j):
        d = float((x[i] - x[j]).norm())
        return max(d - low, 0.0) if labels[i] == labels[j] else max(high - d, 0.0)

    def nearest(j):
        return min((a for a in anchors if labels[a] == labels[j]), key=lambda a: float((x[a] - x[j]).norm()))

    n = len(x)
    stands = [nearest(j) for j in range(n)]
    everything = sum(loss(i, j) for i in range(n) for j in range(n)) / n**2
    anchored = sum(loss(i, stands[j]) for i in range(n) for j in range(n)) / n**2
    return everything, anchored


@settings(deadline=None, max_examples=40)
@given(st.integers(4, 15), st.integers(1, 4), st.integers(0, 10**6), st.floats(0, 0.5), st.floats(0, 1.5))
def test_losses_are_those_of_the_double_loop_and_the_gap_is_within_its_bounds(n, classes, seed, low, high):
    x, labels = sample(n, classes, seed)
    anchors = sorted({*range(classes), seed % n})
    gap = anchor_gaps(x, labels, [anchors], low, high)[0]
    everything, anchored = by_hand(x, labels, anchors, low, high)
    assert gap.all_pairs == pytest.approx(everything) and gap.anchor_pairs == pytest.approx(anchored)
    assert gap.gap <= gap.mean_distance + 1e-12 <= gap.radius + 2e-12
    assert gap.radius == pytest.approx(float(covering_radius(x, labels, x[anchors], labels[anchors]).max()))
    assert gap.anchors == len(anchors)


def test_with_every_sample_an_anchor_nothing_is_lost():
    x, labels = sample(20, 3, 1)
    gap = anchor_gaps(x, labels, [list(range(20))])[0]
    assert gap.gap == 0 and gap.radius == 0 and gap.mean_distance == 0


def test_the_bound_can_be_reached():
    """Two classes far apart, one pair within each at distance 1: one anchor each moves every positive by half of it."""
    x = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    gap = anchor_gaps(x, torch.tensor([0, 0, 1, 1]), [[0, 2]], 0.0, 0.5)[0]
    assert gap.all_pairs == pytest.approx(0.25) and gap.anchor_pairs == pytest.approx(0.25)
    single = anchor_gaps(torch.tensor([[0.0], [0.0], [1.0]]), torch.zeros(3, dtype=int), [[0]])[0]
    assert (single.all_pairs, single.anchor_pairs) == (pytest.approx(4 / 9), pytest.approx(3 / 9))


def test_blocks_change_nothing(monkeypatch):
    x, labels = sample(23, 3, 5)
    whole = anchor_gaps(x, labels, [[0, 1, 2]])[0]
    monkeypatch.setattr("labkit.metrics.anchors._BLOCK", 50)
    assert anchor_gaps(x, labels, [[0, 1, 2]])[0].all_pairs == pytest.approx(whole.all_pairs, abs=1e-15)


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        ([], "subsets: expected a list of at least one"),
        ([[0, 1, 2], [0, 1]], r"subsets\[1\]: expected an anchor of every class; got none of class 2"),
        ([[0, 1, 20]], r"subsets\[0\]: expected indices in \[0, 20\)"),
        ([[0.5, 1, 2]], "integer indices"),
        ([[]], "integer indices"),
    ],
)
def test_what_is_refused(subsets, message):
    with pytest.raises(LabError, match=message):
        anchor_gaps(*sample(20, 3, 0), subsets)


def test_a_negative_margin_is_refused():
    with pytest.raises(LabError, match="neg_margin"):
        anchor_gaps(*sample(20, 3, 0), [[0, 1, 2]], 0.0, -1.0)


@pytest.mark.parametrize("selection", ["k_center", "random"])
def test_chosen_anchors_are_k_different_samples_of_every_class(selection):
    x, labels = sample(40, 3, 2)
    chosen = choose_anchors(x, labels, 4, selection, torch.Generator().manual_seed(0))
    assert labels[chosen].tolist() == [0] * 4 + [1] * 4 + [2] * 4 and len(set(chosen.tolist())) == 12
    again = choose_anchors(x, labels, 4, selection, torch.Generator().manual_seed(0))
    assert torch.equal(chosen, again)
    assert not torch.equal(chosen, choose_anchors(x, labels, 4, selection, torch.Generator().manual_seed(1)))


def test_greedy_anchors_take_the_farthest_each_time():
    x, labels = sample(30, 2, 3)
    chosen = choose_anchors(x, labels, 5, generator=torch.Generator().manual_seed(4)).reshape(2, 5)
    for c, picks in enumerate(chosen):
        members = x[labels == c]
        for j in range(1, 5):
            reach = [min(float((m - x[p]).norm()) for p in picks[:j]) for m in members]
            assert min(float((x[picks[j]] - x[p]).norm()) for p in picks[:j]) == pytest.approx(max(reach))


@pytest.mark.parametrize(
    ("k", "selection", "message"), [(2, "greedy", "selection"), (0, "random", "k"), (99, "k_center", "k")]
)
def test_what_choosing_refuses(k, selection, message):
    with pytest.raises(LabError, match=f"{message}: expected"):
        choose_anchors(*sample(20, 3, 0), k, selection)


def test_gaps_of_numbers_too_large_to_be_squared():
    points = torch.tensor([[0.0], [1.0], [5.0], [9.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    (plain,), (large,) = (anchor_gaps(points * scale, labels, [[0, 2]], 0.0, 6.0 * scale) for scale in (1.0, 2.0**900))
    for name in ("radius", "mean_distance", "all_pairs", "anchor_pairs", "gap"):
        assert getattr(large, name) == pytest.approx(getattr(plain, name) * 2.0**900, rel=1e-12)
