"""Exact nearest neighbours in order, ties to the lower index: the search under the retrieval metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from labkit.scaling import binary_scale

Array = np.ndarray[Any, Any]

_FEW_DIMENSIONS = 8  # up to here direct differences cost no more than a product
_AT_ONCE = 1 << 20  # distances held at once by a walk
_GATHER = 1 << 18  # numbers gathered at once for direct differences, 1 MiB: they stay in the cache
_INDEX = 0xFFFFFFFF  # the lower half of a key: a column number


class NeighbourSearch:
    """The nearest references of given queries by direct float32 (float64 for float64) differences.

    In few dimensions all distances are taken directly. In many, a matrix product gives every squared distance with a
    known bound on its rounding error; what that bound leaves open is measured again directly, so that the result
    is that of the direct differences and equal rows tie exactly.

    queries : (n, D). references : (m, D), of one dtype. exclude_self : query i is reference i and is left out.
    """

    def __init__(self, queries: Array, references: Array, *, exclude_self: bool) -> None:
        largest = max(float(np.abs(queries).max()), float(np.abs(references).max()))
        if queries.dtype == np.float32 and binary_scale(largest, torch.float32) != 1.0:
            # One row far away must not make the distances between all others vanish.
            queries, references = queries.astype(np.float64), references.astype(np.float64)
        # A power of two is an exact scale: squares of huge or tiny numbers then neither overflow nor vanish.
        dtype = torch.float64 if queries.dtype == np.float64 else torch.float32
        scale = binary_scale(largest, dtype, always=True)
        self.queries = queries * queries.dtype.type(scale)
        self.references = self.queries if exclude_self else references * references.dtype.type(scale)
        self.exclude_self = exclude_self
        self.available = len(references) - int(exclude_self)
        self.few = queries.shape[1] <= _FEW_DIMENSIONS
        self._buffers = threading.local()  # one set per thread: fresh memory for every block would cost as much as the work
        if self.few:
            self._columns = np.ascontiguousarray(self.references.T)
            return
        self.query_squares = np.einsum("ij,ij->i", self.queries, self.queries)
        self.squares = np.einsum("ij,ij->i", self.references, self.references)
        # A product of D terms errs by at most D u |q| |r| (u the rounding unit) whatever the order of its sum, a direct squared
        # distance by (D + 2) u of itself, the other sums by a few u: together no more than this, for query q.
        unit = np.finfo(queries.dtype).eps / 2
        reach = np.sqrt(self.query_squares.astype(np.float64)) + np.sqrt(float(self.squares.max()))
        self.error = (unit * (2 * queries.shape[1] + 16) * reach**2).astype(queries.dtype)

    def nearest(self, rows: Array, k: int) -> Array:
        """Indices (b, k) of the k nearest references of the queries `rows` (b,), nearest first; k <= `available`."""
        if self.few:
            return self._nearest_direct(rows, k)
        distance = self._by_product(rows)
        parted = self.buffer("parted", distance.shape)
        parted[:] = distance
        parted.partition(k - 1, axis=1)
        # The k smallest are at most `error` above their direct value, one that belongs among them at most so far below.
        limit = parted[:, k - 1, None] + 2 * self.error[rows, None]
        within = np.less_equal(distance, limit, out=self.buffer("within", distance.shape, np.bool_))
        count = np.count_nonzero(within, axis=1)
        place = np.flatnonzero(within)
        column = place - np.repeat(np.arange(rows.size) * distance.shape[1], count)
        value = distance.reshape(-1)[place] + np.repeat(self.query_squares[rows], count)
        return self.settle(rows, *ordered(rectangle(value, count, np.inf), rectangle(column, count, 0)))[:, :k]

    def walk(self, rows: Array, k: int) -> Iterator[tuple[Array, Array]]:
        """`nearest` of many queries, some at a time: which of `rows` they are (b,), and what was found (b, k)."""
        step = max(1, _AT_ONCE // len(self.references))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            yield block, self.nearest(block, k)

    def settle(self, rows: Array, value: Array, column: Array) -> Array:
        """Put candidates in the order of their direct distances.

        value : squared distances by product (b, w), ascending, inf where there is none. column : their references.
        Two neighbours in this order may be the wrong way round only where they are within twice the error.
        """
        finite = np.minimum(value, np.finfo(value.dtype).max)
        close = np.diff(finite, axis=1) <= 2 * self.error[rows, None]
        unsure = np.zeros(value.shape, np.bool_)
        unsure[:, 1:] = close
        unsure[:, :-1] |= close
        place = np.flatnonzero(unsure & np.isfinite(value))
        query = rows[place // value.shape[1]]
        value.reshape(-1)[place] = self._direct_pairs(query, column.reshape(-1)[place])
        return ordered(value, column)[1]

    def buffer(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Memory of this thread under a name, of the queries' dtype unless told; what it holds is left over."""
        size = int(np.prod(shape))
        held = getattr(self._buffers, name, None)
        if held is None or held.size < size:
            held = np.empty(size, dtype or self.queries.dtype)
            setattr(self._buffers, name, held)
        return held[:size].reshape(shape)

    def _by_product(self, rows: Array) -> Array:
        """Squared distances (b, m) of all references short of |q|^2."""
        product = self.buffer("distance", (rows.size, len(self.references)))
        np.matmul(self.queries[rows] * -2, self.references.T, out=product)
        product += self.squares
        if self.exclude_self:
            product[np.arange(rows.size), rows] = np.inf
        return product

    def _nearest_direct(self, rows: Array, k: int) -> Array:
        """As `nearest`, all distances directly, one dimension after the other."""
        shape = rows.size, len(self.references)
        total, step = self.buffer("distance", shape), self.buffer("step", shape)
        for dimension, (query, reference) in enumerate(zip(self.queries[rows].T, self._columns, strict=True)):
            square = step if dimension else total
            np.subtract(reference, query[:, None], out=square)
            square *= square
            if dimension:
                total += step
        if self.exclude_self:
            total[np.arange(rows.size), rows] = np.inf
        if total.dtype != np.float32:
            return np.argsort(total, axis=1, kind="stable")[:, :k]
        keys = _keys(total, np.arange(total.shape[1]), self.buffer("keys", total.shape, np.int64))
        keys.partition(k - 1, axis=1)
        return np.sort(keys[:, :k], axis=1) & _INDEX

    def _direct_pairs(self, query: Array, reference: Array) -> Array:
        """Squared distances (p,) of pairs, by direct differences, a cacheful at a time."""
        result = np.empty(query.size, self.queries.dtype)
        step = max(1, _GATHER // self.queries.shape[1])
        for start in range(0, query.size, step):
            part = slice(start, start + step)
            difference = self.references[reference[part]]
            difference -= self.queries[query[part]]
            np.einsum("ij,ij->i", difference, difference, out=result[part])
        return result


def rectangle(values: Array, count: Array, fill: float) -> Array:
    """Consecutive runs of `count` (b,) values as the rows of one array, filled up at the end."""
    width = int(count.max())
    if values.size == width * count.size:
        return values.reshape(count.size, width)
    table = np.full((count.size, width), fill, values.dtype)
    table[np.arange(width) < count[:, None]] = values
    return table


def ordered(value: Array, column: Array) -> tuple[Array, Array]:
    """Values >= 0 (slightly below counts as 0) and their columns (b, w), each row by value, then by column."""
    value = np.maximum(value, 0)
    if value.dtype != np.float32:
        order = np.lexsort((column, value), axis=1)
        return np.take_along_axis(value, order, axis=1), np.take_along_axis(column, order, axis=1)
    keys = _keys(value, column, np.empty(value.shape, np.int64))
    keys.sort(axis=1)
    return (keys >> 32).astype(np.int32).view(np.float32), keys & _INDEX


def _keys(value: Array, column: Array, out: Array) -> Array:
    """Integers that sort as (value, column) do, for float32 values >= 0.

    The bits of such a value grow with it. NumPy partitions and sorts integers many times faster than it argsorts.
    """
    out[:] = value.view(np.int32)
    out <<= 32
    out |= column
    return out
