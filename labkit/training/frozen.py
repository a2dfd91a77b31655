"""Training a head alone: the backbone never changes, so each picture goes through it once, and steps take milliseconds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from labkit.datasets import ImageSet, PhotoSet, PhotoSplits, Splits, frozen_features
from labkit.errors import LabError
from labkit.models import Backbone, PhotoNet, build_photo_net, initialise, weights_digest
from labkit.training.embedder import eval_mode
from labkit.training.pictures import Dealer
from labkit.training.world import World

if TYPE_CHECKING:
    from labkit.training.experiment import Experiment


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features in place of pictures, with the names of an `ImageSet`: `images` float32 (n, F, 1, 1), `labels` (n,)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, indices: Tensor) -> FeatureSet:
        """The features and labels at `indices`, in that order."""
        return FeatureSet(self.images[indices], self.labels[indices])


class FrozenNet(nn.Module):
    """The head of a network for photographs: features (n, F, 1, 1) -> embeddings (n, D). Its weights are the head's alone.

    Parameters
    ----------
    net : the network whose head it is.
    """

    def __init__(self, net: PhotoNet) -> None:
        super().__init__()
        self.head, self.embedding_size = net.head, net.embedding_size
        self._backbone = (net.backbone,)  # in a tuple, so that it is no part of what is trained, saved or counted

    def forward(self, features: Tensor) -> Tensor:
        embeddings: Tensor = self.head(features.flatten(1))
        return embeddings

    def whole(self) -> PhotoNet:
        """The network for pictures: the frozen backbone with the head as it is now (shared, not copied)."""
        net = PhotoNet(self._backbone[0], self.embedding_size)
        net.head = self.head
        return net


class FeaturePictures(Dealer):
    """A `Dealer` of features, kept on the device: nothing to standardise, nothing to augment."""

    def __init__(self, splits: Splits, experiment: Experiment, world: World) -> None:
        super().__init__(splits, experiment.data, experiment.seed, world, torch.Tensor.float)
        self._features = splits.train.images.to(self.device)

    def views(self, *parts: Tensor) -> Tensor:
        """The features at the indices of all parts, (n + …, F, 1, 1) on the device; shared as `Dealer` says."""
        return self._features[self.world.share(torch.cat(parts), *map(len, parts)).to(self.device)]

    def originals(self, indices: Tensor) -> Tensor:
        """The features at `indices`, (n, F, 1, 1) on the device."""
        return self._features[indices.to(self.device)]


def build_frozen(experiment: Experiment, generator: torch.Generator) -> FrozenNet:
    """The head of the experiment's network, its weights from `generator`; a backbone of random weights depends on the
    experiment's seed alone, so that features are those of the same backbone."""
    s = experiment.network
    own = torch.Generator().manual_seed(experiment.seed)
    net = build_photo_net(s.name, s.embedding_size, own, weights=s.weights, pooling=s.pooling)
    if not isinstance(net, PhotoNet):
        raise LabError("network.train", "'all' for a network of several levels", "'head'")
    initialise(net.head, generator)
    return FrozenNet(net)


def features_of(backbone: Backbone, pictures: PhotoSet | ImageSet, device: torch.device) -> Tensor:
    """Features (n, F) of the central views by a backbone on `device`, in eval mode; computed once and kept on disk."""
    key = f"{weights_digest(backbone)} {backbone.pooling} {backbone.mean.tolist()} {backbone.std.tolist()}"
    with eval_mode(backbone):
        return frozen_features(lambda images: backbone(images.to(device).float() / 255), pictures, key, progress=True)


def frozen_splits(experiment: Experiment, splits: Splits, device: torch.device) -> Splits:
    """Features of the central views of all parts, computed once and kept on disk.

    Parameters
    ----------
    splits : photographs, or features already, which are returned as they are.

    Raises
    ------
    LabError : pictures in memory, which have no network for photographs.
    """
    if isinstance(splits.train, FeatureSet):
        return splits
    if not isinstance(splits, PhotoSplits):
        raise LabError("network.train", "'all' for pictures that are not photographs on disk", "'head'")
    net = build_frozen(experiment, torch.Generator().manual_seed(0)).whole().to(device)
    found: dict[str, Any] = {}
    photographs: Any = splits.train
    for name in ("train", "held_out", "test", "seen", "gallery"):
        part = getattr(splits, name)
        if part is None:
            continue
        places = torch.searchsorted(photographs.rows, part.rows).clamp(max=len(photographs) - 1)
        if name != "train" and torch.equal(photographs.rows[places], part.rows):  # a part of the training pictures
            found[name] = found["train"].subset(places)
        else:
            found[name] = FeatureSet(features_of(net.backbone, part, device)[:, :, None, None], part.labels)
    return dataclasses.replace(splits, **found)
