"""What `AlternatingProjections` checks about the tensors it is given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.validation import (
    check_dense,
    check_embeddings,
    check_finite,
    check_labels,
    check_stored,
    check_takes,
    describe,
)


def check_takes_pairs(loss: Any, owned: bool, pair_weight: float) -> None:
    """Refuse a loss that cannot be called as `AlternatingProjections` calls it; one that owns its proxies gets no others.

    Raises
    ------
    LabError : says which argument it lacks.
    """
    if not callable(loss):
        raise LabError("loss", "a loss, something to be called", describe(loss))
    name, call = type(loss).__name__, getattr(loss, "forward", loss)
    if owned or pair_weight > 0:
        check_takes(name, call, "embeddings", "labels", "indices_tuple")
    if not owned:
        check_takes(name, call, "embeddings", "labels", ref_emb="…", ref_labels="…")


def check_call(embeddings: Any, labels: Any, anchors: Any, shape: tuple[int, int, int]) -> Tensor:
    """Check a batch (n, D), its labels (n,) in 0 ... C - 1 and anchors of shape (C, K, D) or None; returns int64 labels.

    Raises
    ------
    LabError : another shape or dtype, or a label outside the classes.
    """
    embeddings = check_embeddings("embeddings", embeddings, finite=False)
    checked: Tensor = check_labels("labels", labels, len(embeddings))
    outside = (checked < 0) | (checked >= shape[0])
    if bool(outside.any()):
        raise LabError("labels", f"classes in 0 ... {shape[0] - 1}", f"label {int(checked[outside][0])}")
    if anchors is not None and (not isinstance(anchors, Tensor) or tuple(anchors.shape) != shape):
        raise LabError("anchors", f"a tensor of shape (C, K, D) = {shape}", describe(anchors))
    return checked


def check_pool(pool: Any, mask: Any, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Check a pool (C, b, D) and its mask (C, b) or None; returns the pool with its padding zeroed, and the mask.

    Raises
    ------
    LabError : another shape or dtype, NaN or infinity outside the padding, or fewer than K valid entries for a class.
    """
    classes, proxies, size = shape
    if not isinstance(pool, Tensor) or pool.ndim != 3 or (pool.shape[0], pool.shape[2]) != (classes, size):
        raise LabError("pool", f"a tensor of shape (C, b, D) = ({classes}, b, {size})", describe(pool))
    if not pool.is_floating_point():
        raise LabError("pool", "a floating dtype", describe(pool))
    check_dense("pool", pool)
    if mask is None:
        valid = torch.ones(pool.shape[:2], dtype=torch.bool, device=pool.device)
    elif isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == pool.shape[:2]:
        check_stored("mask", mask)
        valid = mask.to(pool.device)
        pool = pool.masked_fill(~valid[:, :, None], 0.0)
    else:
        raise LabError("mask", f"a bool tensor of shape (C, b) = {tuple(pool.shape[:2])}", describe(mask))
    check_finite("pool", pool)
    counts = valid.sum(dim=1)
    if int(counts.min()) < proxies:
        short = int(counts.argmin())
        hint = "Draw more, or lower proxies_per_class."
        raise LabError("pool", f"at least K = {proxies} samples of every class", f"{int(counts[short])} of class {short}", hint)
    return pool, valid


def check_model(model: Any) -> nn.Module:
    """Refuse what is no network."""
    if not isinstance(model, nn.Module):
        raise LabError("model", "the network, a torch.nn.Module", describe(model))
    return model


def check_choosing(generator: Any, optimizer: Any) -> None:
    """Refuse what is no generator and no optimiser; None is welcome for either."""
    if not (generator is None or isinstance(generator, torch.Generator)):
        raise LabError("generator", "a torch.Generator or None", describe(generator))
    if not (optimizer is None or isinstance(optimizer, torch.optim.Optimizer)):
        raise LabError("optimizer", "a torch.optim.Optimizer or None", describe(optimizer))


def check_same_model(model: nn.Module, previous: list[Tensor] | None) -> list[nn.Parameter]:
    """The trainable parameters of `model`, if they have the shapes of the last problem's solution.

    Raises
    ------
    LabError : no solution was kept, or it is another network's.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    if previous is None or [p.shape for p in trainable] != [old.shape for old in previous]:
        expected = "the model of the last problem, with the same trainable parameters"
        raise LabError("model", expected, type(model).__name__)
    return trainable
