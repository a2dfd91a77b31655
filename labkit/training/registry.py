"""Names that an experiment uses, and what they stand for."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from labkit.ccp import AlternatingProjections
from labkit.datasets import Splits, load_digits
from labkit.errors import LabError
from labkit.geometry import check_normalize
from labkit.losses import (
    BaseProxyLoss,
    ContrastiveLoss,
    CosineContrastiveLoss,
    CrossBatchMemory,
    MultiLevelLoss,
    MultiSimilarityLoss,
    PairLoss,
    ProxyAnchorLoss,
    ProxyGMLLoss,
    ProxyNCALoss,
    RankedListLoss,
    SoftTripleLoss,
    SparseCentersRegularizer,
    TripletLoss,
)
from labkit.losses.base import normalized_as
from labkit.models import MultiLevelHead, ResNet20V2, SmallNet, build_seeded
from labkit.threads import give_way
from labkit.training.photographs import build_photo_network, load_photos
from labkit.validation import check_choice, describe

if TYPE_CHECKING:
    from labkit.training.experiment import Experiment

LOSSES: dict[str, type[PairLoss | BaseProxyLoss]] = {
    "c1": CosineContrastiveLoss,
    "c2": ContrastiveLoss,
    "triplet": TripletLoss,
    "ms": MultiSimilarityLoss,
    "rll": RankedListLoss,
    "soft_triple": SoftTripleLoss,
    "proxy_nca": ProxyNCALoss,
    "proxy_anchor": ProxyAnchorLoss,
    "proxy_gml": ProxyGMLLoss,
}
NETWORKS: dict[str, type[ResNet20V2 | SmallNet]] = {"resnet20v2": ResNet20V2, "small": SmallNet}
# For each network the modules that are its low, middle and high features, with their channels.
LEVELS: dict[str, dict[str, tuple[str, int]]] = {
    "resnet20v2": {"low": ("stages.0", 16), "middle": ("stages.1", 32), "high": ("stages.2", 64)},
    "small": {"low": ("trunk.5", 32), "middle": ("trunk.8", 64), "high": ("trunk.11", 64)},
}
# What a loss that owns proxies gets from other parts of the experiment, or what no JSON can hold.
_NOT_OPTIONS = {"num_classes", "embedding_size", "centers_per_class", "proxies_per_class"}
_NOT_OPTIONS |= {"weight_regularizer", "weight_init_func", "options"}
_MANY = 1000  # classes of the trial loss that options are checked on


def owns_its_proxies(name: str) -> bool:
    """Whether the loss of that name has proxies of its own."""
    return issubclass(LOSSES[name], BaseProxyLoss)


def loss_options(name: str) -> list[str]:
    """Names of the options that the loss takes."""
    known = [key for key in inspect.signature(LOSSES[name]).parameters if key not in _NOT_OPTIONS]
    return [*known, "normalize"] if owns_its_proxies(name) else known


def check_loss_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown loss, an option that its constructor does not take, or a value that it refuses."""
    check_choice("loss.name", name, LOSSES)
    for key, value in options.items():
        check_choice("setting", f"loss.options.{key}", [f"loss.options.{known}" for known in loss_options(name)])
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise LabError(f"loss.options.{key}", "a number, a word, true, false or null", describe(value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, when the loss of the run is built
        loss = _one_loss(name, options, _MANY, 1, 1, None)
    check_normalize(loss.normalize)
    loss.check_parameters()
    if isinstance(loss, PairLoss):
        check_choice("loss.options.anchor", loss.anchor, ("proxy", "sample"))


def check_combination(experiment: Experiment) -> None:
    """Refuse sections that are each right but do not go together."""
    name, method = experiment.loss.name, experiment.method
    if owns_its_proxies(name):
        if method in ("samples", "pairs"):
            hint = '"proxy" trains it as published, "ccp" starts its proxies anew from samples.'
            raise LabError("method", f'"proxy" or "ccp", since {name} owns its proxies', repr(method), hint)
        if experiment.projections.pair_weight > 0:
            raise LabError("projections.pair_weight", f"0, since {name} has no pairs", experiment.projections.pair_weight)
        if experiment.network.levels.count("+"):
            raise LabError("loss.name", "a pair loss, with several levels", repr(name))
    elif experiment.projections.start == "random":
        raise LabError("projections.start", f'"samples", since {name} owns no proxies', '"random"')
    if experiment.network.is_for_photos and not experiment.data.is_photos:
        raise LabError("network.name", '"resnet20v2" or "small" for digits', repr(experiment.network.name))
    if experiment.memory.size and method != "pairs":
        raise LabError("memory.size", 'above 0 with method="pairs" only', f"{experiment.memory.size} with {method!r}")


def build_loss(
    experiment: Experiment, classes: int = _MANY, generator: torch.Generator | None = None
) -> PairLoss | BaseProxyLoss | MultiLevelLoss | CrossBatchMemory:
    """The experiment's loss; proxies that it owns, for `classes` classes, are drawn from `generator`.

    Raises
    ------
    LabError : options that do not go with so many classes.
    """
    size, levels = experiment.network.embedding_size, max(1, len(_levels(experiment)))
    arguments = experiment.loss.options, classes, size, experiment.projections.proxies_per_class, generator
    losses = [_one_loss(experiment.loss.name, *arguments) for _ in range(levels)]
    for each in losses:
        each.check_parameters()  # what depends on the number of classes, before the first step
    loss = losses[0] if levels == 1 else MultiLevelLoss(losses)
    if experiment.memory.size:
        return CrossBatchMemory(loss, levels * size, experiment.memory.size, experiment.memory.warmup_steps)
    return loss


def _one_loss(
    name: str, options: Mapping[str, Any], classes: int, size: int, proxies: int, generator: torch.Generator | None
) -> PairLoss | BaseProxyLoss:
    kind: Callable[..., PairLoss | BaseProxyLoss] = LOSSES[name]
    if not owns_its_proxies(name):
        return kind(**options)
    if options.get("weight_reg_weight", 0) and proxies > 1:
        options = {**options, "weight_regularizer": SparseCentersRegularizer(classes, proxies)}
    # By name: another argument may stand third, as ProxyAnchor's margin does.
    count = "centers_per_class" if "centers_per_class" in inspect.signature(kind).parameters else "proxies_per_class"
    return kind(num_classes=classes, embedding_size=size, generator=generator, **{count: proxies}, **options)


def inner_loss(loss: nn.Module) -> Any:
    """The loss that a memory holds, or the loss itself."""
    return loss.loss if isinstance(loss, CrossBatchMemory) else loss


def normalization(loss: nn.Module) -> Callable[[Tensor], Tensor]:
    """How a loss normalises vectors before it compares them; the Lipschitz way where it does not say."""
    return functools.partial(normalized_as, inner_loss(loss))


def load_splits(experiment: Experiment) -> Splits:
    """The pictures that the experiment names."""
    settings = experiment.data
    if settings.is_photos:
        return load_photos(experiment)
    splits = load_digits(settings.source)
    return splits.disjoint(settings.train_classes) if settings.train_classes else splits


def build_network(experiment: Experiment, in_channels: int, generator: torch.Generator) -> nn.Module:
    """The experiment's network on the CPU, its weights drawn from `generator` alone."""
    give_way()
    settings, levels = experiment.network, _levels(experiment)
    if settings.is_for_photos:
        return build_photo_network(experiment, generator)
    kind = NETWORKS[settings.name]

    def build() -> nn.Module:
        network = kind(settings.embedding_size, in_channels)
        if not levels:
            return network
        taps = dict(LEVELS[settings.name][level] for level in levels)
        network.head = nn.Identity()  # type: ignore[assignment]
        return MultiLevelHead(network, taps, settings.embedding_size)

    return build_seeded(build, generator)


def _levels(experiment: Experiment) -> list[str]:
    return [level for level in experiment.network.levels.split("+") if level]


def build_projections(
    experiment: Experiment, loss: nn.Module, classes: int, device: torch.device
) -> AlternatingProjections | None:
    """Algorithm 1 around the loss; a single problem that never ends for "proxy"; None for the batch's own pairs."""
    give_way()
    if experiment.method == "pairs":
        return None
    settings = experiment.projections
    return AlternatingProjections(
        loss,
        classes,
        experiment.network.embedding_size * max(1, len(_levels(experiment))),
        proxies_per_class=settings.proxies_per_class,
        pool_size=settings.pool_size,
        projection_weight=settings.projection_weight,
        patience=None if experiment.method == "proxy" else settings.patience,
        pair_weight=settings.pair_weight,
        selection=settings.selection,
        restore_best=settings.restore_best,
        grace=settings.grace,
    ).to(device)
