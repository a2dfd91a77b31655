"""What every loss shares: how it is called, what it refuses, and in which precision it computes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labkit.geometry import check_normalize, normalize
from labkit.losses.batch import Batch, check_batch


class BaseLoss(nn.Module):
    """A loss called as `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`.

    To write one of your own, implement `compute(batch)`, which returns a 0-d tensor, and, where the loss has
    parameters, `check_parameters()`. The constructor only stores; all checks happen when the loss is called, so that
    an attribute may also be changed between two calls. A loss that owns proxies declares them as `nn.Parameter`s.

    Parameters
    ----------
    normalize : "lipschitz" (into the unit ball), "l2" (onto the sphere) or None; applied to both sides.
    """

    def __init__(self, normalize: str | None) -> None:
        super().__init__()
        self.normalize = normalize

    def __setattr__(self, name: str, value: Any) -> None:
        """NumPy's numbers become Python's: formulas in half precision or without a sign would be others."""
        super().__setattr__(name, value.item() if isinstance(value, np.generic) else value)

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_") and k != "training")

    def normalized(self, x: Tensor) -> Tensor:
        """`x` (..., D) as this loss sees it: after its normalisation, in float32 at least."""
        return normalize(x, self.normalize)

    def check_parameters(self) -> None:
        """Raise a LabError if an attribute makes no sense."""

    def compute(self, batch: Batch) -> Tensor:
        """The loss of a checked batch, a 0-d tensor."""
        raise NotImplementedError

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss, a 0-d tensor of at least float32, also under autocast and for half-precision input.

        Parameters
        ----------
        embeddings : (N, D) floating, before normalisation.
        labels : (N,) integers.
        indices_tuple : a miner's result, (a, p, a, n) or (a, p, n) index tensors; None for every pair.
        ref_emb, ref_labels : (M, D) and (M,): proxies, a memory or anchor samples. None: pairs within the batch.

        Raises
        ------
        LabError : a shape, dtype, device or number that cannot be used, or a parameter out of range.
        """
        check_normalize(self.normalize)
        self.check_parameters()
        return self.evaluate(check_batch(embeddings, labels, indices_tuple, ref_emb, ref_labels))

    def evaluate(self, batch: Batch) -> Tensor:
        """The loss of a batch that needs no more checks, in full precision also under autocast."""
        device = batch.embeddings.device.type
        full_precision: Any = contextlib.nullcontext()
        if torch.is_autocast_enabled(device):
            full_precision = torch.autocast(device, enabled=False)
        with full_precision:
            result: Tensor = self.compute(batch)
        return result


def normalized_as(loss: nn.Module, vectors: Tensor) -> Tensor:
    """`vectors` (..., D) as `loss` sees them, ours or pytorch-metric-learning's; the Lipschitz way where it does not say."""
    own = getattr(loss, "normalized", None)
    if callable(own):
        result: Tensor = own(vectors)
        return result
    on_sphere = getattr(getattr(loss, "distance", None), "normalize_embeddings", False)
    return normalize(vectors, "l2" if on_sphere else "lipschitz")
