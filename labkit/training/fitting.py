"""A loss's own proxies without a network: set to given points, or fitted to embeddings that stay where they are."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from labkit.errors import LabError, during
from labkit.losses import BaseProxyLoss
from labkit.training.own_settings import check_gradients
from labkit.validation import check_number, describe

Loss = TypeVar("Loss", bound=BaseProxyLoss)


def with_proxies(loss: Loss, proxies: Any) -> Loss:
    """The loss itself, its proxies set to `proxies` (C, K, D), an array or tensor, e.g. a recording's.

    Raises
    ------
    LabError : a loss without proxies of its own, or another shape than it has.
    """
    given = torch.as_tensor(proxies)
    c, k = _check(loss).num_classes, loss.proxies_per_class
    if given.shape != (c, k, loss.embedding_size):
        raise LabError("proxies", f"shape {(c, k, loss.embedding_size)}, as the loss has", f"shape {tuple(given.shape)}")
    with torch.no_grad():
        loss.weight.copy_(given.flatten(0, 1))
    return loss


def fit_proxies(loss: Loss, embeddings: Any, labels: Any, *, steps: int = 300, learning_rate: float = 0.02) -> Loss:
    """The loss itself after `steps` steps of Adam on its proxies, with all embeddings in every one; these do not move.

    Parameters
    ----------
    loss : owns proxies; a regulariser that it has acts too.
    embeddings : (n, D), array or tensor. labels : (n,) in 0 … C − 1.
    steps : >= 1. learning_rate : > 0.

    Raises
    ------
    LabError : a loss without proxies of its own, input that the loss refuses, a setting out of range, torch.no_grad().

    Examples
    --------
    >>> from labkit.losses import SoftTripleLoss
    >>> points, labels = torch.eye(2), torch.tensor([0, 1])
    >>> loss = fit_proxies(SoftTripleLoss(2, 2, centers_per_class=1), points, labels)
    >>> loss.get_logits(points).argmax(dim=1)
    tensor([0, 1])
    """
    steps = int(check_number("steps", steps, low=1, whole=True))
    check_number("learning_rate", learning_rate, low=0.0, open_low=True)
    check_gradients("fit_proxies")
    weight = _check(loss).weight
    x = torch.as_tensor(embeddings).detach().to(weight)
    y = torch.as_tensor(labels, device=weight.device)
    optimizer = torch.optim.Adam(loss.parameters(), lr=learning_rate)
    for step in range(steps):
        optimizer.zero_grad()
        with during(f"step {step + 1}"):
            value = loss(x, y)
        value.backward()
        optimizer.step()
    return loss


def _check(loss: Loss) -> Loss:
    if not isinstance(loss, BaseProxyLoss):
        raise LabError("loss", "a loss with proxies of its own", describe(loss))
    return loss
