"""From pictures to embeddings: the network with its device, its precision and its normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

CHUNK = 500  # pictures embedded at once outside training


class Embedder:
    """Runs a network on pictures.

    Parameters
    ----------
    model : pictures (n, c, h, w) -> embeddings (n, D).
    standardize : bytes to floats. normalize : the loss's normalisation.
    device, dtype : where, and in which precision, it computes; embeddings come out in float32.
    """

    def __init__(
        self,
        model: nn.Module,
        standardize: Callable[[Tensor], Tensor],
        normalize: Callable[[Tensor], Tensor],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.model: nn.Module = model.to(device).to(memory_format=torch.channels_last)
        self.standardize, self.normalize = standardize, normalize
        self.device, self.dtype = device, dtype

    def _autocast(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device.type, self.dtype)

    def forward(self, pictures: Tensor) -> Tensor:
        """Standardised pictures -> embeddings (n, D) in float32, not normalised, with their gradient."""
        with self._autocast():
            embeddings: Tensor = self.model(pictures.contiguous(memory_format=torch.channels_last))
        return embeddings.float()

    @torch.no_grad()
    def evaluate(self, pictures: Tensor) -> Tensor:
        """Standardised pictures -> embeddings, not normalised, by the live weights in eval mode."""
        with _eval_mode(self.model):
            return torch.cat([self.forward(part) for part in torch.split(pictures, CHUNK)])

    @torch.no_grad()
    def embed(self, images: Tensor) -> Tensor:
        """Bytes (n, c, h, w) -> normalised embeddings (n, D) on the CPU, by the live weights in eval mode."""
        parts = [self.evaluate(self.standardize(part.to(self.device))) for part in torch.split(images, CHUNK)]
        return self.normalize(torch.cat(parts)).cpu()


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode inside, the former mode after."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
