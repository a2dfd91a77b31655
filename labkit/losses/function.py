"""A loss of one's own from a plain function, in a notebook cell, without a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.geometry import cosine_similarity, pairwise_distance
from labkit.losses.base import BaseLoss
from labkit.losses.batch import Batch
from labkit.validation import check_choice, check_loss_value, check_takes, describe

_NOTHING = object()


class FunctionLoss(BaseLoss):
    """Wrap `function(values, same, different)` as a loss that takes proxies, memories and anchors like any other.

    Parameters
    ----------
    function : gets `values` (N, M), the distances or similarities of every embedding to every reference, and two
        boolean (N, M) masks: `same` class and `different` class (a sample paired with itself is in neither, nor is a
        pair that a miner leaves out). Returns a 0-d tensor. Autograd does the rest; a mean over no pairs is yours to guard.
    on : "distance" (Euclidean) or "similarity" (cosine).
    normalize : "lipschitz", "l2" or None, before distances.

    Raises
    ------
    LabError : when called: `on` is neither, the function does not take these three or returns no finite 0-d tensor; and
        as every loss does for input that cannot be used.

    Examples
    --------
    >>> def pull_and_push(distances, same, different):
    ...     return distances[same].sum() + (0.5 - distances[different]).clamp(min=0).sum()
    >>> loss = FunctionLoss(pull_and_push)
    >>> loss(torch.tensor([[0.0, 0.0], [0.3, 0.0], [0.0, 0.4]]), torch.tensor([0, 0, 1])).item()
    0.8...
    """

    def __init__(
        self, function: Callable[..., Any], on: str = "distance", normalize: str | None = "lipschitz"
    ) -> None:
        super().__init__(normalize)
        self.function = function
        self.on = on
        self._checked: Any = _NOTHING  # the function whose arguments have been looked at

    def check_parameters(self) -> None:
        check_choice("on", self.on, ("distance", "similarity"))
        if self.function is self._checked:
            return
        if not callable(self.function):
            raise LabError("function", "a function of values, same, different", describe(self.function))
        check_takes(getattr(self.function, "__name__", "function"), self.function, "values", "same", "different")
        self._checked = self.function

    def compute(self, batch: Batch) -> Tensor:
        alone = batch.references is None or batch.reference_labels is None
        references = batch.embeddings if batch.references is None else batch.references
        owners = batch.labels if batch.reference_labels is None else batch.reference_labels
        compare = pairwise_distance if self.on == "distance" else cosine_similarity
        values = compare(self.normalized(batch.embeddings), self.normalized(references))
        same = batch.labels[:, None] == owners[None]
        different = ~same
        if alone:
            same = same & ~torch.eye(len(values), dtype=torch.bool, device=values.device)
        if batch.terms is not None:
            same, different = (_named(pairs, values) for pairs in _sides(batch.terms))
        result = self.function(values, same, different)
        return check_loss_value(self.function, result, finite=True)


def _sides(terms: tuple[Tensor, ...]) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The pairs of the positives and of the negatives, from (a, p, n) or (a, p, a, n)."""
    return (terms[0], terms[1]), (terms[-2] if len(terms) == 4 else terms[0], terms[-1])


def _named(pairs: tuple[Tensor, Tensor], values: Tensor) -> Tensor:
    mask = torch.zeros_like(values, dtype=torch.bool)
    mask[pairs] = True
    return mask
