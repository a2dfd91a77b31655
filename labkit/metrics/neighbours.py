"""Exact nearest neighbours in order, ties to the lower index: the search under the retrieval metrics."""

from __future__ import annotations

import threading
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
        self._buffers = threading.local()  # one set per thread: fresh memory for every block would cost as much as the work
        self.available = len(references) - int(exclude_self)
        self.few = queries.shape[1] <= _FEW_DIMENSIONS
        if self.few:
            self._columns = np.ascontiguousarray(self._references.T)
        else:
            self._doubled = self._queries * -2
            self._squares = np.einsum("ij,ij->i", self._references, self._references)
            self._query_norms = np.sqrt(np.einsum("ij,ij->i", self._queries, self._queries))

    def nearest(self, rows: Array, k: int) -> Array:
        """Indices (b, k) of the k nearest references of the queries `rows` (b,), nearest first; k <= `available`."""
        distance = self._direct_all(rows) if self.few else self._by_product(rows)
        if self._exclude_self:
            distance[np.arange(rows.size), rows] = np.inf
        parted = self._buffer("parted", distance.shape)
        parted[:] = distance
        parted.partition(k - 1, axis=1)
        limit = parted[:, k - 1] if self.few else self._widened(rows, parted[:, k - 1])
        within = np.less_equal(distance, limit[:, None], out=self._buffer("within", distance.shape, np.bool_))
        count = np.count_nonzero(within, axis=1)
        place = np.flatnonzero(within)
        row = np.repeat(np.arange(rows.size), count)
        column = place - row * distance.shape[1]
        exact = distance.reshape(-1)[place] if self.few else self._direct_pairs(rows[row], column)
        # Columns rise within a row, so that the first of two equal distances is that of the lower index.
        candidates, exact = _rectangle(column, count, 0), _rectangle(exact, count, np.inf)
        return np.take_along_axis(candidates, _ordered(exact)[:, :k], axis=1)

    def _by_product(self, rows: Array) -> Array:
        """Squared distances (b, m) of all references short of |q|^2, by a matrix product."""
        product = self._buffer("distance", (rows.size, len(self._references)))
        np.matmul(self._doubled[rows], self._references.T, out=product)
        product += self._squares
        return product

    def _direct_all(self, rows: Array) -> Array:
        """Squared distances (b, m) of all references, one dimension after the other."""
        total = self._buffer("distance", (rows.size, len(self._references)))
        total[:] = 0
        step = np.empty(len(self._references), self._queries.dtype)
        for one, query in zip(total, self._queries[rows], strict=True):
            for value, reference in zip(query, self._columns, strict=True):
                np.subtract(reference, value, out=step)
                step *= step
                one += step
        return total

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Memory of this thread under a name, of the queries' dtype unless told; what it holds is left over."""
        size = int(np.prod(shape))
        held = getattr(self._buffers, name, None)
        if held is None or held.size < size:
            held = np.empty(size, dtype or self._queries.dtype)
            setattr(self._buffers, name, held)
        return held[:size].reshape(shape)

    def _widened(self, rows: Array, kth: Array) -> Array:
        """Bound (b,) on the product's distances beyond which a reference cannot be among the k nearest.

        kth : the k-th smallest of them (b,).

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


def _rectangle(values: Array, count: Array, fill: float) -> Array:
    """Consecutive runs of `count` (b,) values as the rows of one array, filled up at the end."""
    width = int(count.max())
    if values.size == width * count.size:
        return values.reshape(count.size, width)
    table = np.full((count.size, width), fill, values.dtype)
    table[np.arange(width) < count[:, None]] = values
    return table


def _ordered(distance: Array) -> Array:
    """Columns of each row by distance (b, w), the lower column first among equals."""
    if distance.dtype != np.float32:
        return np.argsort(distance, axis=1, kind="stable")
    # The bits of a float32 >= 0 grow with it. Above a column number they make a key without ties, and NumPy
    # sorts such integers many times faster than it argsorts.
    keys = distance.view(np.int32).astype(np.int64)
    keys <<= 32
    keys |= np.arange(distance.shape[1])
    keys.sort(axis=1)
    return keys & 0xFFFFFFFF
