"""Ranked list loss: each query against all of its gallery that breaks its two boundaries."""

from __future__ import annotations

import torch
from torch import Tensor

from labkit.losses.batch import Batch
from labkit.losses.blocks import PairBlock
from labkit.losses.eager import check_held, known
from labkit.losses.pairs import PairLoss, Sums
from labkit.losses.ranked_batch import ranked_batch
from labkit.validation import check_choice, check_number

SMALL = 512  # samples up to which a batch is taken in one go


class RankedListLoss(PairLoss):
    """Positives inside one boundary, negatives outside another (Wang et al., "Ranked List Loss", equations 8 to 14).

    Each sample is a query, all others are its gallery. Positives further than `alpha − margin` cost what they exceed
    it by, their mean is `L_P`; negatives nearer than `alpha` cost `alpha − d`, their mean with weights
    `exp(temperature · (alpha − d))` is `L_N`. The loss is the mean of `L_P + weight · L_N` over all queries; a set in
    which nothing costs contributes 0. The weights are computed with the largest exponent taken out, so that no
    temperature overflows and a negative at distance 0 weighs the most.

    The weights are constants and so, within a batch, is the gallery: a query is moved by its own list alone, not by
    the lists in which it appears (section 3.2). References given in `ref_emb` do learn, or proxies would never move.

    Parameters
    ----------
    alpha : distance that negatives shall keep, >= 0.
    margin : by how much positives shall be nearer than that, >= 0; from `margin = alpha` on every positive costs.
    temperature : how far the hardest negatives stand out, 0 to 1e30: 0 weighs all alike, large values leave the hardest.
    weight : of `L_N` against `L_P`, >= 0; the paper's λ.
    anchor : with references, "sample" (default) makes the embeddings the queries, "proxy" the references.
    normalize : "l2" (default), "lipschitz" or None.

    Raises
    ------
    LabError : when called with a parameter that is negative or not a number, or with input that cannot be used.

    Notes
    -----
    The paper's batch is 60 classes of 3 samples; its α, m and T are the defaults. A class with one sample has no `L_P`.
    A miner's result restricts both sets to the pairs that it names, each counted once.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> labels = torch.tensor([0, 0, 1])
    >>> round(RankedListLoss()(x, labels).item(), 4)  # √2 − .8 + 1.2 − √.8, √2 − .8 + 1.2 − √.4, nearly 1.2 − √.4
    0.8838
    """

    euclidean = True
    gallery_is_constant = True

    def __init__(
        self,
        alpha: float = 1.2,
        margin: float = 0.4,
        temperature: float = 10.0,
        weight: float = 1.0,
        anchor: str = "sample",
        normalize: str | None = "l2",
    ) -> None:
        super().__init__(anchor, normalize)
        self.alpha = alpha
        self.margin = margin
        self.temperature = temperature
        self.weight = weight

    def check_parameters(self) -> None:
        check_choice("anchor", self.anchor, ("proxy", "sample"))
        for name in ("alpha", "margin"):
            check_number(name, getattr(self, name), low=0.0)
        for name in ("temperature", "weight"):
            check_number(name, getattr(self, name), low=0.0, high=1e30)  # infinity times a difference of 0 is NaN

    def compute(self, batch: Batch) -> Tensor:
        x, alone = batch.embeddings, batch.references is None and batch.terms is None and batch.excluded is None
        near, far = self.alpha - self.margin, self.alpha
        if alone and self.normalize == "l2" and 1 < len(x) <= SMALL and 0.0 <= near <= far < 1e6:
            want = torch.is_grad_enabled() and x.requires_grad
            solved = ranked_batch(x.detach(), batch.labels, (near, far), self.temperature, self.weight, want)
            if solved is not None:
                check_held(solved[0], solved[1:], x.dtype)
                return known(x.new_tensor(solved[0]), [solved[1]], [x]) if want else x.new_tensor(solved[0])
        return super().compute(batch)

    def sweep(self, block: PairBlock, want_slopes: bool, totals: Sums | None) -> Sums:
        rows = block.positive_rows()
        positive = block.positive_values().sub_(self.alpha - self.margin).clamp_(min=0.0)
        active = positive.sign()
        counts = positive.new_zeros(len(block.values)).index_add_(0, rows, active).clamp_(min=1.0)[rows]

        weights = block.negative_matrix(never=torch.inf).neg_().add_(self.alpha).clamp_(min=0.0)
        costing = weights > 0
        weights.sub_(weights.amax(dim=1, keepdim=True)).mul_(self.temperature).exp_().mul_(costing)
        weights.div_(weights.sum(dim=1, keepdim=True).clamp_(min=1.0))  # the hardest weighs 1, so any sum is >= 1
        negative = weights.sum(dim=1).mul_(self.alpha).sub_(torch.linalg.vecdot(weights, block.values)).clamp_(min=0.0)

        if want_slopes:
            block.set_slopes(active / counts, weights.mul_(-self.weight))
        return ((positive / counts).sum().item() + self.weight * negative.sum().item(),)

    def reduce(self, totals: Sums, n_anchors: int) -> tuple[float, float]:
        return totals[0] / n_anchors, 1.0 / n_anchors
