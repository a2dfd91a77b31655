"""Ranked list loss: values worked out by hand, what its gradient reaches, temperatures, memory, the public version."""

import math

import pytest
import torch
from pytorch_metric_learning import losses as peer
from pytorch_metric_learning import miners

from labkit.losses import RankedListLoss
from labkit.losses.blocks import BLOCK_ELEMENTS
from labkit.losses.ranked_batch import ranked_batch
from tests.oracles import losses as oracle


def angles(*degrees, dtype=torch.float64):
    radians = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack((radians.cos(), radians.sin()), dim=1).to(dtype)


def chord(degrees):
    return 2 * math.sin(math.radians(degrees) / 2)


def make(n=20, width=24, classes=5, seed=0, dtype=torch.float64):
    own = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=own, dtype=dtype, requires_grad=True)
    return x, torch.randint(classes, (n,), generator=own)


def query_loss(x, labels, gallery, gallery_labels, alone, *, alpha, margin, temperature, weight):
    """Equations 8 to 14 with a gallery of one's choice and weights held constant, left to autograd."""
    x, gallery = (v / v.norm(dim=1, keepdim=True) for v in (x, gallery))
    total = 0.0
    for i in range(len(x)):
        others = [j for j in range(len(gallery)) if not (alone and i == j)]
        d = {j: (x[i] - gallery[j]).square().sum().sqrt() for j in others}
        near = [d[j] - (alpha - margin) for j in others if labels[i] == gallery_labels[j] and d[j] > alpha - margin]
        far = [alpha - d[j] for j in others if labels[i] != gallery_labels[j] and d[j] < alpha]
        if near:
            total = total + torch.stack(near).mean()
        if far:
            costs = torch.stack(far)
            total = total + weight * (torch.softmax(temperature * costs.detach(), 0) * costs).sum()
    return total / len(x)


SETTINGS = [
    {"alpha": 1.2, "margin": 0.4, "temperature": 10.0, "weight": 1.0},
    {"alpha": 1.4, "margin": 1.4, "temperature": 0.0, "weight": 0.3},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("width", [2, 24])
@pytest.mark.parametrize("elements", [1 << 20, 10])
def test_within_a_batch_the_gradient_reaches_the_query_alone(settings, width, elements, monkeypatch):
    monkeypatch.setitem(BLOCK_ELEMENTS, "cpu", elements)
    monkeypatch.setattr("labkit.losses.ranked_list.SMALL", elements)
    x, labels = make(width=width)
    value = RankedListLoss(**settings)(x, labels)
    expected = query_loss(x, labels, x.detach(), labels, True, **settings)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)
    gradient, wanted = (torch.autograd.grad(v, x)[0] for v in (value, expected))
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-12)
    both_sides = torch.autograd.grad(query_loss(x, labels, x, labels, True, **settings), x)[0]
    assert not torch.allclose(gradient, both_sides, rtol=0.1)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("anchor", ["sample", "proxy"])
def test_references_learn(settings, anchor):
    x, labels = make()
    r, reference_labels = make(n=12, seed=1)
    value = RankedListLoss(**settings, anchor=anchor)(x, labels, None, r, reference_labels)
    queries = (x, labels, r, reference_labels) if anchor == "sample" else (r, reference_labels, x, labels)
    expected = query_loss(*queries, False, **settings)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)
    ours, theirs = (torch.autograd.grad(v, (x, r)) for v in (value, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert ours[1].any()


def test_by_hand():
    x = angles(0, 90, 30, 180)
    positive = chord(90) - 0.8
    weights = [math.exp(10 * (chord(60) - chord(30))), 1.0]  # the third against the first two
    third = 1.2 - (weights[0] * chord(30) + weights[1] * chord(60)) / sum(weights)
    value = RankedListLoss()(x, torch.tensor([0, 0, 1, 2])).item()
    expected = (positive + 1.2 - chord(30)) + (positive + 1.2 - chord(60)) + third + 0  # the last is far from all
    assert value == pytest.approx(expected / 4, rel=1e-12)


def test_boundaries_cost_nothing():
    line = torch.tensor([[0.0], [0.5], [1.5]], dtype=torch.float64)
    loss = RankedListLoss(alpha=1.0, margin=0.5, normalize=None)
    assert loss(line, torch.tensor([0, 0, 1])) == 0  # a positive at α − m, a negative at α from it and beyond
    assert loss(line, torch.tensor([0, 0, 0])).item() == pytest.approx((1.0 + 0.5 + (1.0 + 0.5) / 2) / 3)


@pytest.mark.parametrize("temperature", [0.0, 10.0, 100.0, 1000.0, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_temperature_and_a_negative_at_distance_zero_counts(temperature, dtype):
    x = angles(0, 0, 40, 60, dtype=dtype).requires_grad_()
    labels = torch.tensor([0, 1, 1, 1])
    value = RankedListLoss(temperature=temperature, margin=0.0)(x, labels)
    distances = [0.0, chord(40), chord(60)]  # from the first, all negatives; none of the positives costs
    weights = [math.exp(-temperature * d) for d in distances]
    first = 1.2 - sum(w * d for w, d in zip(weights, distances)) / sum(weights)
    expected = (first + 1.2 + (1.2 - chord(40)) + (1.2 - chord(60))) / 4
    assert value.item() == pytest.approx(expected, rel=1e-6)
    (gradient,) = torch.autograd.grad(value, x)
    assert gradient.isfinite().all()
    assert gradient[2:].any(dim=1).all()


def test_temperature_zero_weighs_alike_and_infinity_takes_the_hardest():
    x = angles(0, 20, 50, 65)
    labels = torch.tensor([0, 1, 2, 3])
    gaps = [[20, 50, 65], [20, 30, 45], [50, 30, 15], [65, 45, 15]]
    costs = [[1.2 - chord(gap) for gap in row] for row in gaps]
    alike, hardest = (RankedListLoss(temperature=t)(x, labels).item() for t in (0.0, 1e6))
    assert alike == pytest.approx(sum(sum(row) / 3 for row in costs) / 4, rel=1e-12)
    assert hardest == pytest.approx(sum(max(row) for row in costs) / 4, rel=1e-12)


def test_a_step_pulls_positives_in_and_pushes_negatives_out():
    x = angles(0, 100, 20).requires_grad_()
    labels = torch.tensor([0, 0, 1])
    RankedListLoss()(x, labels).backward()
    moved = x.detach() - 0.1 * x.grad
    before, after = (torch.cdist(v / v.norm(dim=1, keepdim=True), v / v.norm(dim=1, keepdim=True)) for v in (x, moved))
    assert after[0, 1] < before[0, 1]
    assert after[0, 2] > before[0, 2]


def test_a_miner_s_pairs_are_the_two_sets():
    x, labels = make()
    loss = RankedListLoss(**SETTINGS[0])
    terms = miners.PairMarginMiner(pos_margin=0.8, neg_margin=1.2)(x, labels)  # by definition those that cost
    assert all(0 < len(index) < 300 for index in terms)
    torch.testing.assert_close(loss(x, labels, terms), loss(x, labels))
    (a, p, b, n) = terms
    fewer = loss(x, labels, (a[:1], p[:1], b[:1], n[:1]))
    unit = x / x.norm(dim=1, keepdim=True)
    expected = (unit[a[0]] - unit[p[0]]).norm() - 0.8 + 1.2 - (unit[b[0]] - unit[n[0]]).norm()
    torch.testing.assert_close(fewer, expected / 20)


def test_memory_is_less_than_one_matrix_of_pairs():
    n = 3000
    x, labels = make(n, 32, classes=1000, dtype=torch.float32)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        RankedListLoss()(x, labels).backward()
    held = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    assert 2 * x.nbytes <= most < 4 * n**2


@pytest.mark.parametrize("temperature", [0.0, 3.0, 10.0])
def test_the_public_version_nearly_agrees(temperature):
    """It adds 1e-5 for each pair to its denominators, halves both terms, and has no constants in its gradient."""
    x, labels = make(n=40, width=16)
    theirs = peer.RankedListLoss(margin=0.4, Tn=temperature, imbalance=0.5, alpha=1.2)(x, labels)
    ours = RankedListLoss(temperature=temperature)(x, labels)
    torch.testing.assert_close(ours, 2 * theirs, rtol=1e-3, atol=0)


@pytest.mark.parametrize("settings", [*SETTINGS, {"alpha": 2.5, "margin": 0.1, "temperature": 30.0, "weight": 2.0}])
@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_short_way_and_the_general_way_agree(settings, spread, dtype, monkeypatch):
    own = torch.Generator().manual_seed(0)
    labels = torch.arange(60) // 3
    x = torch.randn(20, 32, generator=own)[labels] + spread * torch.randn(60, 32, generator=own)
    results = []
    for small in (512, 0):
        monkeypatch.setattr("labkit.losses.ranked_list.SMALL", small)
        leaf = x.to(dtype).requires_grad_()
        value = RankedListLoss(**settings)(leaf, labels)
        results.append((value, *torch.autograd.grad(3 * value, leaf)))
    torch.testing.assert_close(*results)
    assert results[0][1].any()


@pytest.mark.parametrize("sparse", [0.0, 1.0])
def test_listing_the_pulls_and_multiplying_them_out_agree(sparse, monkeypatch):
    x, labels = make()
    expected = torch.autograd.grad(RankedListLoss()(x, labels), x)[0]
    monkeypatch.setattr("labkit.losses.ranked_batch.SPARSE", sparse)
    torch.testing.assert_close(torch.autograd.grad(RankedListLoss()(x, labels), x)[0], expected)


@pytest.mark.parametrize("rows", ["close", "equal", "zero"])
def test_what_the_short_way_cannot_do_goes_the_general_way(rows):
    x, labels = make(width=32)
    with torch.no_grad():
        x[3] = {"close": x[4] + 1e-8 * x[5], "equal": x[4], "zero": torch.zeros(32)}[rows]
    assert ranked_batch(x.detach(), labels, (0.8, 1.2), 10.0, 1.0, True) is None
    settings = SETTINGS[0] | {"normalize": "l2"}
    value = RankedListLoss(**settings)(x, labels)
    assert value.item() == pytest.approx(oracle.ranked_list(x.tolist(), labels.tolist(), **settings), rel=1e-9)
    assert torch.autograd.grad(value, x)[0].isfinite().all()
