"""Exact nearest neighbours in order, ties to the lower index: the search under the retrieval metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_FEW_DIMENSIONS = 8  # up to here direct differences cost no more than a product
_GATHER = 1 << 18  # numbers gathered at once for direct differences, 1 MiB: they stay in the cache
_UNIT = 2.0**-24  # rounding unit of float32


class NeighbourSearch:
    """The k nearest references of given queries by direct float32 (float64 for float64) differences.

    In few dimensions all distances are taken directly. In many, a matrix product gives every squared distance with a
    known bound on its rounding error; what the bound cannot rule out is measured again directly, so that the result
    is that of the direct differences and equal rows tie exactly.

    queries : (n, D). references : (m, D), of one dtype. exclude_self : query i is reference i and is left out.
    """

    def __init__(self, queries: Array, references: Array, *, exclude_self: bool) -> None:
        largest = max(float(np.abs(queries).max()), float(np.abs(references).max()))
        # A power of two is an exact scale: squares of huge or tiny numbers then neither overflow nor vanish.
        scale = 2.0 ** -np.frexp(largest)[1] if largest > 0 else 1.0
        self._queries = queries * queries.dtype.type(scale)
        self._references = self._queries if exclude_self else references * references.dtype.type(scale)
        self._exclude_self = exclude_self
        self.available = len(references) - int(exclude_self)
        if queries.shape[1] > _FEW_DIMENSIONS:
            self._squares = np.einsum("ij,ij->i", self._references, self._references)
            self._query_norms = np.sqrt(np.einsum("ij,ij->i", self._queries, self._queries))
        else:
            self._columns = np.ascontiguousarray(self._references.T)

    def nearest(self, rows: Array, k: int) -> Array:
        """Indices (b, k) of the k nearest references of the queries `rows` (b,), nearest first; k <= `available`."""
        if self._queries.shape[1] <= _FEW_DIMENSIONS:
            distance = self._direct_all(rows)
            self._leave_out_self(distance, rows)
            return _ordered(distance, k)
        approximate = self._queries[rows] @ self._references.T
        approximate *= -2.0
        approximate += self._squares
        self._leave_out_self(approximate, rows)
        return self._refined(rows, approximate, k)

    def _leave_out_self(self, distance: Array, rows: Array) -> None:
        if self._exclude_self:
            distance[np.arange(rows.size), rows] = np.inf

    def _direct_all(self, rows: Array) -> Array:
        """Squared distances (b, m) of all references, one dimension after the other."""
        total = np.zeros((rows.size, len(self._references)), self._queries.dtype)
        step = np.empty_like(total)
        for query, reference in zip(self._queries[rows].T, self._columns, strict=True):
            np.subtract(query[:, None], reference, out=step)
            step *= step
            total += step
        return total

    def _refined(self, rows: Array, approximate: Array, k: int) -> Array:
        """Nearest by direct differences among those that `approximate` (b, m), short of |q|^2, cannot rule out."""
        threshold = self._threshold(rows, np.partition(approximate, k - 1, axis=1)[:, k - 1])
        row, column = np.nonzero(approximate <= threshold[:, None])
        count = np.bincount(row, minlength=rows.size)
        slot = np.arange(row.size) - np.repeat(count.cumsum() - count, count)
        distance = np.full((rows.size, int(count.max())), np.inf, approximate.dtype)
        distance[row, slot] = self._direct_pairs(rows[row], column)
        candidates = np.zeros(distance.shape, np.int64)
        candidates[row, slot] = column  # ascending in each row: a tie goes to the lower index
        return np.take_along_axis(candidates, _ordered(distance, k), axis=1)

    def _threshold(self, rows: Array, kth: Array) -> Array:
        """Bound (b,) on `approximate` beyond which a reference cannot be among the k nearest.

        A product of D terms errs by at most D u |q| |r| (u the rounding unit), whatever the order of its sum, the rest of the
        sum by a few u; a direct squared distance by (D + 2) u of itself.
        """
        size = self._queries.shape[1]
        unit = _UNIT if self._queries.dtype == np.float32 else 2.0**-53
        norm, largest = self._query_norms[rows].astype(np.float64), float(np.sqrt(self._squares.max()))
        error = unit * (2 * size + 8) * (norm + largest) * largest
        true_kth = np.maximum(kth + norm**2 + error, 0.0)
        return np.asarray(kth + 2 * error + 2 * (size + 4) * unit * true_kth)

    def _direct_pairs(self, query: Array, reference: Array) -> Array:
        """Squared distances (p,) of pairs, by direct differences, a cacheful at a time."""
        result = np.empty(query.size, self._queries.dtype)
        step = max(1, _GATHER // self._queries.shape[1])
        for start in range(0, query.size, step):
            part = slice(start, start + step)
            difference = self._references[reference[part]]
            difference -= self._queries[query[part]]
            np.einsum("ij,ij->i", difference, difference, out=result[part])
        return result


def _ordered(distance: Array, k: int) -> Array:
    """Columns (b, k) of the k smallest of each row, in order, the lower column first among equals."""
    if distance.dtype != np.float32:
        return np.argsort(distance, axis=1, kind="stable")[:, :k]
    # The bits of a float32 >= 0 grow with it. Above a column number they make a key without ties, and NumPy
    # partitions and sorts such integers many times faster than it argsorts.
    keys = distance.view(np.int32).astype(np.int64)
    keys <<= 32
    keys |= np.arange(distance.shape[1])
    if k < distance.shape[1]:
        keys.partition(k - 1, axis=1)
    keys = np.sort(keys[:, :k], axis=1)
    return keys & 0xFFFFFFFF
