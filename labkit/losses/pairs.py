"""How every pair loss walks over its pairs: blocks of anchor rows, the gradient made on the way.

A loss over (anchor, reference) pairs depends on the two inputs only through a matrix of similarities or distances.
`_Sweep` forms that matrix a few rows at a time, lets the loss turn values into slopes (the derivative of the loss by
each value), carries the slopes back to the two inputs at once and forgets the block. Nothing of size (N, M) is ever
kept for the backward pass: only the gradients of the two inputs are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labkit.autograd import first_derivative
from labkit.errors import LabError
from labkit.geometry import normalize_gradient_, normalize_rows
from labkit.losses.base import BaseLoss
from labkit.losses.batch import Batch
from labkit.losses.blocks import Listed, PairBlock, Walk
from labkit.losses.eager import check_held
from labkit.validation import check_choice

MANY_ANCHORS = 1024  # from which on it pays to leave out those without effect
Sums = tuple[float, ...]  # what a loss adds up over all pairs


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
    symmetric = False  # whether, within a batch, a pair's slope is the same from both of its ends
    totals_before_slopes = False  # whether a slope depends on sums over all pairs
    triplets_as_they_are = False  # whether a miner's triplets are the terms, rather than two pairs each
    needs_positives = False  # whether an anchor without positives is without effect, even on the reduction
    repeats = False  # whether a pair that a miner names twice counts twice
    gallery_is_constant = False  # whether, within a batch, a pair moves its anchor only

    def __init__(self, anchor: str, normalize: str | None) -> None:
        super().__init__(normalize)
        self.anchor = anchor

    def sweep(self, block: PairBlock, want_slopes: bool, totals: Sums | None) -> Sums:
        """Sums over this block; with `want_slopes` also call `block.set_slopes`.

        `totals` holds the sums over all blocks, or None where this block is the only one or they are not needed yet.
        """
        raise NotImplementedError

    def reduce(self, totals: Sums, n_anchors: int) -> tuple[float, float]:
        """The loss from the sums over all blocks, and the factor that all slopes still need."""
        raise NotImplementedError

    def compute(self, batch: Batch) -> Tensor:
        check_choice("anchor", self.anchor, ("proxy", "sample"))
        anchors, references = batch.embeddings, batch.references
        labels, reference_labels = batch.labels, batch.reference_labels
        excluded, kinds = batch.excluded, (self.normalize, None if batch.normalized else self.normalize)
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
            excluded, kinds = None if excluded is None else excluded[::-1], kinds[::-1]
        if self.needs_positives and listed is None and reference_labels is not None and len(anchors) > MANY_ANCHORS:
            keep = torch.isin(labels, reference_labels)
            keep[0] = True  # an empty set of anchors would be a case of its own
            anchors, labels = anchors[keep], labels[keep]
            if excluded is not None:
                kept = keep[excluded[0]]
                excluded = (keep.cumsum(0) - 1)[excluded[0][kept]], excluded[1][kept]
        return run_sweep(self, anchors, references, labels, reference_labels, kinds, listed, excluded)


def run_sweep(
    loss: PairLoss,
    anchors: Tensor,
    references: Tensor | None,
    labels: Tensor,
    reference_labels: Tensor | None,
    kinds: tuple[str | None, str | None],
    listed: Listed | None = None,
    excluded: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The loss of all pairs, or of the `listed` ones, of anchors (N, D) and references (M, D; None: the anchors).

    `kinds` of normalisation for anchors and references. `excluded` pairs of (anchors, references) are left out of all.
    """
    on = torch.is_grad_enabled()
    needs = (on and anchors.requires_grad, on and references is not None and references.requires_grad)
    reference_labels = labels if reference_labels is None else reference_labels
    flat = None if excluded is None else (excluded[0] * len(reference_labels) + excluded[1]).sort().values
    task = _Task(loss, labels, reference_labels, kinds, listed, flat, needs, settings_of(loss))
    result: Tensor = _Sweep.apply(anchors, references, task)
    return result


def settings_of(loss: PairLoss) -> dict[str, Any]:
    """Its numbers, words and switches, by name."""
    return {name: value for name, value in vars(loss).items() if isinstance(value, int | float | str | None)}


@dataclass(frozen=True)
class _Task:
    loss: PairLoss
    labels: Tensor
    reference_labels: Tensor
    kinds: tuple[str | None, str | None]
    listed: Listed | None
    excluded: Tensor | None
    needs: tuple[bool, bool]
    settings: dict[str, Any]  # of the loss, as they were

    def solve_again(self, anchors: Tensor, references: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The gradients once more, for a second pass through a retained graph."""
        moved = {k: v for k, v in settings_of(self.loss).items() if v != self.settings.get(k)}
        if moved:
            name, value = next(iter(moved.items()))
            hint = "Call the loss again after a setting was moved."
            raise LabError(name, f"{self.settings.get(name)}, as when the loss was computed", value, hint)
        return self.solve(anchors, references)[1:]

    def solve(self, anchors: Tensor, references: Tensor | None) -> tuple[float, Tensor | None, Tensor | None]:
        """The loss, and its gradients with respect to both inputs where they are needed."""
        loss, want_slopes = self.loss, any(self.needs)
        within = references is None
        r, r_lengths = normalize_rows(anchors if references is None else references, self.kinds[1])
        grad_a = torch.zeros_like(anchors) if self.needs[0] else None
        grad_r = grad_a if within else torch.zeros_like(r) if self.needs[1] else None
        walk = self._walk(r if within else anchors, r, within)
        totals = None
        if want_slopes and loss.totals_before_slopes and len(walk.starts) > 1:
            totals = _add_up(loss.sweep(step.pairs, False, None) for step in walk)
        grad_others = None if within and loss.gallery_is_constant else grad_r
        sums = []  # plain numbers: on the processor cheaper than tensors of no dimension
        for step in walk:
            sums.append(loss.sweep(step.pairs, want_slopes, totals))
            if step.pairs.slopes is not None:
                grad = None if grad_a is None else grad_a[step.rows]
                step.add_gradients(grad, grad_others, loss.symmetric and self.listed is None and self.excluded is None)
                if grad is not None and not within:
                    normalize_gradient_(grad, step.measured.x, step.lengths, self.kinds[0])
        value, scale = loss.reduce(_add_up(sums), len(anchors))
        if grad_r is not None:
            normalize_gradient_(grad_r, r, r_lengths, self.kinds[1]).mul_(scale)
        if grad_a is not None and not within:
            grad_a.mul_(scale)
        return value, grad_a, None if within else grad_r

    def _walk(self, a: Tensor, r: Tensor, within: bool) -> Walk:
        loss = self.loss
        how = self.kinds[0], loss.euclidean, loss.repeats
        return Walk(a, r, self.labels, self.reference_labels, self.listed, self.excluded, within, *how)


class _Sweep(torch.autograd.Function):
    """The gradients are made with the loss and given away by the first backward pass, so that nothing is copied; a
    second pass through a retained graph makes them again."""

    @staticmethod
    def forward(ctx: Any, anchors: Tensor, references: Tensor | None, task: _Task) -> Tensor:
        value, *ctx.gradients = task.solve(anchors, references)
        check_held(value, ctx.gradients, anchors.dtype)
        ctx.task = task
        ctx.save_for_backward(anchors, references, task.labels, task.reference_labels)  # torch tells if they are changed
        return anchors.new_tensor(value)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        anchors, references, *_ = ctx.saved_tensors
        grad_a, grad_r = ctx.gradients or ctx.task.solve_again(anchors, references)
        ctx.gradients = None
        for grad in (grad_a, grad_r):
            if grad is not None:
                grad.mul_(upstream)
        return grad_a, grad_r, None


def _add_up(sums: Iterable[Sums]) -> Sums:
    return tuple(math.fsum(column) for column in zip(*sums))


def sum_and_count(costs: Tensor) -> tuple[float, float]:
    """The sum of costs >= 0 and how many of them are above 0."""
    return costs.sum().item(), costs.count_nonzero().item()
