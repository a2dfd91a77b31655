"""Triplet loss over all valid triplets, without ever listing them."""

from __future__ import annotations

import torch
from torch import Tensor

from labkit.losses.blocks import PairBlock
from labkit.losses.pairs import PairLoss
from labkit.validation import check_number


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

    def __init__(self, margin: float = 0.1, anchor: str = "proxy", normalize: str | None = "lipschitz") -> None:
        super().__init__(anchor, normalize)
        self.margin = margin

    def check_parameters(self) -> None:
        check_number("margin", self.margin, low=0.0)

    def sweep(self, block: PairBlock, want_slopes: bool, totals: list[float] | None) -> Tensor:
        if block.aligned:
            assert block.negative is not None
            hinge = block.positive_values().sub_(block.negative_values(torch.inf)).add_(self.margin).clamp_(min=0.0)
            sums = torch.stack([hinge.sum(), hinge.count_nonzero()])
            if want_slopes:
                block.set_slopes(hinge.sign_(), -hinge)
            return sums
        return self._sweep_all(block, want_slopes)

    def _sweep_all(self, block: PairBlock, want_slopes: bool) -> Tensor:
        """Every positive of an anchor with every negative of it."""
        rows, positive = block.positive_rows(), block.positive_values().add_(self.margin)
        per_row = torch.bincount(rows, minlength=len(block.values))
        first = per_row.cumsum(0) - per_row
        place = torch.arange(len(rows), device=rows.device) - first[rows]  # of each positive within its row
        widest = int(per_row.max())
        thresholds = positive.new_full((len(block.values), widest), torch.inf)
        thresholds[rows, place] = positive
        thresholds, order = thresholds.sort(dim=1)

        negative = block.negative_matrix(never=torch.inf)
        below = torch.searchsorted(thresholds, negative, right=True)  # (r, M) positives that each negative is clear of
        clear = torch.zeros_like(thresholds[:, :1]).expand(-1, widest + 1).clone()
        clear.scatter_add_(1, below, negative.new_ones(1, 1).expand_as(below))
        active_negatives = clear.cumsum(dim=1)[:, :-1]  # (r, widest) of each threshold, in sorted order
        active_negatives = active_negatives.scatter(1, order, active_negatives)[rows, place]  # (P,)
        active_positives = (per_row.unsqueeze(1) - below).clamp_(min=0).to(negative.dtype)  # (r, M)
        cost = (active_negatives * positive).sum() - (active_positives * block.values).sum()
        if want_slopes:
            block.set_slopes(active_negatives, active_positives.neg_())
        return torch.stack([cost, active_negatives.sum()])

    def reduce(self, totals: list[float], n_anchors: int) -> tuple[float, float]:
        cost, n_active = totals
        return cost / max(n_active, 1.0), 1.0 / max(n_active, 1.0)
