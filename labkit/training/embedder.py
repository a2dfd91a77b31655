"""From pictures to embeddings: the network with its device, its precision and its normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from labkit.datasets.photos import LazyImages

CHUNK = 500  # pictures embedded at once outside training
PIXELS = CHUNK * 64 * 64  # and not more than so many pixels


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
        with eval_mode(self.model):
            return torch.cat([self.forward(part) for part in torch.split(pictures, chunk_of(pictures))])

    @torch.no_grad()
    def embed(self, images: Tensor | LazyImages) -> Tensor:
        """Bytes (n, c, h, w), in memory or on disk -> normalised embeddings (n, D) on the CPU, by the live weights in eval
        mode."""
        chunk = chunk_of(images)
        parts = [
            self.evaluate(self.standardize(images[start : start + chunk].to(self.device)))
            for start in range(0, len(images), chunk)
        ]
        return self.normalize(torch.cat(parts)).cpu()


def chunk_of(images: Tensor | LazyImages) -> int:
    """How many pictures (n, c, h, w) are embedded at once."""
    return max(1, min(CHUNK, PIXELS // (images.shape[2] * images.shape[3])))


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode inside, the former mode after."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
