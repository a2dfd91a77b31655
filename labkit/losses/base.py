"""What every loss shares: how it is called, what it refuses, and in which precision it computes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import at_least_float32, check_normalize, normalize
from labkit.validation import check_embeddings, check_finite, check_labels, describe


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of one call, checked: same device, one dtype of at least float32, labels int64.

    `references` and `reference_labels` are None for pairs within the batch. `terms` is a miner's result, None for all:
    (a, p, a, n) pairs or (a, p, n) triplets of int64 indices, a into `embeddings`, p and n into the references.
    """

    embeddings: Tensor
    labels: Tensor
    references: Tensor | None
    reference_labels: Tensor | None
    terms: tuple[Tensor, ...] | None


class BaseLoss(nn.Module):
    """A loss called as `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`.

    To write one of your own, implement `compute(batch)`, which returns a 0-d tensor, and, where the loss has
    parameters, `check_parameters()`. The constructor only stores; all checks happen when the loss is called, so that
    an attribute may also be changed between two calls. A loss that owns proxies declares them as `nn.Parameter`s.

    Parameters
    ----------
    normalize : "lipschitz" (into the unit ball), "l2" (onto the sphere) or None; applied to both sides.
    """

    def __init__(self, normalize: str | None) -> None:
        super().__init__()
        self.normalize = normalize

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_") and k != "training")

    def normalized(self, x: Tensor) -> Tensor:
        """`x` (..., D) as this loss sees it: after its normalisation, in float32 at least."""
        return normalize(x, self.normalize)

    def check_parameters(self) -> None:
        """Raise a LabError if an attribute makes no sense."""

    def compute(self, batch: Batch) -> Tensor:
        """The loss of a checked batch, a 0-d tensor."""
        raise NotImplementedError

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss, a 0-d tensor of at least float32, also under autocast and for half-precision input.

        Parameters
        ----------
        embeddings : (N, D) floating, before normalisation.
        labels : (N,) integers.
        indices_tuple : a miner's result, (a, p, a, n) or (a, p, n) index tensors; None for every pair.
        ref_emb, ref_labels : (M, D) and (M,): proxies, a memory or anchor samples. None: pairs within the batch.

        Raises
        ------
        LabError : a shape, dtype, device or number that cannot be used, or a parameter out of range.
        """
        check_normalize(self.normalize)
        self.check_parameters()
        batch = check_batch(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        device = embeddings.device.type
        full_precision: Any = contextlib.nullcontext()
        if torch.is_autocast_enabled(device):
            full_precision = torch.autocast(device, enabled=False)
        with full_precision:
            result: Tensor = self.compute(batch)
        return result


def check_batch(
    embeddings: Tensor,
    labels: Tensor,
    indices_tuple: tuple[Tensor, ...] | None,
    ref_emb: Tensor | None,
    ref_labels: Tensor | None,
) -> Batch:
    """Check the arguments of a call and bring them to one dtype; raises a LabError that names what disagrees."""
    embeddings = _rows("embeddings", embeddings, embeddings)
    labels = _on_device("labels", check_labels("labels", labels, len(embeddings)), embeddings)
    if (ref_emb is None) != (ref_labels is None):
        missing, given = ("ref_labels", "ref_emb") if ref_labels is None else ("ref_emb", "ref_labels")
        raise LabError(missing, f"a tensor, since {given} is given", None, "Pass both or neither.")
    if ref_emb is None or ref_labels is None:
        terms = None if indices_tuple is None else _terms(indices_tuple, embeddings, len(embeddings))
        return Batch(at_least_float32(embeddings), labels, None, None, terms)
    ref_emb = _rows("ref_emb", ref_emb, embeddings)
    if ref_emb.shape[1] != embeddings.shape[1]:
        raise LabError("ref_emb", f"rows as wide as embeddings, {embeddings.shape[1]}", f"width {ref_emb.shape[1]}")
    ref_labels = _on_device(
        "ref_labels", check_labels("ref_labels", ref_labels, len(ref_emb), of="ref_emb"), embeddings
    )
    terms = None if indices_tuple is None else _terms(indices_tuple, embeddings, len(ref_emb))
    embeddings, ref_emb = at_least_float32(embeddings), at_least_float32(ref_emb)
    if embeddings.dtype != ref_emb.dtype:
        embeddings, ref_emb = embeddings.double(), ref_emb.double()
    return Batch(embeddings, labels, ref_emb, ref_labels, terms)


def _rows(name: str, values: Any, embeddings: Tensor) -> Tensor:
    rows = _on_device(name, check_embeddings(name, values, finite=False), embeddings)
    check_finite(name, rows)
    return rows


def _on_device(name: str, values: Tensor, embeddings: Tensor) -> Tensor:
    if values.device != embeddings.device:
        raise LabError(
            name, f"a tensor on the device of embeddings, {embeddings.device}", values.device, "Move it with .to()."
        )
    return values


def _terms(indices: Any, embeddings: Tensor, n_references: int) -> tuple[Tensor, ...]:
    """Check a miner's result: three or four 1-D index tensors, the anchors' into the batch, the others' into the references."""
    if not isinstance(indices, (tuple, list)) or len(indices) not in (3, 4):
        got = f"{len(indices)} of them" if isinstance(indices, (tuple, list)) else describe(indices)
        raise LabError("indices_tuple", "3 (a, p, n) or 4 (a, p, a, n) index tensors", got)
    sizes = [len(embeddings), n_references, n_references] if len(indices) == 3 else [len(embeddings), n_references] * 2
    checked = []
    for number, (index, size) in enumerate(zip(indices, sizes)):
        name = f"indices_tuple[{number}]"
        partner = 0 if len(indices) == 3 else number - number % 2  # whose length it must have
        n = len(indices[partner]) if isinstance(indices[partner], Tensor) else 0
        index = _on_device(name, check_labels(name, index, n, of=f"indices_tuple[{partner}]"), embeddings)
        if n and not (0 <= int(index.min()) and int(index.max()) < size):
            raise LabError(name, f"indices from 0 to {size - 1}", f"{int(index.min())} … {int(index.max())}")
        checked.append(index)
    return tuple(checked)
