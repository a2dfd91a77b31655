"""What every metric does first: take tensors or numpy arrays, check them, compute in at least float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.validation import check_embeddings, check_labels


def as_embeddings(name: str, values: Any) -> Tensor:
    """Detached, contiguous float32 or float64 (n, D) tensor, on the device it came on.

    Raises
    ------
    LabError : as `check_embeddings`.
    """
    if isinstance(values, np.ndarray):
        values = torch.from_numpy(np.ascontiguousarray(values))
    rows = check_embeddings(name, values).detach()
    return rows.to(torch.float64 if rows.dtype == torch.float64 else torch.float32).contiguous()


def as_labels(name: str, labels: Any, embeddings: Tensor, *, of: str = "embeddings") -> Tensor:
    """Int64 (n,) tensor beside the embeddings.

    Raises
    ------
    LabError : as `check_labels`.
    """
    if isinstance(labels, np.ndarray):
        labels = torch.from_numpy(np.ascontiguousarray(labels))
    return check_labels(name, labels, embeddings.shape[0], of=of).to(embeddings.device)


def as_pair(embeddings: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Embeddings and their labels, checked together."""
    values = as_embeddings("embeddings", embeddings)
    return values, as_labels("labels", labels, values)
