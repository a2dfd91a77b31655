"""The chance constraint, measured: how often a pair violates its margin, the surrogate, and Markov's bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from labkit.errors import LabError
from labkit.metrics.arrays import as_pair
from labkit.metrics.pairs import finite_mean, pair_blocks
from labkit.validation import check_number


@dataclass(frozen=True)
class ViolationRate:
    """probability : P[y (d - beta) >= 0]. surrogate : e = E[(y (d - beta) + alpha)+]. bound : e / alpha >= probability."""

    probability: float
    surrogate: float
    bound: float


@torch.no_grad()
def violation_rate(embeddings: Any, labels: Any, beta: float, alpha: float) -> ViolationRate:
    """Over all pairs i < j: the chance constraint of "Deep Metric Learning with Chance Constraints" and its surrogate.

    With y = +1 for a pair of one class and -1 for a pair of two, a pair violates where y (d - beta) >= 0. The hinge
    (y (d - beta) + alpha)+ is at least alpha there, so that Markov's inequality gives probability <= surrogate / alpha.

    Parameters
    ----------
    embeddings : floating (n, D), n >= 2, normalised as the loss does. labels : integer (n,).
    beta : distance that separates same from different, >= 0. alpha : margin around it, > 0. Both in the embeddings' units.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, a single sample, beta < 0 or alpha <= 0.
    """
    samples, classes = as_pair(embeddings, labels)
    beta = check_number("beta", beta, low=0)
    alpha = check_number("alpha", alpha, low=0, open_low=True)
    if samples.shape[0] < 2:
        raise LabError("embeddings", "at least two samples, to make a pair", f"shape {tuple(samples.shape)}")
    violated, hinge, count = 0, 0.0, 0
    for distance, same in pair_blocks(samples, classes):
        excess = torch.where(same, distance - beta, beta - distance)
        violated += int((excess >= 0).sum())
        hinge += float((excess + alpha).clamp_(min=0).sum())
        count += distance.numel()
    return ViolationRate(violated / count, finite_mean(hinge / count), finite_mean(hinge / count / alpha))
