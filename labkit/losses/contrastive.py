"""The two contrastive losses of "Deep Metric Learning with Chance Constraints" (CCP), C1 and C2."""

from __future__ import annotations

import torch

from labkit.losses.blocks import PairBlock
from labkit.losses.pairs import PairLoss, Sums, sum_and_count
from labkit.validation import check_number

MARGINS = (0.0, 0.5)  # C2's for positives and negatives, and those by which runs of losses without such margins are judged


class ContrastiveLoss(PairLoss):
    """C2: contrastive loss on Euclidean distances with a margin for positives too (CCP, equation 3.1 with two margins).

    Positive pairs cost `[d − pos_margin]₊`, negative pairs `[neg_margin − d]₊`. The loss is the mean over the positives
    that cost something plus the mean over the negatives that do; a side on which none does contributes 0, so that a
    batch without positives or without negatives is allowed and has a gradient.

    Equal, in value and gradient, to pytorch-metric-learning's ContrastiveLoss with LpDistance and its default reducer.
    A pair that a miner names twice counts twice.

    Parameters
    ----------
    pos_margin, neg_margin : distances, >= 0. The paper's: (0, .3841) on CUB, (.2652, .5409) on Cars196, (.2858, .513)
        on SOP and In-shop.
    anchor : has no effect on the value of this loss, which treats both sides alike.
    normalize : "lipschitz" (default), "l2" or None.

    Raises
    ------
    LabError : when called with a margin that is negative or not a number, or with input that cannot be used.

    Examples
    --------
    >>> x = torch.tensor([[0.0, 0.0], [0.3, 0.0], [0.0, 0.4]])
    >>> ContrastiveLoss()(x, torch.tensor([0, 0, 1])).item()  # .3 + mean of (.5 − .4) and (.5 − .5, inactive)
    0.4...
    """

    euclidean = True
    symmetric = True
    repeats = True
    totals_before_slopes = True

    def __init__(
        self,
        pos_margin: float = MARGINS[0],
        neg_margin: float = MARGINS[1],
        anchor: str = "proxy",
        normalize: str | None = "lipschitz",
    ) -> None:
        super().__init__(anchor, normalize)
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin

    def check_parameters(self) -> None:
        check_number("pos_margin", self.pos_margin, low=0.0)
        check_number("neg_margin", self.neg_margin, low=0.0)

    def sweep(self, block: PairBlock, want_slopes: bool, totals: Sums | None) -> Sums:
        positive = block.positive_values().sub_(self.pos_margin).clamp_(min=0.0)
        negative = block.negative_shortfalls(self.neg_margin)
        sums = *sum_and_count(positive), *sum_and_count(negative)
        if want_slopes:
            _, n_positive, _, n_negative = totals or sums
            positive.sign_().div_(max(n_positive, 1.0))
            block.set_slopes(positive, negative.sign_().div_(-max(n_negative, 1.0)))
        return sums

    def reduce(self, totals: Sums, n_anchors: int) -> tuple[float, float]:
        positive, n_positive, negative, n_negative = totals
        return positive / max(n_positive, 1.0) + negative / max(n_negative, 1.0), 1.0


class CosineContrastiveLoss(PairLoss):
    """C1: contrastive loss on cosine similarities (CCP, section 5).

    Positive pairs cost `[1 − s]₊`, negative pairs `[s − margin]₊`; their sum is divided by the number of anchors: of
    references where they are the anchors (`anchor="proxy"`), else of embeddings. With a large memory as references
    choose `anchor="sample"`, or the sum is divided by the size of the memory.

    Parameters
    ----------
    margin : cosine in [-1, 1] above which a negative costs; the paper's is .5 throughout.
    anchor : "proxy" (default) or "sample", see `PairLoss`.
    normalize : "l2" (default), "lipschitz" or None, which make `s` a plain dot product.

    Raises
    ------
    LabError : when called with a margin outside [-1, 1], or with input that cannot be used.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> round(CosineContrastiveLoss()(x, torch.tensor([0, 0, 1])).item(), 4)  # (2 · 1 + 4 (√½ − ½)) / 3
    0.9428
    """

    symmetric = True
    repeats = True

    def __init__(self, margin: float = 0.5, anchor: str = "proxy", normalize: str | None = "l2") -> None:
        super().__init__(anchor, normalize)
        self.margin = margin

    def check_parameters(self) -> None:
        check_number("margin", self.margin, low=-1.0, high=1.0)

    def sweep(self, block: PairBlock, want_slopes: bool, totals: Sums | None) -> Sums:
        positive = block.positive_values().neg_().add_(1.0).clamp_(min=0.0)
        negative = block.negative_values(never=-torch.inf).sub_(self.margin).clamp_(min=0.0)
        sums = (positive.sum().item() + negative.sum().item(),)
        if want_slopes:
            block.set_slopes(positive.sign_().neg_(), negative.sign_())
        return sums

    def reduce(self, totals: Sums, n_anchors: int) -> tuple[float, float]:
        return totals[0] / n_anchors, 1.0 / n_anchors
