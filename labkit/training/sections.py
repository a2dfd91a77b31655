"""The sections of an experiment: which pictures, network, loss, memory, projections and optimiser, each validated."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from labkit.datasets.protocols import NOT_COLOUR, PROTOCOLS, UNUSABLE
from labkit.errors import LabError
from labkit.models.backbones import POOLINGS
from labkit.models.trunks import PHOTO_NETWORKS
from labkit.validation import check_choice, check_number

NETWORKS = ("resnet20v2", "small")
SOURCES = ("auto", "mnist", "mnist-5k", "digits-8x8")
PHOTO_SOURCES = ("cub", "cars", "sop", "in-shop")
AUGMENTATIONS = ("none", "shift", "affine")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
SCHEDULES = ("constant", "cosine", "step")
OPTIMIZERS = ("adam", "sgd")
LARGEST_BATCH = 100_000
LEVELS = ("", "low", "middle", "high", "low+middle+high")


@dataclass(frozen=True)
class Data:
    """Which pictures, and how a batch is drawn from them.

    `source` is one of the digits, one of the four image data sets, or the path of a folder of pictures or a CSV file (with
    a / in it, as in ./birds, or ending in .csv). With `train_classes` = C > 0 the network is trained on the first C classes
    and judged on all others, which it has never seen; with 0 it is trained and judged on the same classes.
    """

    source: str = "auto"
    train_classes: int = 0
    augmentation: str = "affine"
    classes_per_batch: int = 10
    samples_per_class: int = 12

    @property
    def is_photos(self) -> bool:
        """Whether the source is photographs on disk."""
        return self.source not in SOURCES

    def check(self) -> None:
        if not {"/", "\\"} & set(self.source) and not self.source.lower().endswith(".csv"):
            check_choice("data.source", self.source, (*SOURCES, *PHOTO_SOURCES, "a path such as ./pictures"))
        check_number("data.train_classes", self.train_classes, low=0, whole=True)
        check_choice("data.augmentation", self.augmentation, AUGMENTATIONS)
        check_number("data.classes_per_batch", self.classes_per_batch, low=1, whole=True)
        check_number("data.samples_per_class", self.samples_per_class, low=1, whole=True)
        if self.classes_per_batch * self.samples_per_class > LARGEST_BATCH:
            expected = f"a batch, classes_per_batch · samples_per_class, of at most {LARGEST_BATCH:,} pictures"
            raise LabError("data.samples_per_class", expected, f"{self.classes_per_batch} · {self.samples_per_class}")
        if self.is_photos and self.train_classes:
            hint = "Photographs are cut by classes as the section photos says."
            raise LabError("data.train_classes", "0 for photographs", self.train_classes, hint)


@dataclass(frozen=True)
class Photos:
    """How photographs are cut by classes and cropped; `labkit.datasets.load_images` and `Views` say what each does.

    0 stands for the default of `train_folds` (all but the validating one) and `side` (256 / 227 of `size`).
    """

    protocol: str = "mlrc"
    fold: int = 0
    folds: int = 4
    train_folds: int = 0
    size: int = 227
    side: int = 0
    square: bool = False
    crop: str = "scaled"
    smallest: float = 40 / 256
    flip: float = 0.5
    unusable: str = "refuse"
    not_colour: str = "convert"
    keep_pixels: bool = True

    def check(self) -> None:
        check_choice("photos.protocol", self.protocol, PROTOCOLS)
        check_number("photos.folds", self.folds, low=2, whole=True)
        check_number("photos.fold", self.fold, low=0, high=self.folds - 1, whole=True)
        check_number("photos.train_folds", self.train_folds, low=0, high=self.folds - 1, whole=True)
        check_number("photos.size", self.size, low=8, high=4096, whole=True)
        if self.side:
            check_number("photos.side", self.side, low=self.size, high=8192, whole=True)
        check_choice("photos.crop", self.crop, ("scaled", "plain"))
        check_number("photos.smallest", self.smallest, low=0, high=1, open_low=True)
        check_number("photos.flip", self.flip, low=0, high=1)
        check_choice("photos.unusable", self.unusable, UNUSABLE)
        check_choice("photos.not_colour", self.not_colour, NOT_COLOUR)


@dataclass(frozen=True)
class Network:
    """Which network, how wide its embedding, and in which precision it computes.

    `levels` puts an embedding of `embedding_size` on features from a third, two thirds and the end of the network
    ("low", "middle", "high"), or one on each, side by side, every one with a loss of its own ("low+middle+high"); ""
    is the network's own last layer.

    Networks for photographs take more: `weights` is "none", "package", "imagenet" (a download) or a file; `pooling` is
    "average" or "average+max"; `freeze_batch_norm` keeps the statistics that came with the weights; `head` begins
    "random" or as the projection on the training features' principal components ("pca"); `train` is "all", or "head" for
    a backbone that stays as it is (no random views then: each picture goes through it once).
    `labkit.models.build_photo_net` says more.
    """

    name: str = "resnet20v2"
    embedding_size: int = 2
    levels: str = ""
    precision: str = "auto"
    weights: str = "none"
    pooling: str = "average"
    freeze_batch_norm: bool = True
    head: str = "random"
    train: str = "all"

    @property
    def is_for_photos(self) -> bool:
        """Whether it is a network for photographs."""
        return self.name not in NETWORKS

    def check(self) -> None:
        if not self.name.startswith("timm:"):
            check_choice("network.name", self.name, (*NETWORKS, *PHOTO_NETWORKS, "timm:<name>"))
        check_choice("network.pooling", self.pooling, POOLINGS)
        check_choice("network.head", self.head, ("random", "pca"))
        check_choice("network.train", self.train, ("all", "head"))
        own = (self.weights, self.pooling, self.head, self.train)
        if not self.is_for_photos and own != ("none", "average", "random", "all"):
            raise LabError("network", f"weights, pooling, head and train as they are by default, for {self.name}", "others")
        if self.train == "head" and self.levels:
            raise LabError("network.train", "'all' for a network of several levels", "'head'")
        check_number("network.embedding_size", self.embedding_size, low=1, high=100_000, whole=True)
        check_choice("network.levels", self.levels, LEVELS)
        check_choice("network.precision", self.precision, PRECISIONS)


@dataclass(frozen=True)
class Loss:
    """Which loss, with the settings that differ from its defaults. A loss that owns proxies takes their number from
    `projections.proxies_per_class`; SoftTriple's `weight_reg_weight` > 0 adds the sparse-centres regulariser."""

    name: str = "c2"
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if isinstance(self.options, dict):  # its own: who changes it changes neither a preset nor what it was made of
            object.__setattr__(self, "options", copy.deepcopy(self.options))

    def check(self) -> None:
        from labkit.training.registry import check_loss_options

        check_loss_options(self.name, self.options)


@dataclass(frozen=True)
class Memory:
    """Cross-batch memory of the last `size` embeddings, used after `warmup_steps`; 0 is none. For method "pairs"."""

    size: int = 0
    warmup_steps: int = 0

    def check(self) -> None:
        check_number("memory.size", self.size, low=0, high=1_000_000, whole=True)
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
        check_number("optimizer.weight_decay", self.weight_decay, low=0, high=1e30)
        check_number("optimizer.beta1", self.beta1, low=0, high=0.9999)
        check_number("optimizer.beta2", self.beta2, low=0, high=0.999999)
        check_number("optimizer.momentum", self.momentum, low=0, high=0.9999)
        most = min(1e30, 1e30 / self.learning_rate)  # a rate of more would not fit into the weights' 32 bits
        check_number("optimizer.head_multiplier", self.head_multiplier, low=0, high=most)
        check_number("optimizer.proxy_multiplier", self.proxy_multiplier, low=0, high=most)
        check_number("optimizer.head_only_steps", self.head_only_steps, low=0, whole=True)
        check_choice("optimizer.schedule", self.schedule, SCHEDULES)
        check_number("optimizer.hold_fraction", self.hold_fraction, low=0, high=0.99)
        check_number("optimizer.warmup_steps", self.warmup_steps, low=0, whole=True)
        check_number("optimizer.final_fraction", self.final_fraction, low=0, high=1)
        check_number("optimizer.step_size", self.step_size, low=1, whole=True)
        check_number("optimizer.step_factor", self.step_factor, low=0, high=1)
