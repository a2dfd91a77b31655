"""What every metric does first: take tensors or numpy arrays, check them, compute in at least float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.validation import check_embeddings, check_labels, describe


def as_tensor(name: str, values: Any, *, nested: bool = False) -> Any:
    """A numpy array (with `nested` also lists in lists) as a tensor; anything else comes back for others to judge.

    Raises
    ------
    LabError : an array that torch cannot take, such as one of strings or objects; sequences of uneven lengths.
    """
    if nested and isinstance(values, (list, tuple)):
        try:
            values = np.asarray(values)
        except (ValueError, TypeError, OverflowError, RuntimeError):  # uneven lengths, or tensors that need gradients
            raise LabError(name, "an array or tensor of numbers", describe(values)) from None
    if not isinstance(values, np.ndarray):
        return values
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(np.ascontiguousarray(values))
    except TypeError:
        hint = "Convert with .astype(np.float64)." if values.dtype.kind == "f" else ""
        raise LabError(name, "an array of numbers that torch can take", describe(values), hint) from None


def as_embeddings(name: str, values: Any) -> Tensor:
    """Detached, contiguous float32 or float64 (n, D) tensor, on the device it came on.

    Raises
    ------
    LabError : as `as_tensor` and `check_embeddings`.
    """
    rows = check_embeddings(name, as_tensor(name, values)).detach()
    return rows.to(torch.float64 if rows.dtype == torch.float64 else torch.float32).contiguous()


def as_labels(name: str, labels: Any, embeddings: Tensor, *, of: str = "embeddings") -> Tensor:
    """Int64 (n,) tensor beside the embeddings.

    Raises
    ------
    LabError : as `as_tensor` and `check_labels`; a label above 2^63 - 1.
    """
    labels = as_tensor(name, labels)
    if isinstance(labels, Tensor) and labels.dtype == torch.uint64 and bool((labels.view(torch.int64) < 0).any()):
        raise LabError(name, "labels of at most 2^63 - 1, which int64 holds", "a larger one")
    return check_labels(name, labels, embeddings.shape[0], of=of).to(embeddings.device)


def as_pair(embeddings: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Embeddings and their labels, checked together."""
    values = as_embeddings("embeddings", embeddings)
    return values, as_labels("labels", labels, values)
