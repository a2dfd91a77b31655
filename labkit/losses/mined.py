"""A loss from elsewhere with its miner, called like ours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import check_normalize, normalize
from labkit.validation import check_loss_value, check_takes, describe


class MinedLoss(nn.Module):
    """A loss and the miner that picks its pairs or triplets anew from every batch, as one loss for the trainer.

    Takes pytorch-metric-learning's losses and miners, and labkit's losses with those miners. Semi-hard triplets, for
    example, are `MinedLoss(TripletMarginLoss(margin=.2), TripletMarginMiner(margin=.2, type_of_triplets="semihard"))`.

    Parameters
    ----------
    loss : called as `loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)`, gives a 0-d tensor. It normalises as
        it is made to.
    miner : called as `miner(embeddings, labels, ref_emb, ref_labels)` without gradient, gives index tensors (a, p, n) or
        (a, p, a, n). None: whatever the caller passes, or every pair.
    normalize : "l2", "lipschitz" or None: how embeddings are compared once they are learnt, `normalized(x)`. What the
        loss itself sees is not changed.

    Raises
    ------
    LabError : when called: a loss or miner that cannot be called, an unknown normalisation, or a result that is no finite
        0-d tensor.

    Examples
    --------
    >>> from labkit.losses import RankedListLoss
    >>> hardest = lambda x, y, ref_emb, ref_labels: (torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0]]), torch.tensor([0, 0, 1, 1])
    >>> MinedLoss(RankedListLoss(), hardest)(x, y).item()  # (√2 − .8 + 1.2 − √.8) / 4 queries
    0.2299...
    """

    def __init__(self, loss: nn.Module, miner: Any = None, normalize: str | None = "l2") -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner
        self.normalize = normalize

    def normalized(self, x: Tensor) -> Tensor:
        """`x` (..., D) as retrieval compares it."""
        return normalize(x, self.normalize)

    def picked(self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor | None, ref_labels: Tensor | None) -> Any:
        """What the miner picks, index tensors of three or four columns; None without a miner."""
        if self.miner is None:
            return None
        with torch.no_grad():
            return self.miner(embeddings, labels, ref_emb, ref_labels)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of what the miner picked; an `indices_tuple` that is given goes before it. Shapes as for every loss."""
        check_normalize(self.normalize)
        references = "ref_emb", "ref_labels"
        for name, part, takes in (("loss", self.loss, ("indices_tuple", *references)), ("miner", self.miner, references)):
            if name == "miner" and part is None:
                continue
            if not callable(part):
                raise LabError(name, "something that can be called", describe(part))
            check_takes(name, getattr(part, "forward", part), "embeddings", "labels", *takes)
        if indices_tuple is None:
            indices_tuple = self.picked(embeddings, labels, ref_emb, ref_labels)
        result = self.loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        return check_loss_value(self.loss, result, finite=True)
