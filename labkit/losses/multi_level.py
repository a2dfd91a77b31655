"""One loss for each level of a multi-level embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.losses.base import normalized_as
from labkit.losses.proxy_base import BaseProxyLoss
from labkit.validation import check_embeddings, check_loss_value, check_takes, describe


class MultiLevelLoss(nn.Module):
    """The sum of one loss for each level of embeddings that stand side by side, as `MultiLevelHead` makes them
    (Wang et al., "Ranked List Loss", section 3.4).

    Parameters
    ----------
    losses : one for each level, in their order; the levels are equally wide. Any losses that are called alike, labkit's
        or pytorch-metric-learning's; one that owns proxies is as wide as a level.

    Raises
    ------
    LabError : when built without losses; when called with a width that they cannot share out, or as the losses do.

    Examples
    --------
    >>> from labkit.losses import RankedListLoss
    >>> loss = MultiLevelLoss([RankedListLoss(), RankedListLoss(), RankedListLoss()])
    >>> embeddings = torch.tensor([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2).repeat(1, 3)  # three levels of two columns
    >>> loss(embeddings, torch.tensor([0, 1, 0, 1])).item()  # in each a positive at √2, a negative at 0 (not at √2)
    5.44...
    """

    def __init__(self, losses: Sequence[nn.Module]) -> None:
        super().__init__()
        if not isinstance(losses, Sequence) or not losses or not all(isinstance(loss, nn.Module) for loss in losses):
            raise LabError("losses", "a list of one loss for each level", describe(losses))
        for number, loss in enumerate(losses):
            arguments = "embeddings", "labels", "indices_tuple", "ref_emb", "ref_labels"
            check_takes(f"losses[{number}]", loss.forward, *arguments[: 3 if isinstance(loss, BaseProxyLoss) else 5])
        self.losses = nn.ModuleList(losses)

    def split(self, name: str, values: Tensor) -> tuple[Tensor, ...]:
        """The levels (N, D) of `values` (N, levels · D)."""
        count = len(self.losses)
        if check_embeddings(name, values, finite=False).shape[1] % count:
            expected = f"rows whose width is a multiple of {count}, the number of losses"
            raise LabError(name, expected, f"shape {tuple(values.shape)}")
        return values.chunk(count, dim=1)

    def normalized(self, x: Tensor) -> Tensor:
        """`x` (..., levels · D), each level as its loss sees it."""
        pairs = zip(self.losses, self.split("x", x.reshape(-1, x.shape[-1]) if x.ndim else x))
        parts = [normalized_as(loss, part) for loss, part in pairs]
        return torch.cat(parts, dim=1).view_as(x)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss, a 0-d tensor; `embeddings` (N, levels · D) and `ref_emb` (M, levels · D), else as every loss."""
        levels = self.split("embeddings", embeddings)
        references = [None] * len(levels) if ref_emb is None else self.split("ref_emb", ref_emb)
        parts = zip(self.losses, levels, references)
        values = [check_loss_value(loss, loss(x, labels, indices_tuple, r, ref_labels)) for loss, x, r in parts]
        return torch.stack(values).sum()
