"""The sections of an experiment: which pictures, network, loss, memory, projections and optimiser, each validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labkit.errors import LabError
from labkit.validation import check_choice, check_number

NETWORKS = ("resnet20v2", "small")
SOURCES = ("auto", "mnist", "mnist-5k", "digits-8x8")
AUGMENTATIONS = ("none", "shift", "affine")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
SCHEDULES = ("constant", "cosine", "step")
OPTIMIZERS = ("adam", "sgd")
LEVELS = ("", "low", "middle", "high", "low+middle+high")


@dataclass(frozen=True)
class Data:
    """Which pictures, and how a batch is drawn from them.

    With `train_classes` = C > 0 the network is trained on the first C classes and judged on all others, which it has never
    seen; with 0 it is trained and judged on the same classes.
    """

    source: str = "auto"
    train_classes: int = 0
    augmentation: str = "affine"
    classes_per_batch: int = 10
    samples_per_class: int = 12

    def check(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        check_number("data.train_classes", self.train_classes, low=0, whole=True)
        check_choice("data.augmentation", self.augmentation, AUGMENTATIONS)
        check_number("data.classes_per_batch", self.classes_per_batch, low=1, whole=True)
        check_number("data.samples_per_class", self.samples_per_class, low=1, whole=True)


@dataclass(frozen=True)
class Network:
    """Which network, how wide its embedding, and in which precision it computes.

    `levels` puts an embedding of `embedding_size` on features from a third, two thirds and the end of the network
    ("low", "middle", "high"), or one on each, side by side, every one with a loss of its own ("low+middle+high"); ""
    is the network's own last layer.
    """

    name: str = "resnet20v2"
    embedding_size: int = 2
    levels: str = ""
    precision: str = "auto"

    def check(self) -> None:
        check_choice("network.name", self.name, NETWORKS)
        check_number("network.embedding_size", self.embedding_size, low=1, high=100_000, whole=True)
        check_choice("network.levels", self.levels, LEVELS)
        check_choice("network.precision", self.precision, PRECISIONS)


@dataclass(frozen=True)
class Loss:
    """Which loss, with the settings that differ from its defaults. A loss that owns proxies takes their number from
    `projections.proxies_per_class`; SoftTriple's `weight_reg_weight` > 0 adds the sparse-centres regulariser."""

    name: str = "c2"
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def check(self) -> None:
        from labkit.training.registry import check_loss_options

        check_loss_options(self.name, self.options)


@dataclass(frozen=True)
class Memory:
    """Cross-batch memory of the last `size` embeddings, used after `warmup_steps`; 0 is none. For method "pairs"."""

    size: int = 0
    warmup_steps: int = 0

    def check(self) -> None:
        check_number("memory.size", self.size, low=0, whole=True)
        check_number("memory.warmup_steps", self.warmup_steps, low=0, whole=True)


@dataclass(frozen=True)
class Projections:
    """The settings of CCP; `labkit.ccp.AlternatingProjections` says what each does.

    `start` says where the first proxies come from: "samples" that K-Center chose, or "random", as the loss that owns them
    draws them.
    """

    proxies_per_class: int = 4
    start: str = "samples"
    pool_size: int = 16
    projection_weight: float = 2e-4
    patience: int = 3
    pair_weight: float = 0.0
    selection: str = "k_center"
    restore_best: bool = False
    grace: int = 0

    def check(self) -> None:
        check_number("projections.proxies_per_class", self.proxies_per_class, low=1, whole=True)
        check_choice("projections.start", self.start, ("samples", "random"))
        check_number("projections.pool_size", self.pool_size, low=1, high=100_000, whole=True)
        if self.pool_size < self.proxies_per_class:
            raise LabError(
                "projections.pool_size", f"at least proxies_per_class = {self.proxies_per_class}", self.pool_size
            )
        check_number("projections.projection_weight", self.projection_weight, low=0)
        check_number("projections.patience", self.patience, low=1, whole=True)
        check_number("projections.pair_weight", self.pair_weight, low=0)
        check_number("projections.grace", self.grace, low=0, whole=True)
        check_choice("projections.selection", self.selection, ("k_center", "random"))


@dataclass(frozen=True)
class Optimizer:
    """Adam or SGD with a warm-up and a schedule, and a learning rate for each group of parameters.

    The backbone learns at `learning_rate`, the new last layer at `head_multiplier` times that, proxies at
    `proxy_multiplier` times that and without decay. For the first `head_only_steps` the backbone's weights stay. The rate
    rises over `warmup_steps`; then "cosine" falls from `hold_fraction` of all steps to `final_fraction` of the rate at
    the end, "step" multiplies it by `step_factor` every `step_size` steps. `momentum` is SGD's, beta1 and beta2 Adam's.
    """

    name: str = "adam"
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    momentum: float = 0.9
    head_multiplier: float = 1.0
    proxy_multiplier: float = 1.0
    head_only_steps: int = 0
    schedule: str = "cosine"
    hold_fraction: float = 0.0
    warmup_steps: int = 100
    final_fraction: float = 0.02
    step_size: int = 1000
    step_factor: float = 0.1

    def check(self) -> None:
        check_choice("optimizer.name", self.name, OPTIMIZERS)
        check_number("optimizer.learning_rate", self.learning_rate, low=0, high=1e30, open_low=True)
        check_number("optimizer.weight_decay", self.weight_decay, low=0)
        check_number("optimizer.beta1", self.beta1, low=0, high=0.9999)
        check_number("optimizer.beta2", self.beta2, low=0, high=0.999999)
        check_number("optimizer.momentum", self.momentum, low=0, high=0.9999)
        check_number("optimizer.head_multiplier", self.head_multiplier, low=0)
        check_number("optimizer.proxy_multiplier", self.proxy_multiplier, low=0)
        check_number("optimizer.head_only_steps", self.head_only_steps, low=0, whole=True)
        check_choice("optimizer.schedule", self.schedule, SCHEDULES)
        check_number("optimizer.hold_fraction", self.hold_fraction, low=0, high=0.99)
        check_number("optimizer.warmup_steps", self.warmup_steps, low=0, whole=True)
        check_number("optimizer.final_fraction", self.final_fraction, low=0, high=1)
        check_number("optimizer.step_size", self.step_size, low=1, whole=True)
        check_number("optimizer.step_factor", self.step_factor, low=0, high=1)
