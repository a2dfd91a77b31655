"""How every pair loss walks over its pairs: blocks of anchor rows, the gradient made on the way.

A loss over (anchor, reference) pairs depends on the two inputs only through a matrix of similarities or distances.
`_Sweep` forms that matrix a few rows at a time, lets the loss turn values into slopes (the derivative of the loss by
each value), carries the slopes back to the two inputs at once and forgets the block. Nothing of size (N, M) is ever
kept for the backward pass: only the gradients of the two inputs are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from labkit.errors import LabError
from labkit.geometry import DIRECT_WIDTH, DistanceBlock, normalize_gradient_, normalize_rows
from labkit.losses.base import BaseLoss, Batch
from labkit.validation import check_choice

BLOCK_ELEMENTS = {"cpu": 1 << 20}  # 4 MB of float32: a block that stays in the cache of a processor
BLOCK_ELEMENTS_ELSEWHERE = 1 << 25  # an accelerator wants long rows of work instead


class SimilarityBlock:
    """Dot products of x (r, D) with y (m, D), and the way back; the counterpart of DistanceBlock."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y
        self.values = x @ y.T

    def add_gradients(self, slopes: Tensor, grad_x: Tensor | None, grad_y: Tensor | None) -> None:
        """Add to grad_x (r, D) and grad_y (m, D) what `slopes` (r, m) say of each product."""
        if grad_x is not None:
            grad_x.addmm_(slopes, self.y)
        if grad_y is not None:
            grad_y.addmm_(slopes.T, self.x)


class PairBlock:
    """A few anchors against all references: the values, and which of them are positive and negative.

    Attributes
    ----------
    values : (r, M) distances or similarities.
    positive : (P,) indices of the positive pairs into the flattened values.
    negative : (Q,) likewise, or None where every pair is negative that is neither positive nor a self-pair.
    self_pairs : column of the first anchor's own pair, or None where there are no self-pairs.
    slopes : (r, M) derivative of the loss by each value, once `set_slopes` has been called.
    """

    def __init__(self, values: Tensor, positive: Tensor, negative: Tensor | None, self_pairs: int | None) -> None:
        self.values, self.positive, self.negative, self.self_pairs = values, positive, negative, self_pairs
        self.slopes: Tensor | None = None

    def positive_values(self) -> Tensor:
        """(P,) values of the positive pairs."""
        return self.values.view(-1)[self.positive]

    def positive_rows(self) -> Tensor:
        """(P,) block row of each positive pair, ascending unless a miner gave the pairs."""
        return self.positive.div(self.values.shape[1], rounding_mode="floor")

    def negative_values(self, never: float) -> Tensor:
        """A fresh (Q,) of the listed negatives, or (r, M) with `never` wherever there is no negative."""
        return self.negative_matrix(never) if self.negative is None else self.values.view(-1)[self.negative]

    def negative_matrix(self, never: float) -> Tensor:
        """A fresh (r, M): the value of each negative pair, `never` elsewhere; a pair listed twice stands once."""
        if self.negative is not None:
            matrix = torch.full_like(self.values, never)
            matrix.view(-1)[self.negative] = self.values.view(-1)[self.negative]
            return matrix
        matrix = self.values.clone()
        matrix.view(-1)[self.positive] = never
        if self.self_pairs is not None:
            matrix.diagonal(self.self_pairs).fill_(never)
        return matrix

    def set_slopes(self, positive: Tensor, negative: Tensor) -> None:
        """Put together slopes of the positives (P,) and of the negatives, (Q,) or (r, M) with zeros elsewhere."""
        if negative.ndim == 2:
            self.slopes = negative
        else:
            assert self.negative is not None
            self.slopes = torch.zeros_like(self.values)
            self.slopes.view(-1).index_add_(0, self.negative, negative)
        self.slopes.view(-1).index_add_(0, self.positive, positive)


class PairLoss(BaseLoss):
    """A loss over pairs of anchors and references; what subclasses fill in is `sweep` and `reduce`.

    Parameters
    ----------
    anchor : with references given, "proxy" makes them the anchors and the embeddings their positives and negatives,
        as the paper on chance constraints has it; "sample" makes the embeddings the anchors. Within a batch it has no
        meaning. Matters only where anchors are counted or compared: not for `ContrastiveLoss`.
    normalize : "lipschitz", "l2" or None, applied to both sides.
    """

    euclidean = False  # whether values are distances (else dot products)
    totals_before_slopes = False  # whether a slope depends on sums over all pairs

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
        if batch.references is None and len(batch.embeddings) == 1:
            raise LabError(
                "embeddings",
                "at least two rows, or references in ref_emb",
                "one row",
                "One sample alone makes no pair.",
            )
        pairs = _listed_pairs(batch.terms)
        anchors, references = batch.embeddings, batch.references
        labels, reference_labels = batch.labels, batch.reference_labels
        if references is not None and reference_labels is not None and self.anchor == "proxy":
            anchors, references, labels, reference_labels = references, anchors, reference_labels, labels
            pairs = None if pairs is None else tuple((column, row) for row, column in pairs)
        return run_sweep(self, anchors, references, labels, reference_labels, pairs)


Pairs = tuple[tuple[Tensor, Tensor], ...]  # (rows, columns) of the positives, then of the negatives


def _listed_pairs(terms: tuple[Tensor, ...] | None) -> Pairs | None:
    if terms is None:
        return None
    a, p, a_again, n = terms if len(terms) == 4 else (terms[0], terms[1], terms[0], terms[2])
    return (a, p), (a_again, n)


def run_sweep(
    loss: PairLoss,
    anchors: Tensor,
    references: Tensor | None,
    labels: Tensor,
    reference_labels: Tensor | None,
    pairs: Pairs | None = None,
) -> Tensor:
    """The loss of all pairs, or of the listed `pairs`, of anchors (N, D) and references (M, D; None: the anchors)."""
    gradients = torch.is_grad_enabled()
    needs = (gradients and anchors.requires_grad, gradients and references is not None and references.requires_grad)
    task = _Task(loss, labels, labels if reference_labels is None else reference_labels, pairs, needs)
    result: Tensor = _Sweep.apply(anchors, references, task)
    return result


@dataclass(frozen=True)
class _Task:
    loss: PairLoss
    labels: Tensor
    reference_labels: Tensor
    pairs: Pairs | None
    needs: tuple[bool, bool]


class _Sweep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, references: Tensor | None, task: _Task) -> Tensor:
        loss = task.loss
        a, a_lengths = normalize_rows(anchors, loss.normalize)
        r, r_lengths = (a, a_lengths) if references is None else normalize_rows(references, loss.normalize)
        grad_a = torch.zeros_like(a) if task.needs[0] else None
        grad_r = grad_a if references is None else torch.zeros_like(r) if task.needs[1] else None
        want_slopes = any(task.needs)

        blocks = _Blocks(task, a, r, within=references is None)
        totals = None
        if want_slopes and loss.totals_before_slopes and len(blocks.starts) > 1:
            totals = _add_up(loss.sweep(block, False, None) for _, _, block in blocks)
        sums = []
        for rows, measured, block in blocks:
            sums.append(loss.sweep(block, want_slopes, totals))
            if block.slopes is not None:
                measured.add_gradients(block.slopes, None if grad_a is None else grad_a[rows], grad_r)
        value, scale = loss.reduce(_add_up(sums), len(a))

        grads = []
        for grad, unit, lengths in ((grad_a, a, a_lengths), (None if references is None else grad_r, r, r_lengths)):
            if grad is not None:
                normalize_gradient_(grad.mul_(scale) if scale != 1.0 else grad, unit, lengths, loss.normalize)
            grads.append(grad)
        ctx.save_for_backward(*grads)
        return anchors.new_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        grad_a, grad_r = (None if grad is None else grad * upstream for grad in ctx.saved_tensors)
        return grad_a, grad_r, None


def _add_up(sums: Any) -> list[float]:
    stacked = list(sums)
    total = stacked[0] if len(stacked) == 1 else torch.stack(stacked).sum(dim=0, dtype=torch.float64)
    values: list[float] = total.tolist()
    return values


class _Blocks:
    """Iterates over (rows of the anchors, measured block, its pairs)."""

    def __init__(self, task: _Task, a: Tensor, r: Tensor, within: bool) -> None:
        self.task, self.a, self.r, self.within = task, a, r, within
        width = len(r) * (a.shape[1] if task.loss.euclidean and a.shape[1] <= DIRECT_WIDTH else 1)
        self.height = max(1, BLOCK_ELEMENTS.get(a.device.type, BLOCK_ELEMENTS_ELSEWHERE) // width)
        self.starts = range(0, len(a), self.height)
        self.listed = None if task.pairs is None else [_sorted_by_row(*pair) for pair in task.pairs]

    def __iter__(self) -> Iterator[tuple[slice, DistanceBlock | SimilarityBlock, PairBlock]]:
        measure = DistanceBlock if self.task.loss.euclidean else SimilarityBlock
        for start in self.starts:
            rows = slice(start, start + self.height)
            measured = measure(self.a[rows], self.r)
            yield rows, measured, self._pairs(start, rows, measured.values)

    def _pairs(self, start: int, rows: slice, values: Tensor) -> PairBlock:
        if self.listed is not None:
            positive, negative = (self._listed_in(start, *pair) for pair in self.listed)
            return PairBlock(values, positive, negative, None)
        same = self.task.labels[rows].unsqueeze(1) == self.task.reference_labels
        if self.within:
            same.diagonal(start).fill_(False)
        return PairBlock(values, same.view(-1).nonzero().squeeze(1), None, start if self.within else None)

    def _listed_in(self, start: int, rows: Tensor, columns: Tensor) -> Tensor:
        """Flat indices into the block of those listed pairs whose rows it holds."""
        first, last = torch.searchsorted(rows, torch.tensor([start, start + self.height], device=rows.device)).tolist()
        return (rows[first:last] - start) * len(self.r) + columns[first:last]


def _sorted_by_row(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    order = rows.argsort(stable=True)
    return rows[order], columns[order]
