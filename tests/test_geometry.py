"""Normalisations and distances: closed forms, closeness, gradients where square roots misbehave, bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from labkit.errors import LabError
from labkit.geometry import cosine_similarity, l2_normalize, lipschitz_normalize, normalize, pairwise_distance

WIDTHS = (2, 40)  # differences formed, matrix product
vectors = st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=2, max_size=5)


def points(n, width, seed=0, dtype=torch.float64):
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_lipschitz_keeps_the_inside_and_projects_the_outside():
    inside = torch.tensor([[0.3, 0.4], [0.0, 0.0], [1.0, 0.0]])
    assert torch.equal(lipschitz_normalize(inside), inside)
    assert torch.allclose(lipschitz_normalize(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]))


def test_l2_reaches_the_sphere_and_leaves_zero():
    assert torch.allclose(l2_normalize(torch.tensor([[0.03, 0.04], [0, 0]])), torch.tensor([[0.6, 0.8], [0, 0]]))


@given(vectors)
def test_lipschitz_moves_no_two_points_apart(rows):
    x = torch.tensor(rows, dtype=torch.float64)
    assert (pairwise_distance(lipschitz_normalize(x)) <= pairwise_distance(x) + 1e-12).all()


def test_normalisation_takes_any_leading_dimensions():
    proxies = points(12, 5).view(3, 4, 5) * 3
    assert torch.equal(lipschitz_normalize(proxies).view(12, 5), lipschitz_normalize(proxies.view(12, 5)))


@pytest.mark.parametrize("kind", ["lipschitz", "l2"])
def test_normalisation_gradient(kind):
    lengths = torch.tensor([[0.2], [0.9], [1.1], [5.0]], dtype=torch.float64)
    x = (l2_normalize(points(4, 3)) * lengths).requires_grad_()
    assert gradcheck(lambda v: normalize(v, kind), x)


@pytest.mark.parametrize(("kind", "expected"), [("lipschitz", 1.0), ("l2", 0.0)])
@pytest.mark.parametrize("slope", [1.0, 20.0, 1e30])
def test_gradient_at_zero_is_finite(kind, expected, slope):
    x = torch.zeros(2, 3, requires_grad=True)
    (normalize(x, kind) * slope).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, expected * slope))


@pytest.mark.parametrize("width", WIDTHS)
def test_distances_against_the_definition(width):
    x, y = points(6, width), points(4, width, seed=1)
    expected = [[math.dist(a, b) for b in y.tolist()] for a in x.tolist()]
    assert torch.allclose(pairwise_distance(x, y), torch.tensor(expected, dtype=torch.float64), rtol=1e-12)
    alone = pairwise_distance(x)
    assert torch.equal(alone.diagonal(), torch.zeros(6, dtype=torch.float64))
    assert torch.allclose(alone, pairwise_distance(x, x.clone()), atol=1e-7)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1e-4, 1e-6])
def test_close_points_keep_their_distance_and_direction_in_float32(width, gap):
    x = l2_normalize(points(5, width, dtype=torch.float32)).requires_grad_()
    y = (x.detach() + gap * l2_normalize(points(5, width, seed=1, dtype=torch.float32))).requires_grad_()
    pairwise_distance(x, y).diagonal().sum().backward()
    difference = x.detach().double() - y.detach().double()  # what float32 really holds
    exact = difference.norm(dim=1)
    assert torch.allclose(pairwise_distance(x, y).diagonal().double(), exact, rtol=1e-4)
    assert torch.allclose(x.grad.double(), difference / exact[:, None], atol=2e-3)
    assert torch.allclose(y.grad, -x.grad, atol=1e-5)


def test_many_close_pairs_are_recomputed_part_by_part(monkeypatch):
    x = 1 + 1e-4 * points(9, 40, dtype=torch.float32)
    whole = pairwise_distance(x)
    monkeypatch.setattr("labkit.measures.PAIRS_AT_ONCE", 7)
    assert torch.equal(pairwise_distance(x), whole)
    assert torch.allclose(whole.double(), torch.cdist(x.double(), x.double()), rtol=1e-4)


@pytest.mark.parametrize("width", WIDTHS)
def test_distance_gradient(width):
    x, y = points(5, width).requires_grad_(), points(4, width, seed=1).requires_grad_()
    assert gradcheck(pairwise_distance, (x, y))
    assert gradcheck(lambda v: pairwise_distance(v)[0, 1:], x)  # a point's distance to itself has a kink


@pytest.mark.parametrize("width", WIDTHS)
def test_identical_points_pull_nowhere(width):
    x = torch.ones(3, width, requires_grad=True)
    distances = pairwise_distance(x, torch.ones(2, width))
    distances.sum().backward()
    assert torch.equal(distances, torch.zeros(3, 2))
    assert torch.equal(x.grad, torch.zeros_like(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [pairwise_distance, cosine_similarity, lipschitz_normalize])
def test_half_precision_is_widened(function, dtype):
    x = points(4, 40).to(dtype).requires_grad_()
    result = function(x)
    result.sum().backward()
    assert result.dtype == torch.float32
    assert torch.equal(result, function(x.detach().float()))
    assert x.grad.dtype == dtype


def test_a_double_side_makes_the_result_double():
    assert pairwise_distance(points(2, 3), points(2, 3, dtype=torch.float32)).dtype == torch.float64


def test_cosines():
    x = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    assert torch.allclose(cosine_similarity(x, torch.tensor([[0.0, 3.0]])), torch.tensor([[0.0], [0.5**0.5]]))


@settings(max_examples=25, deadline=None)  # torch.testing takes its time to load
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(WIDTHS))
def test_shapes_and_memory_layout(n, m, width):
    x, y = points(width, n).T, points(2 * m, width, seed=1)[::2]  # neither contiguous
    torch.testing.assert_close(pairwise_distance(x, y), pairwise_distance(x.contiguous(), y.contiguous()))
    assert pairwise_distance(x, y).shape == (n, m)


@pytest.mark.parametrize(
    ("x", "y", "names"),
    [
        (torch.zeros(3), None, ["x", "(3,)"]),
        (torch.zeros(0, 3), None, ["x", "(0, 3)"]),
        (torch.zeros(2, 3, dtype=torch.long), None, ["x", "int64"]),
        ([[0.0]], None, ["x", "list"]),
        (torch.full((2, 3), torch.nan), None, ["x", "index (0, 0)"]),
        (torch.zeros(2, 3), torch.full((2, 3), torch.inf), ["y", "finite"]),
        (torch.zeros(2, 3), torch.zeros(2, 4), ["y", "(m, 3)", "(2, 4)"]),
        (torch.zeros(2, 3), torch.zeros(2, 3, device="meta"), ["y", "cpu", "meta"]),
    ],
)
def test_bad_input(x, y, names):
    for function in (pairwise_distance, cosine_similarity):
        with pytest.raises(LabError) as error:
            function(x, y)
        assert all(name in str(error.value) for name in names)


def test_unknown_normalisation_suggests_the_nearest():
    with pytest.raises(LabError, match="Did you mean 'lipschitz'"):
        normalize(torch.zeros(2, 2), "lipshitz")
    with pytest.raises(LabError, match="floating"):
        l2_normalize(torch.zeros(2, 2, dtype=torch.long))


def test_one_point_far_away_does_not_make_the_others_coincide():
    points = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    points[0] = 1e25
    points.requires_grad_()
    distances = pairwise_distance(points)
    expected = torch.cdist(points.detach().double(), points.detach().double())
    torch.testing.assert_close(distances, expected.float(), rtol=1e-5, atol=1e-5)
    distances[1:, 1:].sum().backward()
    others = points.detach()[1:].clone().requires_grad_()
    torch.cdist(others, others).sum().backward()
    torch.testing.assert_close(points.grad[1:], others.grad, rtol=1e-4, atol=1e-5)
    assert not points.grad[0].any()
