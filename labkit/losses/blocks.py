"""The pairs of a loss a block of anchor rows at a time, all of them or those that a miner left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.geometry import normalize_rows
from labkit.measures import DIRECT_WIDTH, PAIRS_AT_ONCE, DistanceBlock, SimilarityBlock, squared_lengths

BLOCK_ELEMENTS = {"cpu": 1 << 21}  # 8 MB of float32: larger blocks are hardly faster there
WORTH_COUNTING = 1 << 19  # slopes from which on it pays to ask how many are not zero
FEW_SLOPES = 64  # one in so many
BLOCK_ELEMENTS_ELSEWHERE = 1 << 25  # an accelerator wants long rows of work instead


@dataclass(frozen=True)
class Listed:
    """The pairs that a miner left: (rows, columns) of the positives and of the negatives.

    `aligned`: the two lists are the two sides of triplets, entry by entry.
    """

    positive: tuple[Tensor, Tensor]
    negative: tuple[Tensor, Tensor]
    aligned: bool

    @classmethod
    def from_terms(cls, terms: tuple[Tensor, ...]) -> Listed:
        """From (a, p, n) or (a, p, a, n)."""
        if len(terms) == 3:
            return cls((terms[0], terms[1]), (terms[0], terms[2]), True)
        return cls((terms[0], terms[1]), (terms[2], terms[3]), False)

    def swapped(self) -> Listed:
        """With rows and columns exchanged."""
        return Listed(self.positive[::-1], self.negative[::-1], False)

    def sorted_by_row(self) -> Listed:
        """In ascending rows, so that each block's pairs lie together; a stable sort leaves triplets aligned."""
        positive, negative = (
            (rows[order], columns[order])
            for rows, columns, order in (
                (*pair, pair[0].argsort(stable=True)) for pair in (self.positive, self.negative)
            )
        )
        return Listed(positive, negative, self.aligned)


class PairBlock:
    """A few anchors against all references: the values, and which of them are positive and negative.

    Attributes
    ----------
    values : (r, M) distances or similarities; with `spare` they are overwritten once the negatives are asked for.
    positive : (P,) indices of the positive pairs into the flattened values, in ascending rows.
    negative : (Q,) likewise, or None where every pair is negative that is neither positive nor a self-pair.
    self_pairs : column of the first anchor's own pair, or None where there are no self-pairs.
    aligned : whether `positive` and `negative` are the two sides of triplets, entry by entry.
    excluded : indices into the flattened values of pairs that are neither positive nor negative, or None.
    slopes : (r, M) derivative of the loss by each value, once `set_slopes` has been called.
    """

    def __init__(
        self,
        values: Tensor,
        positive: Tensor,
        negative: Tensor | None = None,
        self_pairs: int | None = None,
        aligned: bool = False,
        excluded: Tensor | None = None,
        spare: bool = False,
    ) -> None:
        self.values, self.positive, self.negative = values, positive, negative
        self.self_pairs, self.aligned, self.excluded = self_pairs, aligned, excluded
        self.spare = spare
        self.slopes: Tensor | None = None

    def positive_values(self) -> Tensor:
        """A fresh (P,): the values of the positive pairs."""
        return self.values.view(-1)[self.positive]

    def positive_rows(self) -> Tensor:
        """(P,) block row of each positive pair, ascending."""
        return self.positive.div(self.values.shape[1], rounding_mode="floor")

    def negative_values(self, never: float) -> Tensor:
        """A fresh (Q,) of the listed negatives, or (r, M) with `never` wherever there is no negative."""
        return self.negative_matrix(never) if self.negative is None else self.values.view(-1)[self.negative]

    def negative_matrix(self, never: float) -> Tensor:
        """An (r, M) to write on: the value of each negative pair, `never` elsewhere. Ask for the positives before."""
        if self.negative is not None:
            matrix = torch.full_like(self.values, never)
            matrix.view(-1)[self.negative] = self.values.view(-1)[self.negative]
            return matrix
        return self._without_others(self.values if self.spare else self.values.clone(), never)

    def negative_shortfalls(self, margin: float) -> Tensor:
        """What each negative's value lacks of a margin, 0 where it lacks nothing: (Q,), or (r, M) with 0 elsewhere."""
        if self.negative is not None:
            return (margin - self.values.view(-1)[self.negative]).clamp_(min=0.0)
        return self._without_others((margin - self.values).clamp_(min=0.0), 0.0)

    def _without_others(self, matrix: Tensor, never: float) -> Tensor:
        """The matrix (r, M) with `never` wherever there is no negative pair, of all those that are."""
        matrix.view(-1)[self.positive] = never
        if self.self_pairs is not None:
            matrix.diagonal(self.self_pairs).fill_(never)
        if self.excluded is not None:
            matrix.view(-1)[self.excluded] = never
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


@dataclass(frozen=True)
class Step:
    """One block of a walk: which anchors, how long they were before normalisation, the measure, and the pairs.

    `whole`: the block holds every pair within a batch, so that anchors and references are the same rows.
    """

    rows: slice
    lengths: Tensor | None
    measured: DistanceBlock | SimilarityBlock
    pairs: PairBlock
    whole: bool

    def add_gradients(self, grad: Tensor | None, grad_others: Tensor | None, symmetric: bool) -> None:
        """Add what the slopes say to the gradients of these anchors (r, D) and of the references (M, D).

        `symmetric`: within a batch, the slopes of a pair are the same from both ends.
        In training most pairs soon cost nothing: a few slopes are looked up, many multiplied.
        """
        slopes, values = self.pairs.slopes, self.pairs.values
        if slopes is None:
            return
        if slopes.numel() >= WORTH_COUNTING and FEW_SLOPES * int(slopes.count_nonzero()) <= slopes.numel():
            for chosen in torch.split(slopes.view(-1).nonzero().squeeze(1), PAIRS_AT_ONCE):
                pairs = chosen.div(slopes.shape[1], rounding_mode="floor"), chosen % slopes.shape[1]
                picked = slopes.view(-1)[chosen], values.view(-1)[chosen]
                self.measured.add_listed_gradients(pairs, *picked, (grad, grad_others))
        else:
            self.measured.add_gradients(slopes, grad, grad_others, self.whole and grad_others is not None, symmetric)


@dataclass(frozen=True)
class Walk:
    """Iterates over blocks of the pairs of anchors (N, D) and references (M, D).

    The references are normalised; so are the anchors where they are the same (`within`), else each block of them is
    on the way, `normalize` saying how. `repeats`: a pair listed twice counts twice. `excluded`: ascending indices into
    the flattened (N, M) pairs, left out where none are listed.
    """

    anchors: Tensor
    references: Tensor
    labels: Tensor
    reference_labels: Tensor
    listed: Listed | None
    excluded: Tensor | None
    within: bool
    normalize: str | None
    euclidean: bool
    repeats: bool

    @property
    def starts(self) -> range:
        """First anchor of each block; the step is the height of a block."""
        direct = self.euclidean and self.anchors.shape[1] <= DIRECT_WIDTH  # forms D differences for each pair
        columns = self.anchors.shape[1]
        width = max(len(self.references) * (columns if direct else 1), 2 * columns)
        elements = BLOCK_ELEMENTS.get(self.anchors.device.type, BLOCK_ELEMENTS_ELSEWHERE)
        return range(0, len(self.anchors), max(1, elements // width))

    def __iter__(self) -> Iterator[Step]:
        listed = None if self.listed is None else self.listed.sorted_by_row()
        squared = squared_lengths(self.references) if self.euclidean else None
        starts = self.starts
        measured: DistanceBlock | SimilarityBlock
        for start in starts:
            rows = slice(start, start + starts.step)
            x, lengths = normalize_rows(self.anchors[rows], None if self.within else self.normalize)
            if self.euclidean:
                measured = DistanceBlock(x, self.references, start if self.within else None, squared)
            else:
                measured = SimilarityBlock(x, self.references)
            values = measured.values
            pairs = self._all_pairs(rows, values) if listed is None else self._listed(listed, rows, values)
            yield Step(rows, lengths, measured, pairs, self.within and len(starts) == 1)

    def _all_pairs(self, rows: slice, values: Tensor) -> PairBlock:
        same = self.labels[rows].unsqueeze(1) == self.reference_labels
        if self.within:
            same.diagonal(rows.start).fill_(False)
        excluded = None
        if self.excluded is not None:
            first = rows.start * values.shape[1]
            ends = self.excluded.new_tensor([first, first + values.numel()])
            excluded = self.excluded[slice(*torch.searchsorted(self.excluded, ends).tolist())] - first
            same.view(-1)[excluded] = False
        positive = same.view(-1).nonzero().squeeze(1)
        own = rows.start if self.within else None
        return PairBlock(values, positive, self_pairs=own, excluded=excluded, spare=not self.euclidean)

    def _listed(self, listed: Listed, rows: slice, values: Tensor) -> PairBlock:
        flat = []
        for row, column in (listed.positive, listed.negative):
            first, last = torch.searchsorted(row, row.new_tensor([rows.start, rows.stop])).tolist()
            index = (row[first:last] - rows.start) * values.shape[1] + column[first:last]
            flat.append(index if self.repeats or listed.aligned else index.unique())
        return PairBlock(values, flat[0], flat[1], aligned=listed.aligned)
