"""An experiment on photographs: its pictures, its network, and a head from principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from labkit.datasets import PhotoSplits, Splits, Views, load_images, stratified_split
from labkit.errors import LabError
from labkit.models import MultiLevelHead, PhotoNet, build_photo_net, head_from_pca
from labkit.training.frozen import FrozenNet, build_frozen, features_of

if TYPE_CHECKING:
    from labkit.training.experiment import Experiment

PCA_PICTURES = 5000  # components of more pictures than that differ in nothing that matters


def load_photos(experiment: Experiment) -> PhotoSplits:
    """The photographs that the experiment names, cut as its section `photos` says; decoded on the first use."""
    s = experiment.photos
    views = Views(s.size, s.side or None, s.square, s.crop, s.smallest, s.flip)
    return load_images(
        experiment.data.source, protocol=s.protocol, fold=s.fold, folds=s.folds, train_folds=s.train_folds or None,
        views=views, unusable=s.unusable, not_colour=s.not_colour, keep_pixels=s.keep_pixels,
    )  # fmt: skip


def build_photo_network(experiment: Experiment, generator: torch.Generator) -> PhotoNet | MultiLevelHead | FrozenNet:
    """The experiment's network for photographs on the CPU; random weights come from `generator` alone."""
    s = experiment.network
    if s.train == "head":
        return build_frozen(experiment, generator)
    return build_photo_net(
        s.name, s.embedding_size, generator, weights=s.weights, pooling=s.pooling, freeze_batch_norm=s.freeze_batch_norm,
        levels=[level for level in s.levels.split("+") if level],
    )  # fmt: skip


def start_from_pca(model: nn.Module, splits: Splits, device: torch.device) -> float:
    """Make the head the projection on the principal components of the training pictures' features, in place.

    The features of at most 5,000 pictures, evenly from all classes, are computed once and kept.

    Returns
    -------
    float : the share of the variance that the head keeps.

    Raises
    ------
    LabError : a network without one linear head over a backbone, or fewer pictures than dimensions.
    """
    if not isinstance(model, PhotoNet | FrozenNet):
        raise LabError("network.head", "'random' for a network of several levels or for digits", "'pca'")
    pictures, size = min(len(splits.train), PCA_PICTURES), model.head.out_features
    if pictures <= size:
        expected = f"fewer dimensions than the {pictures:,} training pictures, whose principal components network.head=pca takes"
        raise LabError("network.embedding_size", expected, size, f"Set it to {pictures - 1:,} at most, or network.head=random.")
    if isinstance(model, FrozenNet):
        return head_from_pca(model.head, splits.train.images.flatten(1))
    train = splits.train
    part = train if len(train) <= PCA_PICTURES else train.subset(stratified_split(train.labels, PCA_PICTURES)[1])
    return head_from_pca(model.head, features_of(model.backbone, part, device))
