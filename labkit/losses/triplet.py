"""Triplet loss over all valid triplets, without ever listing them."""

from __future__ import annotations

import torch
from torch import Tensor

from labkit.losses.blocks import PairBlock
from labkit.losses.pairs import PairLoss, Sums, sum_and_count
from labkit.validation import check_number

FEW_POSITIVES = 8  # for each anchor, up to which looking at every triplet is faster than sorting
TRIPLETS_AT_ONCE = 1 << 20


class TripletLoss(PairLoss):
    """`[d(a, p) − d(a, n) + margin]₊` over all triplets, mean over those above 0 (CCP, "Deep Metric Learning with
    Chance Constraints", section 5).

    There are N³ triplets or so, but each anchor's are decided by sorted distances: a negative is active with those
    positives whose threshold d(a, p) + margin lies above it. Counting these takes N² log N steps and N² memory, and
    the counts are the gradient. 0 where no triplet is active or none exists.

    Equal, in value and gradient, to pytorch-metric-learning's TripletMarginLoss with LpDistance, its default reducer
    and all triplets.

    Parameters
    ----------
    margin : distance, >= 0. The paper's: .0961 on CUB, .1190 on Cars196, .0451 on SOP and In-shop.
    anchor : "proxy" (default) or "sample", see `PairLoss`. A miner's triplets are taken as they come, its anchors
        being embeddings; a miner's pairs make all triplets that share an anchor.
    normalize : "lipschitz" (default), "l2" or None.

    Raises
    ------
    LabError : when called with a margin that is negative or not a number, or with input that cannot be used.

    Examples
    --------
    >>> x = torch.tensor([[0.0, 0.0], [0.3, 0.0], [0.0, 0.35]])
    >>> round(TripletLoss()(x, torch.tensor([0, 0, 1])).item(), 4)  # .3 − .35 + .1; seen from the second none is active
    0.05
    """

    euclidean = True
    triplets_as_they_are = True
    needs_positives = True

    def __init__(self, margin: float = 0.1, anchor: str = "proxy", normalize: str | None = "lipschitz") -> None:
        super().__init__(anchor, normalize)
        self.margin = margin

    def check_parameters(self) -> None:
        check_number("margin", self.margin, low=0.0)

    def sweep(self, block: PairBlock, want_slopes: bool, totals: Sums | None) -> Sums:
        positive = block.positive_values().add_(self.margin)
        if block.aligned:
            hinge = positive.sub_(block.negative_values(torch.inf)).clamp_(min=0.0)
            sums = sum_and_count(hinge)
            if want_slopes:
                block.set_slopes(hinge.sign_(), -hinge)
            return sums
        rows, negative = block.positive_rows(), block.negative_matrix(never=torch.inf)
        few = len(positive) <= FEW_POSITIVES * len(negative)
        cost, by_positive, by_negative = (_enumerated if few else _counted)(rows, positive, negative)
        n_active = by_positive.sum().item()
        if want_slopes:
            block.set_slopes(by_positive, by_negative.neg_())
        return cost, n_active

    def reduce(self, totals: Sums, n_anchors: int) -> tuple[float, float]:
        cost, n_active = totals
        return cost / max(n_active, 1.0), 1.0 / max(n_active, 1.0)


def _enumerated(rows: Tensor, thresholds: Tensor, negative: Tensor) -> tuple[float, Tensor, Tensor]:
    """Cost of all triplets, how many are active with each positive (P,), and with each negative (r, M).

    A positive pair of row `rows[i]` is active with the negatives of its row that lie below `thresholds[i]`. Here each
    triplet is looked at, a bounded number at a time.
    """
    cost, by_positive, by_negative = 0.0, torch.zeros_like(thresholds), torch.zeros_like(negative)
    step = max(1, TRIPLETS_AT_ONCE // negative.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        hinge = negative[rows[part]].neg_().add_(thresholds[part].unsqueeze(1)).clamp_(min=0.0)
        cost += hinge.sum().item()
        active = hinge.sign_()
        torch.sum(active, dim=1, out=by_positive[part])
        by_negative.index_add_(0, rows[part], active)
    return cost, by_positive, by_negative


def _counted(rows: Tensor, thresholds: Tensor, negative: Tensor) -> tuple[float, Tensor, Tensor]:
    """The same from sorted thresholds, in M log P steps an anchor instead of M P."""
    per_row = torch.bincount(rows, minlength=len(negative))
    place = torch.arange(len(rows), device=rows.device) - (per_row.cumsum(0) - per_row)[rows]  # within its row
    table = thresholds.new_full((len(negative), int(per_row.max())), torch.inf)
    table[rows, place] = thresholds
    table, order = table.sort(dim=1)
    passed = torch.searchsorted(table, negative, right=True)  # (r, M) thresholds at or below each negative
    clear = table.new_zeros(len(table), table.shape[1] + 1).scatter_add_(1, passed, torch.ones_like(negative))
    below = clear.cumsum(dim=1)[:, :-1]  # negatives below each threshold, in sorted order
    by_positive = torch.empty_like(table).scatter_(1, order, below)[rows, place]
    by_negative = (per_row.unsqueeze(1) - passed).clamp_(min=0).to(negative.dtype)
    spent = torch.where(by_negative > 0, negative, 0.0).mul_(by_negative).sum()
    return ((by_positive * thresholds).sum() - spent).item(), by_positive, by_negative
