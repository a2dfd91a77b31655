"""Multi-similarity loss, in the form that "Deep Metric Learning with Chance Constraints" (CCP) uses."""

from __future__ import annotations

import torch
from torch import Tensor

from labkit.losses.blocks import PairBlock
from labkit.losses.pairs import PairLoss, Sums
from labkit.validation import check_number


class MultiSimilarityLoss(PairLoss):
    """A soft maximum over each anchor's positives and another over its negatives (CCP, section 5; Wang et al. 2019).

    `1/α log(1 + Σ_P exp(−α (s − base))) + 1/β log(1 + Σ_N exp(β (s − base)))`, mean over the anchors, computed with
    the largest exponent taken out, so that no α or β overflows. An anchor without positives or without negatives
    contributes 0 on that side. Of a miner's pairs each counts once, however often it is named.

    Equal, in value and gradient, to pytorch-metric-learning's MultiSimilarityLoss with CosineSimilarity and the mean
    over anchors, its default.

    Parameters
    ----------
    alpha, beta : how sharply the hardest positives and negatives stand out, > 0. The paper's: (2, 40) on CUB and
        SOP, (14.35, 75.83) on Cars196, (8.49, 57.38) on In-shop.
    base : similarity around which both turn on, the paper's λ; .5, .66 and .41 for these three.
    anchor : "sample" (default) or "proxy", see `PairLoss`.
    normalize : "l2" (default), "lipschitz" or None, which make `s` a plain dot product.

    Raises
    ------
    LabError : when called with alpha or beta not above 0, or with input that cannot be used.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(MultiSimilarityLoss()(x, torch.tensor([0, 0, 1])).item(), 4)  # two anchors: log(1 + 1/e) / 2 each
    0.1044
    """

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 40.0,
        base: float = 0.5,
        anchor: str = "sample",
        normalize: str | None = "l2",
    ) -> None:
        super().__init__(anchor, normalize)
        self.alpha = alpha
        self.beta = beta
        self.base = base

    def check_parameters(self) -> None:
        check_number("alpha", self.alpha, low=0.0, open_low=True)
        check_number("beta", self.beta, low=0.0, open_low=True)
        check_number("base", self.base)

    def sweep(self, block: PairBlock, want_slopes: bool, totals: Sums | None) -> Sums:
        rows = block.positive_rows()
        positive = block.positive_values().sub_(self.base).mul_(-self.alpha)  # (P,) exponents
        highest = positive.new_zeros(len(block.values)).scatter_reduce_(0, rows, positive, "amax")
        positive.sub_(highest[rows]).exp_()
        positive_sum = torch.zeros_like(highest).index_add_(0, rows, positive)

        negative = block.negative_matrix(never=-torch.inf).sub_(self.base).mul_(self.beta)  # (r, M) exponents
        top = negative.amax(dim=1).clamp_(min=0.0)
        negative.sub_(top.unsqueeze(1)).exp_()
        negative_sum = negative.sum(dim=1)

        losses = _log_one_plus(positive_sum, highest) / self.alpha + _log_one_plus(negative_sum, top) / self.beta
        if want_slopes:
            positive.div_((positive_sum + (-highest).exp_())[rows]).neg_()
            block.set_slopes(positive, negative.div_((negative_sum + (-top).exp_()).unsqueeze(1)))
        return (losses.sum().item(),)

    def reduce(self, totals: Sums, n_anchors: int) -> tuple[float, float]:
        return totals[0] / n_anchors, 1.0 / n_anchors


def _log_one_plus(scaled_sum: Tensor, shift: Tensor) -> Tensor:
    """log(1 + e^shift · scaled_sum) for shift >= 0, exact for small sums and free of overflow for large shifts."""
    return shift + torch.log1p(scaled_sum + torch.expm1(-shift))
