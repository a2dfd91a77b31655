"""Numbers whose squares overflow or vanish: what the same numbers of an ordinary size give, or a LabError; never NaN."""

import math

import numpy as np
import pytest
import torch

from labkit import losses
from labkit.errors import LabError
from labkit.geometry import cosine_similarity, l2_normalize, lipschitz_normalize, pairwise_distance
from labkit.metrics import (
    covering_curve,
    covering_radius,
    covering_summary,
    inter_class_distance,
    nmi,
    proxy_spread,
    retrieval_metrics,
    violation_rate,
)
from labkit.selection import greedy_k_center

F32, F64 = torch.float32, torch.float64
# Powers of two, so that a scaled set is exactly the set at another size.
EXPONENTS = [(F32, 100), (F32, -110), (F64, 900), (F64, -900)]
LABELS = torch.arange(40) % 4


def points(n=40, width=5, dtype=F32, seed=0):
    x = torch.randn(n, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return x + 3 * (torch.arange(n) % 4 == torch.arange(width)[:, None]).T  # four classes, apart


def grad(loss, x, labels=LABELS):
    x = x.clone().requires_grad_()
    value = loss(x, labels)
    value.backward()
    return value.detach(), x.grad


@pytest.mark.parametrize("factor", [1e20, 1e-25, 3e38, 1e-40])
def test_rows_of_any_size_reach_the_sphere(factor):
    x = torch.tensor([[1.0, 0.0], [0.6, -0.8], [-1.0, 1.0], [0.0, 0.0]])
    assert torch.allclose(l2_normalize(x * factor), l2_normalize(x), atol=1e-4)
    assert torch.allclose(cosine_similarity(x * factor), cosine_similarity(x), atol=1e-4)


def test_huge_rows_reach_the_unit_ball_and_tiny_ones_stay():
    x = torch.tensor([[1e20, 0.0], [3e38, 3e38], [1e-25, 0.0], [1e-40, 0.0], [0.3, 0.4]])
    expected = torch.cat((torch.tensor([[1.0, 0.0], [0.5**0.5, 0.5**0.5]]), x[2:]))
    assert torch.allclose(lipschitz_normalize(x), expected, rtol=1e-6, atol=0)


def test_an_unusual_row_changes_nothing_for_its_neighbours():
    x = points()
    together = l2_normalize(torch.cat((x, torch.zeros(1, 5), x[:1] * 1e25)))
    assert torch.equal(together[:40], l2_normalize(x))


@pytest.mark.parametrize("kind", [l2_normalize, lipschitz_normalize])
@pytest.mark.parametrize("factor", [2.0**70, 2.0**-80])
def test_gradient_of_normalisation_at_any_size(kind, factor):
    x, slope = points(), points(seed=1) - 1
    unit = l2_normalize(x)
    expected = slope - (slope * unit).sum(1, keepdim=True) * unit  # of the direction, divided by the length
    expected = slope if kind is lipschitz_normalize and factor < 1 else expected / x.norm(dim=1, keepdim=True) / factor
    assert torch.allclose(grad(lambda v, _: (kind(v) * slope).sum(), x * factor)[1], expected, rtol=1e-3)


def test_gradient_beyond_the_largest_number_is_held_there():
    found = grad(lambda v, _: (l2_normalize(v) * torch.tensor([0.0, 1e6])).sum(), torch.tensor([[1e-40, 0.0]]))[1]
    assert torch.equal(found, torch.tensor([[0.0, torch.finfo(F32).max]]))


SPHERE = [
    losses.CosineContrastiveLoss(),
    losses.MultiSimilarityLoss(),
    losses.RankedListLoss(),
    losses.ContrastiveLoss(normalize="l2"),
    losses.TripletLoss(normalize="l2"),
]


@pytest.mark.parametrize("loss", SPHERE, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("factor", [2.0**70, 2.0**-80, 2.0**-130])
def test_losses_on_the_sphere_do_not_depend_on_size(loss, factor):
    (value, gradient), (expected, ordinary) = grad(loss, points() * factor), grad(loss, points())
    assert torch.allclose(value, expected, rtol=1e-3)
    assert torch.isfinite(gradient).all()
    if factor != 2.0**-130:  # where the gradient is too large for float32
        assert torch.allclose(gradient * factor, ordinary, rtol=1e-3, atol=1e-5)


def test_a_loss_in_the_unit_ball_sees_huge_embeddings():
    loss = losses.ContrastiveLoss()
    assert torch.allclose(loss(points() * 2.0**70, LABELS), loss(l2_normalize(points()), LABELS), rtol=1e-5)


PROXY = [losses.SoftTripleLoss, losses.ProxyNCALoss, losses.ProxyAnchorLoss, losses.ProxyGMLLoss]


@pytest.mark.parametrize("make", PROXY)
@pytest.mark.parametrize("normalize", ["l2", "lipschitz"])
@pytest.mark.parametrize("factor", [2.0**70, 2.0**126])
def test_losses_with_huge_proxies(make, normalize, factor):
    extra = {"ratio": 0.9} if make is losses.ProxyGMLLoss else {}
    loss = make(4, 5, **extra, normalize=normalize, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        loss.weight.copy_(l2_normalize(loss.weight) * 1.5)  # outside the unit ball
    expected = loss(points(), LABELS).item()
    loss.weight.data *= factor
    value = loss(points(), LABELS)
    value.backward()
    assert math.isclose(value.item(), expected, rel_tol=1e-4)
    assert torch.isfinite(loss.weight.grad).all()


@pytest.mark.parametrize("make", PROXY)
@pytest.mark.parametrize("exponent", [-80, -140])
def test_losses_with_tiny_proxies(make, exponent):
    extra = {"ratio": 0.9} if make is losses.ProxyGMLLoss else {}
    loss = make(4, 5, **extra, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        loss.weight.copy_(l2_normalize(loss.weight).mul(512).round())  # few digits, so that none is lost
    expected = loss(points(), LABELS).item()
    loss.weight.data.mul_(2.0**-70).mul_(2.0 ** (exponent + 70))
    value = loss(points(), LABELS)
    value.backward()
    assert math.isclose(value.item(), expected, rel_tol=1e-3)
    assert torch.isfinite(loss.weight.grad).all()


@pytest.mark.parametrize("references", [False, True])
@pytest.mark.parametrize("alpha", [1e39, 3e38, 1e9])
def test_a_loss_that_its_dtype_cannot_hold_is_refused(alpha, references):
    x = points().requires_grad_()
    extra = {"ref_emb": points(seed=1), "ref_labels": LABELS} if references else {}
    with pytest.raises(LabError, match="a loss of"):
        losses.RankedListLoss(weight=1e30, normalize=None, alpha=alpha)(x, LABELS, **extra)
    with pytest.raises(LabError, match="a loss of"):
        losses.RankedListLoss(weight=1e30, alpha=alpha)(x, LABELS, **extra)


def test_products_that_overflow_are_refused():
    with pytest.raises(LabError, match="a loss of"):
        losses.CosineContrastiveLoss(normalize=None)(points() * 2.0**66, LABELS)


@pytest.mark.parametrize("width", [5, 20])
@pytest.mark.parametrize(("dtype", "exponent"), EXPONENTS)
def test_distances_at_any_size(width, dtype, exponent):
    x, y, scale = points(width=width, dtype=dtype), points(7, width, dtype, seed=1), 2.0**exponent
    expected = pairwise_distance(x, y)
    assert torch.allclose(pairwise_distance(x * scale, y * scale) / scale, expected, rtol=1e-5)
    for one, other in zip(
        grad(lambda v, _: pairwise_distance(v, y * scale).sum(), x * scale), grad(lambda v, _: pairwise_distance(v, y).sum(), x)
    ):
        assert torch.allclose(one if one.ndim else one / scale, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("measure", [pairwise_distance, lambda x: greedy_k_center(x, 1)], ids=["distance", "k-center"])
def test_distances_beyond_the_largest_number_are_refused(measure):
    with pytest.raises(LabError, match="distances are below"):
        measure(torch.tensor([[3e38], [-3e38]]))


@pytest.mark.parametrize(("dtype", "exponent"), [*EXPONENTS, (F32, -135), (F64, -1060)])
@pytest.mark.parametrize("n", [40, 5000])
def test_k_center_at_any_size(dtype, exponent, n):
    x, half = points(n, 2, dtype).mul(8).round(), exponent // 2  # few digits, so that none is lost
    x[0] += 64
    chosen, expected = greedy_k_center(x * 2.0**half * 2.0 ** (exponent - half), 20), greedy_k_center(x, 20)
    assert torch.equal(chosen.indices, expected.indices)
    assert len(chosen.indices.unique()) == 20
    assert torch.allclose(chosen.radii / 2.0**half / 2.0 ** (exponent - half), expected.radii, rtol=0.2)


def test_k_center_of_sets_of_different_sizes():
    x = points(80, 3).view(2, 40, 3)
    factors = torch.tensor([2.0**100, 2.0**-20])[:, None, None]
    chosen, expected = greedy_k_center(x * factors, 5), greedy_k_center(x, 5)
    assert torch.equal(chosen.indices, expected.indices)
    assert torch.allclose(chosen.radii / factors[:, 0], expected.radii)


def test_k_center_of_the_smallest_numbers():
    x = torch.randn(5000, 2, generator=torch.Generator().manual_seed(0)) * 1e-42
    chosen = greedy_k_center(x, 20)
    assert torch.isfinite(chosen.radii).all() and len(chosen.indices.unique()) == 20
    assert greedy_k_center(torch.tensor([[0.0], [1e-310], [3e-310]], dtype=F64), 2).radii[0] > 2e-310


def test_initial_centres_that_the_points_cannot_hold_are_refused():
    with pytest.raises(LabError, match="initial"):
        greedy_k_center(points(), 2, initial=torch.full((1, 5), 1e300, dtype=F64))


@pytest.mark.parametrize("width", [5, 20])
@pytest.mark.parametrize(("dtype", "exponent"), [*EXPONENTS, (F32, -128), (F64, -1030)])
def test_retrieval_at_any_size(width, dtype, exponent):
    x, half = points(width=width, dtype=dtype, seed=2).mul(64).round(), exponent // 2
    assert retrieval_metrics(x * 2.0**half * 2.0 ** (exponent - half), LABELS) == retrieval_metrics(x, LABELS)


@pytest.mark.parametrize("width", [5, 20])
@pytest.mark.parametrize(("dtype", "exponent"), EXPONENTS)
def test_metrics_at_any_size(width, dtype, exponent):
    x, y, scale = points(width=width, dtype=dtype), points(8, width, dtype, seed=1), 2.0**exponent
    owners = torch.arange(8) % 4

    def radius(x, y):
        return covering_radius(x, LABELS, y, owners)

    def mean(x, y):
        return torch.tensor(covering_summary(x, LABELS, y, owners).covering_mean, dtype=dtype)

    def curve(x, y):
        return torch.cat(covering_curve(x, LABELS))

    def between(x, y):
        return torch.tensor(inter_class_distance(x, LABELS), dtype=F64)

    def spread(x, y):
        return torch.tensor(proxy_spread(x.view(4, 10, width)), dtype=F64)

    for measure in (radius, mean, curve, between, spread):
        assert torch.allclose(measure(x * scale, y * scale) / scale, measure(x, y), rtol=1e-5), measure.__name__
    rate, expected = violation_rate(x * scale, LABELS, 2 * scale, scale / 2), violation_rate(x, LABELS, 2.0, 0.5)
    assert rate.probability == expected.probability
    assert math.isclose(rate.surrogate / scale, expected.surrogate, rel_tol=1e-5)
    assert nmi(x * scale, LABELS) == nmi(x, LABELS)


def test_classes_of_different_sizes_are_each_covered_right():
    x, factors = points(), torch.where(LABELS == 0, 2.0**100, 1.0)[:, None]
    centres, owners = torch.zeros(4, 5), torch.arange(4)
    found, expected = (covering_radius(v, LABELS, centres, owners) for v in (x * factors, x))
    assert torch.allclose(found / torch.tensor([2.0**100, 1, 1, 1]), expected)
    found, expected = (covering_curve(v, LABELS) for v in (x * factors, x))
    assert torch.allclose(found[0] / 2.0**100, expected[0]) and torch.equal(found[1], expected[1])


def test_metrics_refuse_what_no_number_can_hold():
    x, labels = torch.tensor([[1.7e308], [-1.7e308]], dtype=F64), torch.tensor([0, 1])
    for call in (
        lambda: inter_class_distance(x, labels),
        lambda: violation_rate(x, labels, 1.0, 1.0),
        lambda: proxy_spread(x[None]),
        lambda: covering_radius(x[:1], labels[:1], x[1:], labels[:1]),
        lambda: covering_radius(torch.zeros(1, 1), labels[:1], x[1:], labels[:1]),
    ):
        with pytest.raises(LabError):
            call()


X, Y = points().numpy(), LABELS.numpy()
USES = {
    "query": lambda x, y: retrieval_metrics(x, y),
    "embeddings": lambda x, y: nmi(x, y),
    "embeddings ": lambda x, y: inter_class_distance(x, y),
    "embeddings  ": lambda x, y: violation_rate(x, y, 0.5, 0.5),
    "embeddings   ": lambda x, y: covering_curve(x, y),
    "centers": lambda x, y: covering_radius(X, Y, x, y),
    "proxies": lambda x, y: proxy_spread(x.reshape(4, 10, 5) if isinstance(x, np.ndarray) else x),
}
UNUSABLE = [X.astype(str), X.astype(object), X.astype(np.longdouble), [[1.0], [1.0, 2.0]], None]


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("values", UNUSABLE, ids=["string", "object", "longdouble", "ragged", "none"])
def test_arrays_that_torch_cannot_take(name, values):
    with pytest.raises(LabError, match=f"^{name.strip()}: "):
        USES[name](values, Y)


@pytest.mark.parametrize("name", USES)
def test_big_endian_arrays(name):
    found, expected = USES[name](X.astype(">f4"), Y.astype(">i8")), USES[name](X, Y)
    same = all(map(torch.equal, found, expected)) if isinstance(expected, list) else found == expected
    assert same.all() if isinstance(same, torch.Tensor) else same


@pytest.mark.parametrize("labels", [Y.astype(str), Y.astype(object), None, [[0], [0, 1]], Y.astype(np.uint64) + 2**63])
def test_labels_that_int64_cannot_hold(labels):
    with pytest.raises(LabError, match="^labels: "):
        inter_class_distance(X, labels)


def test_unsigned_labels():
    assert inter_class_distance(X, Y.astype(np.uint64)) == inter_class_distance(X, Y)
