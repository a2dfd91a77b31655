"""The training pictures of a run: batches, augmented views, and the pool for new proxies, each from its own generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.datasets import MPerClassSampler, Splits, draw_pool
from labkit.datasets.transforms import Standardize, augment
from labkit.errors import LabError
from labkit.training.sections import Data
from labkit.training.world import World

PURPOSES = ("weights", "batches", "views", "pool")


class Pictures:
    """Deals the training pictures of a run.

    Parameters
    ----------
    splits : the data set. settings : the experiment's data section. seed : the experiment's.
    world : the processes that train together; the pictures are kept on its device.
    """

    def __init__(self, splits: Splits, settings: Data, seed: int, world: World) -> None:
        classes = splits.train_classes
        if settings.classes_per_batch > classes:
            raise LabError("data.classes_per_batch", f"at most the {classes} classes", settings.classes_per_batch)
        self.settings, self.device, self.world = settings, world.device, world
        self.generators = {name: torch.Generator().manual_seed(seed * len(PURPOSES) + i) for i, name in enumerate(PURPOSES)}
        self.labels = splits.train.labels
        self.sampler = MPerClassSampler(
            self.labels, settings.classes_per_batch, settings.samples_per_class, self.generators["batches"]
        )
        self.standardize: Callable[[Tensor], Tensor] = Standardize(splits.train.images)
        self._images = splits.train.images.to(self.device)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Indices (n,) of the next batch, and its labels (n,) on the device."""
        indices = next(self.sampler)
        return indices, self.labels[indices].to(self.device)

    def views(self, *parts: Tensor) -> Tensor:
        """The pictures at the indices of all parts (n,), (m,), …, standardised and augmented, (n + m + …, c, h, w) floats on
        the device; with several processes those of this one's share of each part. The first part may be the batch."""
        pictures = self.standardize(self._images[torch.cat(parts).to(self.device)])
        viewed = augment(pictures, self.settings.augmentation, self.generators["views"])
        return self.world.share(viewed, *map(len, parts))

    def originals(self, indices: Tensor) -> Tensor:
        """The pictures at `indices` as bytes (n, c, h, w)."""
        return self._images[indices.to(self.device)]

    def pool(self, per_class: int) -> Tensor:
        """Indices (C, b) of samples drawn from each class."""
        return draw_pool(self.labels, per_class, self.generators["pool"])

    def state_dict(self) -> dict[str, Any]:
        """What the next batches, views and pools depend on."""
        return {
            "sampler": self.sampler.state_dict(),
            "generators": {name: generator.get_state() for name, generator in self.generators.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.sampler.load_state_dict(state["sampler"])
        for name, generator in self.generators.items():
            generator.set_state(state["generators"][name])
