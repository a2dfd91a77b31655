"""How every pair loss walks over its pairs: blocks of anchor rows, the gradient made on the way.

A loss over (anchor, reference) pairs depends on the two inputs only through a matrix of similarities or distances.
`_Sweep` forms that matrix a few rows at a time, lets the loss turn values into slopes (the derivative of the loss by
each value), carries the slopes back to the two inputs at once and forgets the block. Nothing of size (N, M) is ever
kept for the backward pass: only the gradients of the two inputs are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from labkit.errors import LabError
from labkit.geometry import normalize_gradient_, normalize_rows
from labkit.losses.base import BaseLoss
from labkit.losses.batch import Batch
from labkit.losses.blocks import Listed, PairBlock, Walk
from labkit.validation import check_choice


class PairLoss(BaseLoss):
    """A loss over pairs of anchors and references; what subclasses fill in is `sweep` and `reduce`.

    Parameters
    ----------
    anchor : with references given, "proxy" makes them the anchors and the embeddings their positives and negatives,
        as the paper on chance constraints has it; "sample" makes the embeddings the anchors. Within a batch it has no
        meaning. A miner's pairs change sides likewise.
    normalize : "lipschitz", "l2" or None, applied to both sides.
    """

    euclidean = False  # whether values are distances (else dot products)
    totals_before_slopes = False  # whether a slope depends on sums over all pairs
    triplets_as_they_are = False  # whether a miner's triplets are the terms, rather than two pairs each
    repeats = False  # whether a pair that a miner names twice counts twice

    def __init__(self, anchor: str, normalize: str | None) -> None:
        super().__init__(normalize)
        self.anchor = anchor

    def sweep(self, block: PairBlock, want_slopes: bool, totals: list[float] | None) -> Tensor:
        """Sums of this block, a 1-D tensor; with `want_slopes` also call `block.set_slopes`.

        `totals` holds the sums over all blocks, or None where this block is the only one or they are not needed yet.
        """
        raise NotImplementedError

    def reduce(self, totals: list[float], n_anchors: int) -> tuple[float, float]:
        """The loss from the sums over all blocks, and the factor that all slopes still need."""
        raise NotImplementedError

    def compute(self, batch: Batch) -> Tensor:
        check_choice("anchor", self.anchor, ("proxy", "sample"))
        anchors, references = batch.embeddings, batch.references
        labels, reference_labels = batch.labels, batch.reference_labels
        if references is None and len(anchors) == 1:
            expected = "at least two rows, or references in ref_emb"
            raise LabError("embeddings", expected, "one row", "One sample alone makes no pair.")
        listed = None if batch.terms is None else Listed.from_terms(batch.terms)
        if listed is not None and not self.triplets_as_they_are:
            listed = replace(listed, aligned=False)
        swap = self.anchor == "proxy" and not (listed is not None and listed.aligned)
        if swap and references is not None and reference_labels is not None:
            anchors, references, labels, reference_labels = references, anchors, reference_labels, labels
            listed = None if listed is None else listed.swapped()
        return run_sweep(self, anchors, references, labels, reference_labels, listed)


def run_sweep(
    loss: PairLoss,
    anchors: Tensor,
    references: Tensor | None,
    labels: Tensor,
    reference_labels: Tensor | None,
    listed: Listed | None = None,
) -> Tensor:
    """The loss of all pairs, or of the `listed` ones, of anchors (N, D) and references (M, D; None: the anchors)."""
    on = torch.is_grad_enabled()
    needs = (on and anchors.requires_grad, on and references is not None and references.requires_grad)
    task = _Task(loss, labels, labels if reference_labels is None else reference_labels, listed, needs)
    result: Tensor = _Sweep.apply(anchors, references, task)
    return result


@dataclass(frozen=True)
class _Task:
    loss: PairLoss
    labels: Tensor
    reference_labels: Tensor
    listed: Listed | None
    needs: tuple[bool, bool]


class _Sweep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, references: Tensor | None, task: _Task) -> Tensor:
        loss = task.loss
        within = references is None
        a, a_lengths = normalize_rows(anchors, loss.normalize)
        r, r_lengths = (a, a_lengths) if references is None else normalize_rows(references, loss.normalize)
        grad_a = torch.zeros_like(a) if task.needs[0] else None
        grad_r = grad_a if within else torch.zeros_like(r) if task.needs[1] else None
        want_slopes = any(task.needs)

        walk = Walk(a, r, task.labels, task.reference_labels, task.listed, within, loss.euclidean, loss.repeats)
        totals = None
        if want_slopes and loss.totals_before_slopes and len(walk.starts) > 1:
            totals = _add_up(loss.sweep(block, False, None) for _, _, block in walk)
        sums = []
        for rows, measured, block in walk:
            sums.append(loss.sweep(block, want_slopes, totals))
            if block.slopes is not None:
                measured.add_gradients(block.slopes, None if grad_a is None else grad_a[rows], grad_r)
        value, scale = loss.reduce(_add_up(sums), len(a))

        if grad_a is not None:
            normalize_gradient_(grad_a.mul_(scale), a, a_lengths, loss.normalize)
        if grad_r is not None and not within:
            normalize_gradient_(grad_r.mul_(scale), r, r_lengths, loss.normalize)
        ctx.save_for_backward(grad_a, None if within else grad_r)
        return anchors.new_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        grad_a, grad_r = (None if grad is None else grad * upstream for grad in ctx.saved_tensors)
        return grad_a, grad_r, None


def _add_up(sums: Iterable[Tensor]) -> list[float]:
    stacked = list(sums)
    total = stacked[0] if len(stacked) == 1 else torch.stack(stacked).sum(dim=0, dtype=torch.float64)
    values: list[float] = total.tolist()
    return values
