"""ProxyAnchor loss: every proxy is an anchor, with the batch as its positives and negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.losses.proxy_base import BaseProxyLoss, Terms
from labkit.validation import check_number


class ProxyAnchorLoss(BaseProxyLoss):
    """A soft maximum over each proxy's positives in the batch and another over its negatives (Kim et al. 2020, eq. 4).

    `1/|P⁺| Σ_{p∈P⁺} log(1 + Σ_{X⁺} exp(−α (s − δ))) + 1/|P| Σ_p log(1 + Σ_{X⁻} exp(α (s + δ)))`, where P⁺ are the
    proxies whose class is in the batch. With K > 1 each proxy is an anchor of its own. Equal to
    pytorch-metric-learning's ProxyAnchorLoss for K = 1, also in that a miner's sample weight w (how often it names a
    sample, over the most often named) multiplies the sample's exponential by exp(w − 1).

    Parameters
    ----------
    num_classes, embedding_size : C and D. Labels are in 0 ... C − 1.
    margin : δ.
    alpha : α > 0, how sharply the hardest samples stand out.
    proxies_per_class : K.
    weight_regularizer, weight_reg_weight, weight_init_func, **options : see `BaseProxyLoss`. With a `distance` that is
        no similarity, s is its negative and δ changes sign, as in pytorch-metric-learning. A `reducer` gets two parts,
        "pos_loss" and "neg_loss", with one loss per proxy each.

    Attributes
    ----------
    weight : (C·K, D) proxies, rows c·K ... (c + 1)·K − 1 for class c; `kaiming_normal_(mode="fan_out")`.

    Raises
    ------
    LabError : as `BaseProxyLoss`; alpha not above 0, a margin that is no number.

    Examples
    --------
    >>> loss = ProxyAnchorLoss(2, 2, margin=0.0, alpha=1.0, weight_init_func=nn.init.eye_)
    >>> loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))  # log(1 + 1/e) + log(2) / 2
    tensor(0.6598, grad_fn=<...>)
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.1,
        alpha: float = 32.0,
        proxies_per_class: int = 1,
        *,
        weight_regularizer: Callable[[Tensor], Any] | None = None,
        weight_reg_weight: float = 1.0,
        weight_init_func: Callable[[Tensor], Any] | None = None,
        **options: Any,
    ) -> None:
        regularizer = (weight_regularizer, weight_reg_weight)
        super().__init__(num_classes, embedding_size, proxies_per_class, *regularizer, weight_init_func, options)
        self.margin = margin
        self.alpha = alpha

    def init_weight(self, weight: Tensor, generator: torch.Generator | None) -> None:
        nn.init.kaiming_normal_(weight, mode="fan_out", generator=generator)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("margin", self.margin)
        check_number("alpha", self.alpha, low=0.0, open_low=True)

    def terms(self, x: Tensor, weight: Tensor, labels: Tensor, sample_weights: Tensor | None) -> Terms:
        values = self.similarities(x, weight)
        margin = self.margin if getattr(self.distance, "is_inverted", True) else -self.margin
        rows = torch.arange(len(x), device=x.device)
        own = self.by_class(values)[rows, labels]  # (N, K)
        shift = 0.0 if sample_weights is None else (sample_weights - 1).unsqueeze(1)
        positive = _log_one_plus_sums((margin - own) * self.alpha + shift, labels, self.num_classes)
        n_positive = int(torch.bincount(labels).count_nonzero()) * self.proxies_per_class

        exponents = self.by_class((values + margin) * self.alpha + shift)
        # Not −inf, whose gradient is NaN where a proxy has no negatives.
        exponents[rows, labels] = torch.finfo(values.dtype).min / 4
        together = exponents.flatten(1).logsumexp(dim=0)
        negative = torch.logaddexp(together, torch.zeros_like(together))
        return {"pos_loss": (positive.flatten(), n_positive), "neg_loss": (negative, len(weight))}


def _log_one_plus_sums(exponents: Tensor, groups: Tensor, n_groups: int) -> Tensor:
    """(G, K): log(1 + Σ exp) over the rows of each group of (N, K) exponents, free of overflow."""
    top = exponents.new_zeros(n_groups, exponents.shape[1])  # 0, the exponent of the 1
    top.scatter_reduce_(0, groups.unsqueeze(1).expand_as(exponents), exponents.detach(), "amax")
    sums = torch.zeros_like(top).index_add(0, groups, (exponents - top[groups]).exp())
    return top + torch.log1p(sums + torch.expm1(-top))
