"""The checked arguments of one call of a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from labkit.errors import LabError
from labkit.geometry import at_least_float32
from labkit.validation import check_embeddings, check_finite, check_labels, describe


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of one call, checked: same device, one dtype of at least float32, labels int64.

    `references` and `reference_labels` are None for pairs within the batch. `terms` is a miner's result, None for all:
    (a, p, a, n) pairs or (a, p, n) triplets of int64 indices, a into `embeddings`, p and n into the references.
    `excluded` are pairs (into `embeddings`, into the references) that count neither as positive nor as negative; only
    where `terms` is None, and only pair losses know them. `normalized`: the references are so already, as the pair loss
    would do it.
    """

    embeddings: Tensor
    labels: Tensor
    references: Tensor | None
    reference_labels: Tensor | None
    terms: tuple[Tensor, ...] | None
    excluded: tuple[Tensor, Tensor] | None = None
    normalized: bool = False


def check_batch(embeddings: Any, labels: Any, indices_tuple: Any, ref_emb: Any, ref_labels: Any) -> Batch:
    """Check the arguments of a call and bring them to one dtype.

    Raises
    ------
    LabError : names the argument that cannot be used and, where two disagree, both.
    """
    embeddings = check_embeddings("embeddings", embeddings)
    _check_device("labels", labels, embeddings)
    labels = check_labels("labels", labels, len(embeddings))
    if (ref_emb is None) != (ref_labels is None):
        missing, given = ("ref_labels", "ref_emb") if ref_labels is None else ("ref_emb", "ref_labels")
        raise LabError(missing, f"a tensor, since {given} is given", None, "Pass both or neither.")
    if ref_emb is not None:
        ref_emb, ref_labels = _check_references(ref_emb, ref_labels, embeddings)
    terms = None
    if indices_tuple is not None:
        terms = _check_terms(indices_tuple, embeddings, len(embeddings if ref_emb is None else ref_emb))
    embeddings = at_least_float32(embeddings)
    if ref_emb is not None:
        ref_emb = at_least_float32(ref_emb)
        if embeddings.dtype != ref_emb.dtype:
            embeddings, ref_emb = embeddings.double(), ref_emb.double()
    return Batch(embeddings, labels, ref_emb, ref_labels, terms)


def _check_references(ref_emb: Any, ref_labels: Any, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    _check_device("ref_emb", ref_emb, embeddings)
    ref_emb = check_embeddings("ref_emb", ref_emb, finite=False)
    if ref_emb.shape[1] != embeddings.shape[1]:
        expected = f"rows as wide as embeddings, shape (M, {embeddings.shape[1]})"
        raise LabError("ref_emb", expected, f"shape {tuple(ref_emb.shape)}")
    check_finite("ref_emb", ref_emb)
    _check_device("ref_labels", ref_labels, embeddings)
    ref_labels = check_labels("ref_labels", ref_labels, len(ref_emb), of="ref_emb")
    return ref_emb, ref_labels


def _check_device(name: str, values: Any, embeddings: Tensor) -> None:
    if isinstance(values, Tensor) and values.device != embeddings.device:
        expected = f"a tensor on the device of embeddings, {embeddings.device}"
        raise LabError(name, expected, values.device, "Move it with .to().")


def _check_terms(indices: Any, embeddings: Tensor, n_references: int) -> tuple[Tensor, ...]:
    """A miner's result: the anchors' indices point into the batch, the others' into the references."""
    if not isinstance(indices, (tuple, list)) or len(indices) not in (3, 4):
        got = f"{len(indices)} entries" if isinstance(indices, (tuple, list)) else describe(indices)
        raise LabError("indices_tuple", "3 (a, p, n) or 4 (a, p, a, n) index tensors", got)
    n = len(embeddings)
    sizes = (n, n_references, n_references) if len(indices) == 3 else (n, n_references, n, n_references)
    checked: list[Tensor] = []
    for number, (index, size) in enumerate(zip(indices, sizes)):
        name = f"indices_tuple[{number}]"
        partner = number - 1 if number in (1, 3) else 0 if len(indices) == 3 else number  # must be as long as this one
        first = indices[partner]
        length = first.shape[0] if isinstance(first, Tensor) and first.ndim == 1 else 0
        _check_device(name, index, embeddings)
        index = check_labels(name, index, length, of=f"indices_tuple[{partner}]")
        if length and not (0 <= int(index.min()) and int(index.max()) < size):
            raise LabError(name, f"indices from 0 to {size - 1}", f"{int(index.min())} … {int(index.max())}")
        checked.append(index)
    return tuple(checked)
