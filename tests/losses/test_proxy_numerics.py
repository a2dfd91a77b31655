"""The three losses that own proxies at the edge of the numbers: coinciding points, extreme settings, half precision."""

import copy

import pytest
import torch

from labkit.errors import LabError
from labkit.losses import SparseCentersRegularizer
from tests.losses.proxies import C, D, anchor, batch, every_loss, nca, of, soft_triple


@every_loss
@pytest.mark.parametrize("normalize", ["lipschitz", "l2", None])
@pytest.mark.parametrize("kind", ["zero", "collapsed", "duplicated"])
def test_degenerate_points_have_finite_gradients(make, normalize, kind):
    loss = make(3, normalize=normalize, weight_regularizer=SparseCentersRegularizer(C, 3))
    x, labels = torch.full((6, D), 0.5), torch.arange(6) % C
    with torch.no_grad():
        if kind == "zero":
            x[:3] = 0.0
            loss.weight[::2] = 0.0
        elif kind == "collapsed":
            loss.weight.copy_(torch.full((3 * C, D), 0.5))
        else:
            loss.weight.copy_(torch.eye(D).repeat(C, 1))
    x.requires_grad_()
    value = loss(x, labels)
    assert value.isfinite()
    assert all(g.isfinite().all() for g in torch.autograd.grad(value, (x, loss.weight)))


EXTREMES = {
    soft_triple: [{"la": 0.0}, {"la": 1e4}, {"gamma": 0.0}, {"gamma": 1e-30}, {"gamma": 1e30}, {"margin": 50.0}],
    nca: [{"temperature": 1e-6}, {"temperature": 1000.0}],
    anchor: [{"alpha": 1e5}, {"alpha": 1e-6}, {"margin": 30.0}],
}


@pytest.mark.parametrize(
    ("make", "changes"), [(make, changes) for make, several in EXTREMES.items() for changes in several]
)
def test_extreme_settings_stay_finite_and_close_to_double(make, changes):
    loss, (x, labels) = of(make(3)), batch()
    for name, value in changes.items():
        setattr(loss, name, value)
    expected = loss(x, labels)
    single, x = copy.deepcopy(loss).float(), x.detach().float().requires_grad_()
    value = single(x, labels)
    torch.testing.assert_close(value.double(), expected, rtol=1e-4, atol=1e-4)
    assert all(g.isfinite().all() for g in torch.autograd.grad(value, (x, single.weight)))


@every_loss
def test_numbers_beyond_the_dtype_are_an_error_and_not_nan(make):
    loss = make(normalize=None)
    with torch.no_grad():
        loss.weight.mul_(1e30)
    with pytest.raises(LabError, match=r"a finite loss; got (nan|inf).*overflow torch.float32"):
        loss(torch.full((2, D), 1e30), torch.tensor([0, 1]))
    with torch.no_grad():
        loss.weight[5, 1] = torch.nan
    with pytest.raises(LabError, match=r"weight: expected finite numbers only; got 1 NaN.*\(5, 1\)"):
        loss(torch.ones(2, D), torch.tensor([0, 1]))


@every_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_and_autocast_compute_in_float32(make, dtype):
    loss, (x, labels) = of(make()).float(), batch()
    x = x.detach().to(dtype).requires_grad_()
    expected = loss(x.float(), labels)
    gradients = torch.autograd.grad(expected, (x, loss.weight))
    value = loss(x, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected)
    with torch.autocast("cpu", dtype=dtype):
        value, logits = loss(x, labels), loss.get_logits(x)
        torch.testing.assert_close(torch.autograd.grad(value, (x, loss.weight)), gradients)
    assert value.dtype == logits.dtype == torch.float32
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(logits, loss.get_logits(x))


@every_loss
def test_a_module_in_half_precision_is_widened(make):
    loss, (x, labels) = of(make()).bfloat16(), batch()
    value = loss(x.float(), labels)
    torch.testing.assert_close(value, copy.deepcopy(loss).float()(x.float(), labels))
    value.backward()
    assert loss.weight.grad.dtype == torch.bfloat16
