"""A trained network with all that belongs to it: from pictures in 0 ... 1 to normalised embeddings, in one module."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from labkit.datasets import Views
from labkit.datasets.folder import is_kind
from labkit.datasets.transforms import Standardize
from labkit.errors import LabError, said
from labkit.files import storage_error
from labkit.models import Backbone, MultiLevelHead, PhotoNet, weights_digest
from labkit.models.weights import read_state
from labkit.serving.formats import SUFFIXES, ExportedModel, check_pictures, load_exported
from labkit.serving.model_card import ModelCard, normalized_rows
from labkit.training import Experiment, Recording, Trainer
from labkit.training.checkpoint import load_checkpoint
from labkit.training.frozen import FrozenNet
from labkit.training.registry import build_loss, build_network, load_splits, normalization
from labkit.training.run_folder import run_identity
from labkit.validation import check_path, describe

KNOWN = "the experiment's"


class WholeModel(nn.Module):
    """Pictures to embeddings, ready to be used or exported. Made by `of(trainer)` or `of_run(folder)`.

    Attributes
    ----------
    card : `ModelCard`, what goes in and what comes out.

    Shapes
    ------
    pictures (n, channels, size, size) floats in 0 ... 1 -> embeddings (n, embedding_size), normalised.

    Raises
    ------
    LabError : when called: pictures of another shape, bytes, NaN, or numbers outside 0 ... 1, as by an `ExportedModel`.
    """

    def __init__(self, network: nn.Module, card: ModelCard) -> None:
        super().__init__()
        self.network, self.card = network, card
        # Networks for photographs standardise themselves.
        self.standardizes = not isinstance(getattr(network, "backbone", None), Backbone)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(card.mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(card.std).view(1, -1, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, pictures: Tensor) -> Tensor:
        tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if not (tracing or torch.compiler.is_compiling()):  # exporters cannot write the checks down
            check_pictures(self.card, pictures)
            pictures = pictures.to(self.mean)
        standard = (pictures - self.mean) / self.std if self.standardizes else pictures
        return normalized_rows(self.network(standard).float(), self.card.normalize, self.card.levels)

    def train(self, mode: bool = True) -> WholeModel:
        """Always in eval mode. A head of several levels leaves its levels as they are, and they are normalised here:
        its own way looks at the lengths, which no exporter can write down."""
        super().train(False)
        if isinstance(self.network, MultiLevelHead):
            self.network.training = True  # the head's alone, not its backbone's
        return self

    @classmethod
    def of(cls, trainer: Trainer) -> WholeModel:
        """The trainer's network as it is now, copied to the CPU; after `run()` that is the one chosen on held-out pictures.

        Raises
        ------
        LabError : no Trainer, or a loss of one's own whose normalisation is none of "lipschitz", "l2" and none.
        """
        if not isinstance(trainer, Trainer):
            raise LabError("trainer", "a Trainer", describe(trainer), "A run's folder is opened by WholeModel.of_run.")
        splits, standardize = trainer.splits, trainer.pictures.standardize
        names, size = splits.class_names[: splits.train_classes], splits.train.images.shape[-1]
        model = copy.deepcopy(trainer.model).cpu()
        return cls._built(trainer.experiment, model, standardize, trainer.normalized, names, size)

    @classmethod
    def of_run(cls, folder: str | os.PathLike[str]) -> WholeModel:
        """The model that a finished run left in its folder.

        Raises
        ------
        LabError : no run there, an unfinished or damaged one, one with a loss of the caller's own, or one on digits that
            are not there any more.
        """
        where = check_path("folder", folder)
        settings, weights = where / "experiment.json", where / "model.pt"
        if not is_kind(Path.is_file, settings):
            raise LabError(str(folder), "the folder of a run, or an exported model", "no experiment.json in it")
        if not is_kind(Path.is_file, weights):
            hint = "Let it end: the same `labkit train` command with --resume goes on."
            raise LabError(str(folder), "a finished run, with its model.pt", "none", hint)
        try:
            experiment = Experiment.from_json(settings.read_bytes())
        except OSError as error:
            raise storage_error(settings, error, reading=True) from error
        state, identity = read_state(weights), _identity(where)
        if identity.get("loss", KNOWN) != KNOWN:
            # The loss, and with it how embeddings are normalised, was an object that is not in the folder.
            hint = "Export from Python, WholeModel.of(trainer), where the loss is."
            raise LabError(str(folder), "a run with a loss that labkit has", f"the loss {identity['loss'][:80]}", hint)
        standardize: Callable[[Tensor], Tensor] = torch.Tensor.float
        channels, size = 3, 0
        if not experiment.data.is_photos:
            splits = load_splits(experiment)
            found = run_identity(splits, None)["data"]
            if identity.get("data", found) != found:  # their mean and deviation would be others
                hint = "Set LABKIT_DATA as it was then."
                raise LabError("data", f"the pictures that the run was trained on ({identity['data']})", found, hint)
            channels, size = splits.train.images.shape[1:3]
            standardize = Standardize(splits.train.images)
        plain = experiment
        if experiment.network.is_for_photos and experiment.network.train == "all":
            # Every weight is in model.pt: neither a package nor a download is needed.
            plain = experiment.replace(**{"network.weights": "none", "network.head": "random"})
        network = build_network(plain, channels, torch.Generator().manual_seed(0))
        try:
            network.load_state_dict(state)
        except RuntimeError as error:
            raise LabError(str(weights), "weights of this experiment's network", said(error, 160)) from error
        recording = where / "recording.npz"
        names = _trained_on(Recording.load(recording)) if recording.is_file() else ()
        return cls._built(experiment, network, standardize, normalization(build_loss(experiment)), names, size)

    @classmethod
    def _built(
        cls,
        experiment: Experiment,
        network: nn.Module,
        standardize: Callable[[Tensor], Tensor],
        normalize: Callable[[Tensor], Tensor],
        names: tuple[str, ...],
        size: int,
    ) -> WholeModel:
        network = network.whole() if isinstance(network, FrozenNet) else network
        network = network.to(memory_format=torch.contiguous_format)
        side, square, s = size, False, experiment.photos
        mean, std = torch.zeros(3), torch.ones(3)  # where a network takes photographs as they are
        if experiment.data.is_photos:
            views = Views(s.size, s.side or None, s.square)
            size, side, square = views.size, views.resized, views.square
        if isinstance(network, PhotoNet | MultiLevelHead) and isinstance(network.backbone, Backbone):
            mean, std = network.backbone.mean, network.backbone.std
        elif isinstance(standardize, Standardize):
            mean, std = standardize.mean, standardize.std
        width = int(network.embedding_size)  # type: ignore[arg-type]
        kind, levels = _normalization_by_name(normalize, width, len(experiment.network.levels.split("+")))
        if isinstance(network, MultiLevelHead):  # which scales each level to length 1; nothing after that changes it
            kind, levels = "l2", len(network.taps)
        card = ModelCard(
            name=experiment.name, network=experiment.network.name, channels=mean.numel(), size=size, side=side, square=square,
            embedding_size=width, normalize=kind, levels=levels,
            mean=tuple(mean.flatten().tolist()), std=tuple(std.flatten().tolist()), weights="", trained_on=names,
            experiment=experiment.to_dict(),
        )  # fmt: skip
        return cls(network, dataclasses.replace(card, weights=weights_digest(network)))


def open_model(path: str | os.PathLike[str]) -> WholeModel | ExportedModel:
    """The model of a finished run (its folder), or an exported one (.pt2, .pt, .onnx).

    Raises
    ------
    LabError : neither of them.
    """
    where = check_path("path", path)
    if is_kind(Path.is_dir, where):
        return WholeModel.of_run(where)
    if not where.exists():
        raise LabError(str(path), f"the folder of a run, or a model ({', '.join(SUFFIXES)})", "nothing there")
    return load_exported(where)


def _normalization_by_name(normalize: Callable[[Tensor], Tensor], width: int, levels: int) -> tuple[str, int]:
    """Which of the normalisations a function is, seen by what it does to short and to long vectors."""
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(8, width, generator=generator) * torch.logspace(-2, 2, 8)[:, None]
    wanted = normalize(probe)
    for kind in ("none", "lipschitz", "l2"):
        for parts in {1, levels if width % levels == 0 else 1}:
            if torch.allclose(normalized_rows(probe, kind, parts), wanted, rtol=1e-4, atol=1e-6):
                return kind, parts
    raise LabError("loss", 'a normalisation that can be exported ("lipschitz", "l2" or none)', "another one")


def _trained_on(recording: Recording) -> tuple[str, ...]:
    """Names of the classes that a run was trained on: the first ones where there are others, all where it does not say."""
    count = recording.environment.get("train_classes")
    return tuple(recording.class_names[:count] if isinstance(count, int) else recording.class_names)


def _identity(folder: Path) -> dict[str, str]:
    """What the run's checkpoint says of its pictures and its loss; nothing where it has been deleted."""
    checkpoint = folder / "checkpoint.pt"
    identity: dict[str, str] = load_checkpoint(checkpoint).get("identity", {}) if checkpoint.is_file() else {}
    return identity
