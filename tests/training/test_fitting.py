"""Proxies without a network: what one centre cannot do and two can, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, ProxyNCALoss, SoftTripleLoss, SparseCentersRegularizer
from labkit.plots import distinct_centers
from labkit.training.fitting import fit_proxies, with_proxies

ANGLES = torch.deg2rad(torch.tensor([0.0, 180.0, 90.0, 270.0]))  # class 0 at both ends of one axis, class 1 of the other
POINTS = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)
LABELS = torch.tensor([0, 0, 1, 1])


def soft_triple(k: int, **options: object) -> SoftTripleLoss:
    return SoftTripleLoss(2, 2, k, generator=torch.Generator().manual_seed(1), **options)


def right(loss: SoftTripleLoss) -> float:
    return float((loss.get_logits(POINTS).argmax(dim=1) == LABELS).float().mean())


def test_one_centre_cannot_hold_both_ends_and_several_can() -> None:
    assert right(fit_proxies(soft_triple(1), POINTS, LABELS)) <= 0.75
    assert right(fit_proxies(soft_triple(6), POINTS.numpy(), LABELS.numpy())) == 1.0


def test_embeddings_stay_and_the_loss_falls() -> None:
    before, loss = POINTS.clone(), ProxyNCALoss(2, 2, 2)
    first = loss(POINTS, LABELS).item()
    assert fit_proxies(loss, POINTS, LABELS, steps=50) is loss
    assert loss(POINTS, LABELS).item() < first
    assert torch.equal(before, POINTS)


def test_a_strong_regulariser_leaves_the_two_modes() -> None:
    loss = soft_triple(6, weight_regularizer=SparseCentersRegularizer(2, 6), weight_reg_weight=1.0)
    fit_proxies(loss, POINTS, LABELS, steps=1000)
    centers = loss.normalized(loss.weight.detach()).view(2, 6, 2)
    assert distinct_centers(centers, threshold=0.3).tolist() == [2, 2]


def test_given_proxies_are_taken() -> None:
    proxies = np.arange(8.0).reshape(2, 2, 2)
    loss = with_proxies(soft_triple(2), proxies)
    assert loss.weight.tolist() == proxies.reshape(4, 2).tolist() and loss.weight.requires_grad


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_proxies(ContrastiveLoss(), POINTS, LABELS), "loss: expected a loss with proxies of its own"),
        (lambda: with_proxies(ContrastiveLoss(), POINTS), "loss: expected a loss with proxies of its own"),
        (lambda: with_proxies(soft_triple(2), POINTS), r"proxies: expected shape \(2, 2, 2\), as the loss has; got"),
        (lambda: fit_proxies(soft_triple(2), POINTS, LABELS, steps=0), "steps"),
        (lambda: fit_proxies(soft_triple(2), POINTS, LABELS, learning_rate=0), "learning_rate"),
        (lambda: fit_proxies(soft_triple(2), POINTS, LABELS + 1), "labels"),
    ],
)
def test_what_does_not_fit_is_named(call, message) -> None:
    with pytest.raises(LabError, match=message):
        call()
