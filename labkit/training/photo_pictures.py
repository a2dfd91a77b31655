"""The training pictures of a run where they are photographs on disk: read ahead by threads, the same whoever reads."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labkit.datasets import PhotoSet, Splits
from labkit.datasets.photos import PendingBatch
from labkit.training.pictures import Dealer
from labkit.training.sections import Data
from labkit.training.world import World

AHEAD = 3  # batches that are read while the network is busy


@dataclass(frozen=True)
class _Drawn:
    """A batch that has been drawn, is being read, and has not been trained on; and what a resumed run would draw it from."""

    before: dict[str, Any]
    indices: Tensor
    pending: PendingBatch


class PhotoPictures(Dealer):
    """A `Dealer` of a `PhotoSet`: batches are drawn and read some steps ahead of the network.

    What a batch shows depends on the seed and on how many came before it. How far ahead it was read, by how many
    threads, and what else was looked at meanwhile (a pool) change nothing: chance has a generator for each purpose, and a
    checkpoint holds the state from before the first batch that has not been trained on.

    Parameters
    ----------
    photos : the training pictures, those of `splits`. Others as in `Dealer`.
    """

    purposes = (*Dealer.purposes, "other views")

    def __init__(self, photos: PhotoSet, splits: Splits, settings: Data, seed: int, world: World) -> None:
        super().__init__(splits, settings, seed, world, _in_unit_range)
        self.photos = photos
        self._ahead: deque[_Drawn] = deque()
        self._now: _Drawn | None = None

    def batch(self) -> tuple[Tensor, Tensor]:
        """Indices (n,) of the next batch, and its labels (n,) on the device; its views are being read."""
        while len(self._ahead) <= AHEAD:
            before = super().state_dict()
            indices = next(self.sampler)
            draws = self.photos.view_settings.draw(len(indices), self.generators["views"])
            self._ahead.append(_Drawn(before, indices, self._read(indices, draws)))
        self._now = self._ahead.popleft()
        return self._now.indices, self.labels[self._now.indices].to(self.device)

    def views(self, *parts: Tensor) -> Tensor:
        """Random views at the indices of all parts, (n + …, 3, size, size) floats on the device, as in `Dealer`. Those of
        the batch, where it is the first part, are the ones that were read ahead."""
        found = []
        for place, indices in enumerate(parts):
            if place == 0 and self._now is not None and torch.equal(indices, self._now.indices):
                found.append(self._now.pending.result())
            else:
                draws = self.photos.view_settings.draw(len(indices), self.generators["other views"])
                found.append(self._read(indices, draws).result())
        return self.standardize(torch.cat(found).to(self.device, non_blocking=True))

    def _read(self, indices: Tensor, draws: Tensor) -> PendingBatch:
        """This process's share: chance is drawn for all pictures, on every process."""
        return self.photos.random(self.world.share(indices, len(indices)), self.world.share(draws, len(indices)))

    def originals(self, indices: Tensor) -> Tensor:
        """The central views at `indices` as bytes (n, 3, size, size) on the device."""
        return self.photos.central(indices).to(self.device)

    def state_dict(self) -> dict[str, Any]:
        """What the next batches, views and pools depend on; batches that were only read ahead are drawn again."""
        state = super().state_dict()
        if self._ahead:
            before = self._ahead[0].before
            state["sampler"] = before["sampler"]
            for name in ("batches", "views"):
                state["generators"][name] = before["generators"][name]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self._ahead.clear()
        self._now = None
        super().load_state_dict(state)


def _in_unit_range(images: Tensor) -> Tensor:
    """Bytes -> floats in 0 ... 1; networks for photographs subtract the mean that they were trained with themselves."""
    return images.float() / 255
