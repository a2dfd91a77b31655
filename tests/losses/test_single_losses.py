"""What is particular to one loss: values worked out by hand, closeness, overflow, memory."""

import math

import pytest
import torch

from labkit.geometry import l2_normalize
from labkit.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss, TripletLoss


def angles(*degrees):
    radians = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack((radians.cos(), radians.sin()), dim=1)


def test_contrastive_means_over_the_active_only():
    x = torch.tensor([[0.0, 0.0], [0.3, 0.0], [0.1, 0.0], [0.9, 0.0]], dtype=torch.float64)
    # Positives .3 − .2 = .1 (0 and 1) and .8 − .2 = .6 (2 and 3), each both ways; negatives below .5: 0-2 at .1, 1-2 at .2.
    assert ContrastiveLoss(0.2, 0.5)(x, torch.tensor([0, 0, 1, 1])).item() == pytest.approx(0.35 + 0.35)


def test_contrastive_is_the_same_from_either_side():
    x, r = angles(0, 10, 80), angles(5, 60)
    arguments = x, torch.tensor([0, 0, 1]), None, r, torch.tensor([0, 1])
    assert ContrastiveLoss(anchor="proxy")(*arguments) == ContrastiveLoss(anchor="sample")(*arguments)


def test_cosine_contrastive_divides_by_the_anchors():
    x, r = angles(0, 90, 180), angles(60)
    arguments = x, torch.tensor([0, 0, 1]), None, r, torch.tensor([0])
    total = (1 - 0.5) + (1 - math.sqrt(0.75))  # the third, at −½, is a negative below the margin
    assert CosineContrastiveLoss(anchor="sample")(*arguments).item() == pytest.approx(total / 3)
    assert CosineContrastiveLoss(anchor="proxy")(*arguments).item() == pytest.approx(total)


def test_triplet_by_hand():
    x = torch.tensor([[0.0], [0.4], [0.5]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1])
    # From 0: .4 − .5 + m; from .4: .4 − .1 + m; the third has no positive.
    assert TripletLoss(0.2)(x, labels).item() == pytest.approx((0.1 + 0.5) / 2)
    assert TripletLoss(0.05)(x, labels).item() == pytest.approx(0.35)


@pytest.mark.parametrize("few", [0, 10**9])  # sorted, or each triplet looked at
def test_triplet_exactly_at_the_margin_is_not_active(few, monkeypatch):
    monkeypatch.setattr("labkit.losses.triplet.FEW_POSITIVES", few)
    x = torch.tensor([[0.0], [0.25], [0.5]], dtype=torch.float64)
    value = TripletLoss(0.25)(x, torch.tensor([0, 0, 1]))  # from 0: .25 − .5 + .25 = 0; from .25: .25 − .25 + .25
    assert value.item() == 0.25


@pytest.mark.parametrize("few", [0, 10**9])
@pytest.mark.parametrize("anchor", ["proxy", "sample"])
def test_triplet_counts_what_it_would_list(few, anchor, monkeypatch):
    own = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=own, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(4, (60,), generator=own)
    loss = TripletLoss(0.3, anchor=anchor)
    expected = [loss(x, labels), loss(x[:50], labels[:50], None, x[50:], labels[50:])]
    expected += [torch.autograd.grad(value, x)[0] for value in expected]
    monkeypatch.setattr("labkit.losses.triplet.FEW_POSITIVES", few)
    values = [loss(x, labels), loss(x[:50], labels[:50], None, x[50:], labels[50:])]
    torch.testing.assert_close(values + [torch.autograd.grad(value, x)[0] for value in values], expected)


def test_triplet_leaves_out_anchors_without_positives(monkeypatch):
    own = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, generator=own, requires_grad=True)
    proxies = torch.randn(80, 3, generator=own, requires_grad=True)
    arguments = x, torch.tensor([1, 1, 5, 5, 90, 90]), None, proxies, torch.arange(40).repeat_interleave(2)
    expected = torch.autograd.grad(TripletLoss(0.5)(*arguments), (x, proxies))
    monkeypatch.setattr("labkit.losses.pairs.MANY_ANCHORS", 0)
    torch.testing.assert_close(torch.autograd.grad(TripletLoss(0.5)(*arguments), (x, proxies)), expected)
    assert sorted(expected[1].any(dim=1).nonzero().flatten().tolist()) == [2, 3, 10, 11]


@pytest.mark.parametrize("samples_per_class", [4, 64])
def test_triplet_memory_grows_with_pairs_not_triplets(samples_per_class):
    n = 256
    x = torch.randn(n, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(n) // samples_per_class
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        TripletLoss(0.3)(x, labels).backward()
    held = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    assert 4 * n**2 <= most < n**3 / 2  # some n² numbers of 4 to 8 bytes; not even a bit for each triplet's byte


def test_multi_similarity_by_hand():
    x = angles(0, 60, 180)
    a, b = math.log1p(math.exp(-2 * 0.0)) / 2, math.log1p(math.exp(40 * (-1 - 0.5))) / 40
    c, d = math.log1p(math.exp(40 * (-0.5 - 0.5))) / 40, math.log1p(math.exp(-60) + math.exp(-40)) / 40
    value = MultiSimilarityLoss()(x, torch.tensor([0, 0, 1])).item()
    assert value == pytest.approx((2 * a + b + c + d) / 3, rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_multi_similarity_neither_overflows_nor_vanishes(scale):
    x = angles(0, 1, 2, 90, 180).float().requires_grad_()
    labels = torch.tensor([0, 0, 1, 1, 0])
    value = MultiSimilarityLoss(alpha=2 * scale, beta=40 * scale)(x, labels)
    (gradient,) = torch.autograd.grad(value, x)
    exact = x.detach().double().requires_grad_()
    expected = MultiSimilarityLoss(alpha=2 * scale, beta=40 * scale)(exact, labels)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=0)
    if scale == 1.0:
        torch.testing.assert_close(gradient.double(), torch.autograd.grad(expected, exact)[0], rtol=1e-3, atol=1e-6)
    assert gradient.isfinite().all()
    assert gradient.any()


@pytest.mark.parametrize("kind", [ContrastiveLoss, TripletLoss])
@pytest.mark.parametrize("width", [2, 128])
@pytest.mark.parametrize("gap", [1e-2, 1e-4])
def test_close_pairs_keep_their_accuracy_in_float32(kind, width, gap):
    own = torch.Generator().manual_seed(0)
    centers = l2_normalize(torch.randn(4, width, generator=own)) * 0.9
    x = centers.repeat_interleave(3, 0) + gap * l2_normalize(torch.randn(12, width, generator=own))
    r = centers + gap * l2_normalize(torch.randn(4, width, generator=own))
    labels, reference_labels = torch.arange(4).repeat_interleave(3), torch.arange(4)
    loss = kind()
    results = []
    for dtype in (torch.float32, torch.float64):
        a, b = x.to(dtype).requires_grad_(), r.to(dtype).requires_grad_()
        value = loss(a, labels) + loss(a, labels, None, b, reference_labels)
        results.append([value, *torch.autograd.grad(value, (a, b))])
    for ours, exact in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-3, atol=1e-5)
