"""From pictures to embeddings: the network with its device, its precision and its normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from labkit.datasets.photos import LazyImages
from labkit.training.world import World

CHUNK = 500  # pictures embedded at once outside training
PIXELS = CHUNK * 64 * 64  # and not more than so many pixels


class Embedder:
    """Runs a network on pictures.

    Parameters
    ----------
    model : pictures (n, c, h, w) -> embeddings (n, D).
    standardize : bytes to floats. normalize : the loss's normalisation.
    world : the processes that share the work, and the device. dtype : the precision; embeddings come out in float32.
    """

    def __init__(
        self,
        model: nn.Module,
        standardize: Callable[[Tensor], Tensor],
        normalize: Callable[[Tensor], Tensor],
        world: World,
        dtype: torch.dtype,
    ) -> None:
        self.model: nn.Module = model.to(world.device).to(memory_format=torch.channels_last)
        self.standardize, self.normalize = standardize, normalize
        self.world, self.device, self.dtype = world, world.device, dtype

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
        if not len(pictures):  # a process whose share is nothing; networks need not take that
            return self.evaluate(pictures.new_zeros(1, *pictures.shape[1:]))[:0]
        with eval_mode(self.model):
            return torch.cat([self.forward(part) for part in torch.split(pictures, chunk_of(pictures))])

    @torch.no_grad()
    def embed(self, images: Tensor | LazyImages) -> Tensor:
        """Bytes (n, c, h, w), in memory or on disk -> normalised embeddings (n, D) on the CPU, by the live weights in eval
        mode. With several processes each does its share, and all get all."""
        chunk, mine = chunk_of(images), self.world.part(len(images))
        parts = [
            self.evaluate(self.standardize(images[start : min(start + chunk, mine.stop)].to(self.device)))
            for start in range(mine.start, max(mine.stop, mine.start + 1), chunk)
        ]
        return self.normalize(self.world.gather(torch.cat(parts), len(images))[0]).cpu()


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
