"""The training pictures of a run: batches, augmented views, and the pool for new proxies, each from its own generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.datasets import MPerClassSampler, Splits, draw_pool
from labkit.datasets.transforms import Standardize, augment
from labkit.errors import LabError
from labkit.training.sections import Data
from labkit.training.world import World


class Dealer(ABC):
    """Deals the training pictures of a run, wherever they lie.

    Parameters
    ----------
    splits : the data set. settings : the experiment's data section. seed : the experiment's.
    world : the processes that train together; pictures are dealt on its device.
    standardize : bytes (n, c, h, w) -> floats, as the network takes them.

    Raises
    ------
    LabError : more classes in a batch than there are.
    """

    purposes: tuple[str, ...] = ("weights", "batches", "views", "pool")  # of chance, each with a generator of its own

    def __init__(
        self, splits: Splits, settings: Data, seed: int, world: World, standardize: Callable[[Tensor], Tensor]
    ) -> None:
        classes, purposes = splits.train_classes, self.purposes
        if settings.classes_per_batch > classes:
            raise LabError("data.classes_per_batch", f"at most the {classes} classes", settings.classes_per_batch)
        self.settings, self.device, self.world, self.standardize = settings, world.device, world, standardize
        self.generators = {name: torch.Generator().manual_seed(seed * len(purposes) + i) for i, name in enumerate(purposes)}
        self.labels = splits.train.labels
        self.sampler = MPerClassSampler(
            self.labels, settings.classes_per_batch, settings.samples_per_class, self.generators["batches"]
        )

    def batch(self) -> tuple[Tensor, Tensor]:
        """Indices (n,) of the next batch, and its labels (n,) on the device."""
        indices = next(self.sampler)
        return indices, self.labels[indices].to(self.device)

    @abstractmethod
    def views(self, *parts: Tensor) -> Tensor:
        """The pictures at the indices of all parts (n,), (m,), …, standardised and augmented, (n + m + …, c, h, w) floats on
        the device; with several processes those of this one's share of each part. The first part may be the batch."""

    @abstractmethod
    def originals(self, indices: Tensor) -> Tensor:
        """The pictures at `indices` as bytes (n, c, h, w) on the device."""

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


class Pictures(Dealer):
    """A `Dealer` of pictures that are kept on the device; all parameters but `standardize`, which is theirs."""

    def __init__(self, splits: Splits, settings: Data, seed: int, world: World) -> None:
        super().__init__(splits, settings, seed, world, Standardize(splits.train.images))
        self._images = splits.train.images.to(self.device)

    def views(self, *parts: Tensor) -> Tensor:
        """As `Dealer` says, moved about as the settings say."""
        pictures = self.standardize(self._images[torch.cat(parts).to(self.device)])
        viewed = augment(pictures, self.settings.augmentation, self.generators["views"])
        return self.world.share(viewed, *map(len, parts))

    def originals(self, indices: Tensor) -> Tensor:
        """The pictures at `indices` as bytes (n, c, h, w) on the device."""
        return self._images[indices.to(self.device)]
