"""Gradients in closed form: exact once, and refused where autograd would go on without them."""

from __future__ import annotations

import pytest
import torch

from labkit.errors import LabError
from labkit.geometry import l2_normalize, lipschitz_normalize, pairwise_distance
from labkit.losses import ContrastiveLoss, RankedListLoss
from tests.plots.losses import nine

LOSSES = list(nine())
FUNCTIONS = {
    "distance": lambda x: pairwise_distance(x, x + 1).sum(), "unit ball": lambda x: lipschitz_normalize(x)[:, 0].sum(),
    "sphere": lambda x: l2_normalize(x)[:, 0].sum(),
}  # fmt: skip


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 2, generator=generator).requires_grad_(), torch.arange(12) % 3


@pytest.mark.parametrize("name", [*LOSSES, *FUNCTIONS])
def test_a_gradient_penalty_is_refused_rather_than_lost(name):
    x, labels = batch()
    value = FUNCTIONS[name](x) if name in FUNCTIONS else nine()[name](x, labels)
    with pytest.raises(LabError, match="create_graph: expected False"):
        torch.autograd.grad(value, x, create_graph=True)
    x.grad = None
    value = FUNCTIONS[name](x) if name in FUNCTIONS else nine()[name](x, labels)
    value.backward()  # as ever
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacfwd, torch.func.jacrev])
def test_transforms_of_functions_are_refused(name, transform):
    x, labels = batch()
    loss = nine()[name]
    with pytest.raises(LabError, match="embeddings: expected a plain tensor; got one inside torch.func"):
        transform(lambda rows: loss(rows, labels))(x.detach())


def test_a_tangent_is_refused():
    x, labels = batch()
    with torch.autograd.forward_ad.dual_level():
        moving = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
        with pytest.raises(LabError, match="got one with a tangent"):
            RankedListLoss()(moving, labels)


def test_a_second_pass_after_a_setting_was_moved_is_refused():
    x, labels = batch()
    loss = ContrastiveLoss(neg_margin=0.5)
    value = loss(x, labels)
    first, second = (torch.autograd.grad(value, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    loss.neg_margin = 5.0
    with pytest.raises(LabError, match=r"neg_margin: expected 0\.5, as when the loss was computed; got 5\.0"):
        torch.autograd.grad(value, x, retain_graph=True)
    loss.neg_margin = 0.5
    assert torch.equal(torch.autograd.grad(value, x, retain_graph=True)[0], first)
    labels[0] = 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(value, x)
