"""Names that an experiment uses, and what they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from labkit.ccp import AlternatingProjections
from labkit.errors import LabError
from labkit.geometry import check_normalize
from labkit.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss, PairLoss, TripletLoss
from labkit.models import ResNet20V2, SmallNet, build_seeded
from labkit.training.experiment import Experiment
from labkit.validation import check_choice, describe

LOSSES: dict[str, Callable[..., PairLoss]] = {
    "c1": CosineContrastiveLoss,
    "c2": ContrastiveLoss,
    "triplet": TripletLoss,
    "ms": MultiSimilarityLoss,
}
NETWORKS: dict[str, type[ResNet20V2 | SmallNet]] = {"resnet20v2": ResNet20V2, "small": SmallNet}


def check_loss_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown loss, or an option that its constructor does not take."""
    check_choice("loss.name", name, LOSSES)
    for key, value in options.items():
        check_choice("setting", f"loss.options.{key}", [f"loss.options.{known}" for known in loss_options(name)])
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise LabError(f"loss.options.{key}", "a number, a word, true, false or null", describe(value))
    loss = LOSSES[name](**options)
    loss.check_parameters()
    check_normalize(loss.normalize)
    check_choice("loss.options.anchor", loss.anchor, ("proxy", "sample"))


def loss_options(name: str) -> list[str]:
    """Names of the keyword arguments that the loss takes."""
    return list(inspect.signature(LOSSES[name]).parameters)


def build_loss(experiment: Experiment) -> nn.Module:
    """The experiment's pair loss."""
    return LOSSES[experiment.loss.name](**experiment.loss.options)


def build_network(experiment: Experiment, in_channels: int, generator: torch.Generator) -> nn.Module:
    """The experiment's network on the CPU, its weights drawn from `generator` alone."""
    kind = NETWORKS[experiment.network.name]
    return build_seeded(lambda: kind(experiment.network.embedding_size, in_channels), generator)


def build_projections(
    experiment: Experiment, loss: nn.Module, classes: int, device: torch.device
) -> AlternatingProjections | None:
    """Algorithm 1 around the loss; a single problem that never ends for "proxy"; None for the batch's own pairs."""
    if experiment.method == "pairs":
        return None
    settings = experiment.projections
    return AlternatingProjections(
        loss,
        classes,
        experiment.network.embedding_size,
        proxies_per_class=settings.proxies_per_class,
        pool_size=settings.pool_size,
        projection_weight=settings.projection_weight,
        patience=None if experiment.method == "proxy" else settings.patience,
        pair_weight=settings.pair_weight,
        selection=settings.selection,
        restore_best=settings.restore_best,
        grace=settings.grace,
    ).to(device)
