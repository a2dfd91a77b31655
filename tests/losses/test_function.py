"""A loss made from a function: the same as the class that computes the same, and bad functions named."""

from __future__ import annotations

import pytest
import torch

from labkit.ccp import AlternatingProjections
from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, CosineContrastiveLoss, FunctionLoss


def active_mean(costs: torch.Tensor) -> torch.Tensor:
    return costs.sum() / (costs > 0).sum().clamp(min=1)


def contrastive(distances, same, different):
    pull, push = distances[same], (0.5 - distances[different]).clamp(min=0)
    return active_mean(pull) + active_mean(push)


def data(n: int = 12, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.requires_grad_(), torch.arange(n) % 4


def test_it_equals_the_class_within_a_batch_and_against_references():
    (x, labels), (r, owners) = data(), data(8, 1)
    for arguments in [(x, labels), (x, labels, None, r, owners)]:
        mine, theirs = FunctionLoss(contrastive)(*arguments), ContrastiveLoss()(*arguments)
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(torch.autograd.grad(mine, x)[0], torch.autograd.grad(theirs, x)[0])


def test_similarities_are_cosines():
    x, labels = data()

    def c1(similarities, same, different):
        costs = (1 - similarities)[same].sum() + (similarities[different] - 0.5).clamp(min=0).sum()
        return costs / len(similarities)

    torch.testing.assert_close(
        FunctionLoss(c1, on="similarity", normalize="l2")(x, labels), CosineContrastiveLoss(anchor="sample")(x, labels)
    )


def test_it_works_inside_alternating_projections():
    ccp = AlternatingProjections(FunctionLoss(contrastive), 4, 3, proxies_per_class=2, pool_size=2)
    ccp.initialize(torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(2)))
    x, labels = data()
    ccp(x.float(), labels).backward()
    assert float(ccp.proxies.grad.abs().sum()) > 0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda d, s, o: 3.0, "a loss that gives a real 0-d tensor; got 3.0"),
        (lambda d, s, o: d, "a loss that gives a real 0-d tensor; got a Tensor of shape"),
        (5, "function: expected a function of values, same, different; got 5"),
        (lambda d, s: d.sum(), r"called as <lambda>\(values, same, different\); got \(d, s\): too many"),
        (lambda d, s, o, *, m: d.sum(), "missing a required argument: 'm'"),
        (lambda d, s, o: d[s & o].mean(), "a loss that gives a finite number; got nan. A mean over no pairs"),
    ],
)
def test_bad_functions_are_named(function, message):
    with pytest.raises(LabError, match=message):
        FunctionLoss(function)(*data())


def test_bad_settings_are_named():
    with pytest.raises(LabError, match="on: expected one of"):
        FunctionLoss(contrastive, on="distances")(*data())


def test_a_miner_s_pairs_and_triplets_are_the_masks():
    x, labels = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 0, 1, 1, 1])
    loss = FunctionLoss(lambda values, same, different: values[same].sum() - 0.1 * values[different].sum())
    d = torch.cdist(loss.normalized(x), loss.normalized(x))
    a, p, b, n = (torch.tensor(index) for index in ([0, 3], [1, 4], [5, 5], [0, 2]))
    torch.testing.assert_close(loss(x, labels, (a, p, b, n)), d[0, 1] + d[3, 4] - 0.1 * (d[5, 0] + d[5, 2]))
    n = torch.tensor([3, 0])
    torch.testing.assert_close(loss(x, labels, (a, p, n)), d[0, 1] + d[3, 4] - 0.1 * (d[0, 3] + d[3, 0]))
