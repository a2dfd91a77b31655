"""A loss asked about one moving sample at a time: what it costs there and which way it is moved."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import cosine_similarity, pairwise_distance
from labkit.losses import BaseLoss, BaseProxyLoss
from labkit.plots.reading import Floats, Ints, float_array, label_array
from labkit.validation import check_number, describe

# What a loss adds that no sample can change: left out of the pictures, where it would only lift the ground.
CONSTANT_PARTS: dict[str, Any] = {"weight_regularizer": None, "proxy_weight": 0.0}


@dataclass(frozen=True)
class Scene:
    """Fixed references around a moving sample.

    Attributes
    ----------
    references : (M, D), as given. labels : (M,) their classes. own : the moving sample's class.
    """

    references: Floats
    labels: Ints
    own: int

    @property
    def same(self) -> Any:
        """(M,) whether a reference is of the moving sample's class."""
        return self.labels == self.own


def owns_weight(loss: Any) -> bool:
    """Whether the loss learns its own references: a parameter `weight`, with so many rows for each of its classes."""
    sized = hasattr(loss, "num_classes") and hasattr(loss, "proxies_per_class")
    return sized and isinstance(getattr(loss, "weight", None), nn.Parameter)


def check_loss(loss: Any) -> None:
    """Refuse what cannot be called as a loss.

    Raises
    ------
    LabError : a class instead of an instance, nothing to call, or a call that takes other arguments.
    """
    if isinstance(loss, type):
        raise LabError("loss", "a loss, not its class", loss.__name__, f"Write {loss.__name__}(…).")
    if not callable(loss):
        raise LabError("loss", "a loss, called as loss(embeddings, labels, …)", describe(loss))
    if isinstance(loss, BaseLoss):
        loss.check_parameters()
    else:
        _check_signature(loss)


def _check_signature(loss: Any) -> None:
    """Refuse a function that cannot be called as `ask` calls losses."""
    known = ["embeddings", "labels"] + ([] if owns_weight(loss) else ["indices_tuple", "ref_emb", "ref_labels"])
    try:
        signature = inspect.signature(loss.forward if isinstance(loss, nn.Module) else loss)
    except (TypeError, ValueError):  # written in C: nothing is known before the call
        return
    try:
        signature.bind(*known)
    except TypeError as error:
        hint = "labkit.losses.FunctionLoss makes one of a function."
        raise LabError("loss", f"a loss, called as loss({', '.join(known)})", f"one that takes {signature}", hint) from error


def prepared(loss: Any) -> Any:
    """A copy in double precision for pictures: the moving sample is the anchor, and no constant parts are added."""
    check_loss(loss)
    loss = copy.deepcopy(loss)
    if isinstance(loss, nn.Module):
        loss = loss.double()
    if hasattr(loss, "anchor"):
        loss.anchor = "sample"
    if isinstance(loss, BaseProxyLoss):
        for name, value in CONSTANT_PARTS.items():
            if hasattr(loss, name):
                setattr(loss, name, value)
    return loss


def make_scene(loss: Any, references: Any, reference_labels: Any, own: Any) -> Scene:
    """The references of a loss on a plane: those given, or its own proxies where none are.

    Raises
    ------
    LabError : no references for a loss without proxies, another shape than (M, 2), labels that disagree, for a loss
        with proxies another number of them per class, or a class that none of them has.
    """
    own = int(check_number("label", own, whole=True))
    if owns_weight(loss):
        per_class, classes = loss.proxies_per_class, loss.num_classes
        expected = np.repeat(np.arange(classes), per_class)
        if references is None:
            references, reference_labels = loss.weight.detach(), expected
    if references is None:
        raise LabError("references", "fixed samples or proxies, (M, 2)", None, "This loss has none of its own.")
    points = float_array("references", references, "M, 2")
    if points.shape[1] != 2:
        raise LabError("references", "two columns, (M, 2)", f"shape {points.shape}")
    labels = label_array("reference_labels", reference_labels, len(points))
    if owns_weight(loss) and loss.weight.shape[1] != 2:
        raise LabError("loss", "proxies on the plane, embedding_size=2", f"weight of shape {tuple(loss.weight.shape)}")
    if owns_weight(loss) and sorted(labels) != expected.tolist():
        needed = f"{per_class} references for each class 0 … {classes - 1}, as the loss was built"
        found = np.unique(labels, return_counts=True)
        counts = ", ".join(f"{count} of class {c}" for c, count in zip(*(part.tolist() for part in found), strict=True))
        raise LabError("reference_labels", needed, counts)
    if owns_weight(loss):
        order = np.argsort(labels, kind="stable")
        points, labels = points[order], labels[order]
    if own not in labels:
        raise LabError("label", "a class that a reference has", own, f"There are {np.unique(labels).tolist()}.")
    return Scene(points, labels, own)


def ask(loss: Any, probes: Any, scene: Scene) -> tuple[Floats, Floats]:
    """The loss (G,) of each of G samples alone among the references, and its gradient (G, D) by the sample.

    Parameters
    ----------
    loss : from `prepared`. probes : (G, D), before the loss's normalisation.

    Each sample is a call of its own: several losses average over what is active in a batch, and would mix them up.
    """
    x = torch.as_tensor(probes, dtype=torch.float64)
    rows = [x[i : i + 1].clone().requires_grad_() for i in range(len(x))]  # slices would each make a gradient of all
    label = torch.tensor([scene.own])
    references, labels = torch.as_tensor(scene.references), torch.as_tensor(scene.labels)
    if owns_weight(loss):
        with torch.no_grad():
            loss.weight.copy_(references)
        loss.requires_grad_(False)
        values = [_checked(loss, loss(row, label)) for row in rows]
    else:
        values = [_checked(loss, loss(row, label, None, references, labels)) for row in rows]
    total = torch.stack(values)
    gradient = torch.zeros_like(x)
    if total.requires_grad:
        gradients = torch.autograd.grad(total.sum(), rows, allow_unused=True, materialize_grads=True)
        gradient = torch.cat(gradients)
    return total.detach().numpy(), gradient.numpy()


def _checked(loss: Any, value: Any) -> Tensor:
    """What a loss returned, as a 0-d tensor in double precision."""
    name = type(loss).__name__
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise LabError(name, "a 0-d tensor returned", describe(value))
    number = value.reshape(()).double()
    if not math.isfinite(number.item()):
        raise LabError(name, "a finite loss", number.item(), "Look at its settings and at places such as the origin.")
    return number


def ask_moving(loss: Any, probe: Tensor, paths: Sequence[tuple[Tensor, Tensor]], labels: Ints) -> tuple[Floats, Floats]:
    """The loss (P,) of a fixed sample of class 0 while its references move, and its derivative (P,) along the way.

    Parameters
    ----------
    loss : from `prepared`. probe : (1, D).
    paths : for each of P moments the references (M, D) and their velocity (M, D). labels : (M,) their classes.
    """
    values, slopes = [], []
    label, owners = torch.tensor([0]), torch.as_tensor(labels)
    for references, velocity in paths:
        if owns_weight(loss):
            with torch.no_grad():
                loss.weight.copy_(references)
            moving = loss.weight
            value = loss(probe, label)
        else:
            moving = references.clone().requires_grad_()
            value = loss(probe, label, None, moving, owners)
        value = _checked(loss, value)
        values.append(float(value.detach()))
        gradient = torch.autograd.grad(value, moving, allow_unused=True)[0] if value.requires_grad else None
        slopes.append(0.0 if gradient is None else float((gradient * velocity).sum()))
    return np.array(values), np.array(slopes)


def measured(loss: Any, probes: Any, references: Any) -> tuple[Floats, Floats]:
    """Distances and cosines (G, M) of probes (G, D) and references (M, D) as the loss sees them, normalised."""
    normalized = getattr(loss, "normalized", None)
    both = [torch.as_tensor(values, dtype=torch.float64) for values in (probes, references)]
    if normalized is not None:
        both = [normalized(values).detach() for values in both]
    distances = pairwise_distance(both[0], both[1])
    if getattr(loss, "normalize", "l2") == "l2":
        return distances.numpy(), cosine_similarity(both[0], both[1]).numpy()
    return distances.numpy(), (both[0] @ both[1].T).numpy()
