"""The sparse-centres regulariser: by the definition, at collapsed centres, in float32, and its limits."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from labkit.errors import LabError
from labkit.losses import SparseCentersRegularizer
from tests.oracles.proxy_losses import sparse_centers


def centers(rows, width=3, seed=0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize(("classes", "per_class"), [(1, 2), (4, 2), (3, 5)])
def test_as_defined(classes, per_class, monkeypatch):
    weight = centers(classes * per_class)
    regularizer = SparseCentersRegularizer(classes, per_class)
    value = regularizer(weight)
    assert value.item() == pytest.approx(sparse_centers(weight.tolist(), per_class), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, weight)
    monkeypatch.setattr("labkit.losses.regularizers.NUMBERS_AT_ONCE", 1)
    torch.testing.assert_close(torch.autograd.grad(regularizer(weight), weight)[0], gradient)
    assert gradcheck(regularizer, weight)


def test_by_hand():
    weight = torch.tensor([[2.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.0, -1.0]])
    assert SparseCentersRegularizer(2, 2)(weight).item() == pytest.approx((math.sqrt(2) + 2) / 4)


def test_other_classes_do_not_matter():
    weight = centers(6)
    value = SparseCentersRegularizer(2, 3)(weight)
    alone = [SparseCentersRegularizer(1, 3)(weight[rows]) for rows in (slice(3), slice(3, 6))]
    torch.testing.assert_close(value, sum(alone) / 2)


def test_one_center_per_class_gives_zero():
    weight = centers(4)
    value = SparseCentersRegularizer(4, 1)(weight)
    value.backward()
    assert value.item() == 0
    assert torch.equal(weight.grad, torch.zeros_like(weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_collapsed_and_zero_centers_have_a_finite_gradient(dtype):
    weight = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]], dtype=dtype)
    weight.requires_grad_()
    SparseCentersRegularizer(2, 3)(weight).backward()
    assert weight.grad.isfinite().all()
    torch.testing.assert_close(weight.grad[0], weight.grad[1])
    same = torch.ones(6, 2, dtype=dtype, requires_grad=True)
    value = SparseCentersRegularizer(2, 3)(same)
    value.backward()
    assert value.item() == 0
    assert torch.equal(same.grad, torch.zeros_like(same))


@pytest.mark.parametrize("gap", [1e-2, 1e-4])
def test_close_centers_keep_their_accuracy_in_float32(gap):
    base = torch.nn.functional.normalize(centers(1, 64).detach()).float()
    weight = (base + gap * torch.nn.functional.normalize(centers(8, 64, seed=1).detach()).float()).requires_grad_()
    results = []
    for dtype in (torch.float32, torch.float64):
        value = SparseCentersRegularizer(2, 4)(weight.to(dtype))
        results.append([value.double(), torch.autograd.grad(value, weight)[0].double()])
    torch.testing.assert_close(*results, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast(dtype):
    weight = centers(6).detach().to(dtype).requires_grad_()
    expected = SparseCentersRegularizer(2, 3)(weight.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = SparseCentersRegularizer(2, 3)(weight)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(5, 2), r"weight: expected .* 2 · 3 = 6 rows; got shape \(5, 2\)"),
        (torch.full((6, 2), torch.nan), "finite"),
        (torch.ones(6), "two dimensions"),
        ([1.0], "torch.Tensor"),
    ],
)
def test_wrong_input(weight, message):
    with pytest.raises(LabError, match=message):
        SparseCentersRegularizer(2, 3)(weight)


@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (2.5, 2), (2, "3")])
def test_wrong_sizes(sizes):
    with pytest.raises(LabError, match="num_classes|centers_per_class"):
        SparseCentersRegularizer(*sizes)
