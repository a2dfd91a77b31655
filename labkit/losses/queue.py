"""A first-in, first-out store of embeddings with their labels and, where known, which samples they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.validation import check_number

UNKNOWN = -1  # the id of an embedding that came without one


class EmbeddingQueue(nn.Module):
    """Keeps the last `size` rows that were pushed, all of it in `state_dict()`.

    Parameters
    ----------
    size, width : numbers of rows and columns, at least 1.

    Attributes
    ----------
    embeddings, labels, ids : (size, width), (size,) and (size,); the first `filled` rows are in use, in no particular
        order. They follow what is pushed to its device, and to double or back.
    """

    embeddings: Tensor
    labels: Tensor
    ids: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = int(check_number("memory_size", size, low=1, whole=True))
        self.width = int(check_number("embedding_size", width, low=1, whole=True))
        self.pushed = 0  # rows that ever came
        try:
            self.register_buffer("embeddings", torch.zeros(self.size, self.width))
        except RuntimeError as error:  # of the allocator
            raise LabError("memory_size", "rows that fit into memory", f"{self.size:,} x {self.width:,}") from error
        self.register_buffer("labels", torch.zeros(self.size, dtype=torch.long))
        self.register_buffer("ids", torch.full((self.size,), UNKNOWN))
        self.register_load_state_dict_pre_hook(_follow_dtype)  # type: ignore[no-untyped-call]

    def extra_repr(self) -> str:
        return f"size={self.size}, width={self.width}, filled={self.filled}"

    @property
    def filled(self) -> int:
        """How many rows are in use."""
        return min(self.pushed, self.size)

    def contents(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings, labels and ids of the rows in use, views on the device of `like`, the first in its dtype."""
        self._follow(like)
        return self.embeddings[: self.filled], self.labels[: self.filled], self.ids[: self.filled]

    def push(self, embeddings: Tensor, labels: Tensor, ids: Tensor | None) -> None:
        """Add rows, the oldest make room; of more rows than fit the last stay."""
        self._follow(embeddings)
        first = max(0, len(embeddings) - self.size)
        places = torch.arange(self.pushed + first, self.pushed + len(embeddings), device=embeddings.device) % self.size
        self.embeddings[places] = embeddings.detach()[first:]
        self.labels[places] = labels[first:]
        self.ids[places] = UNKNOWN if ids is None else ids[first:]
        self.pushed += len(embeddings)

    def _follow(self, like: Tensor) -> None:
        self.embeddings = self.embeddings.to(like)
        self.labels, self.ids = self.labels.to(like.device), self.ids.to(like.device)

    def get_extra_state(self) -> dict[str, int]:
        return {"pushed": self.pushed}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.pushed = int(check_number("pushed", state.get("pushed") if isinstance(state, dict) else None, low=0, whole=True))


def _follow_dtype(module: EmbeddingQueue, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """A queue saved in double is loaded in double."""
    saved = state.get(f"{prefix}embeddings")
    if isinstance(saved, Tensor):
        module.embeddings = module.embeddings.to(saved.dtype)


def same_sample(ids: Tensor, remembered: Tensor) -> tuple[Tensor, Tensor] | None:
    """Pairs (into ids, into remembered) of the same sample, None where there are none."""
    columns = torch.isin(remembered, ids).nonzero().squeeze(1)
    if len(columns) == 0:
        return None
    rows, found = (ids.unsqueeze(1) == remembered[columns]).nonzero(as_tuple=True)
    return rows, columns[found]


def without(terms: tuple[Tensor, ...], stale: tuple[Tensor, Tensor], n_references: int) -> tuple[Tensor, ...]:
    """(a, p, a, n) or (a, p, n) of a miner, short of the pairs and triplets in which a stale pair stands."""
    flat = stale[0] * n_references + stale[1]

    def fresh(anchors: Tensor, others: Tensor) -> Tensor:
        return ~torch.isin(anchors * n_references + others, flat)

    if len(terms) == 3:
        a, p, n = terms
        kept = fresh(a, p) & fresh(a, n)
        return a[kept], p[kept], n[kept]
    first, p, second, n = terms
    positive, negative = fresh(first, p), fresh(second, n)
    return first[positive], p[positive], second[negative], n[negative]


def all_pairs_but(stale: tuple[Tensor, Tensor], labels: Tensor, owners: Tensor) -> tuple[Tensor, ...]:
    """(a, p, a, n) of every pair that is not stale, for a loss that knows no shorter way to leave some out."""
    same = labels.unsqueeze(1) == owners
    different = ~same
    same[stale] = different[stale] = False
    return *same.nonzero(as_tuple=True), *different.nonzero(as_tuple=True)
