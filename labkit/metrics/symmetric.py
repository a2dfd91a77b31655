"""Neighbours within one set: every pair multiplied once, for both of its ends."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from labkit.metrics.neighbours import NeighbourSearch, rectangle
from labkit.threads import in_threads

Array = np.ndarray[Any, Any]

_TILE = 1 << 11  # rows of a tile: a product of this size is fast, and a local row number takes 11 bits of a key
_STRIP = 1 << 17  # distances of a tile looked at in one go: they stay in the cache
_INDEX_BITS = 21  # bits of a key for a reference; a float32 >= 0 takes the 31 between
_CANDIDATES = 1 << 26  # keys that may be kept in all, 512 MiB
_FEWEST = 1 << 10  # rows from which the bookkeeping pays


def _tile(n: int) -> int:
    """Rows of a tile of a set of n: several tiles a side, for the threads and for the saving."""
    return min(_TILE, max(_FEWEST // 8, n // 8))


class SymmetricSearch:
    """The nearest of all other rows for every row of a float32 set, by half the products of `NeighbourSearch`.

    The matrix of distances is cut into square tiles and only those on and above the diagonal are computed. The tile on
    the diagonal bounds how far a row's k-th neighbour can be; from every other tile a row keeps what lies within that bound
    (rows of the tile and columns alike), as one integer: row, distance and reference, which a sort puts in order.

    search : of a set in itself, by product. wanted : number of neighbours (n,) for each row, 0 where none are needed.
    groups : (n,) a number for each row. Rows of one number share a tile; if they lie together, its bound is a close one.
    """

    def __init__(self, search: NeighbourSearch, wanted: Array, groups: Array) -> None:
        self._search = search
        self._order = np.argsort(groups, kind="stable")
        self._points = search.references[self._order]
        self._squares, self._error = search.squares[self._order], search.error[self._order]
        self._wanted = wanted[self._order]
        n = wanted.size
        edges = np.linspace(0, n, -(-n // _tile(n)) + 1).astype(int).tolist()
        self._rows = [slice(start, stop) for start, stop in pairwise(edges)]
        self._limit = np.full(n, -np.inf, np.float32)
        self._kept: list[list[Array]] = [[] for _ in self._rows]
        self._room = _CANDIDATES
        self.bands = [i for i, rows in enumerate(self._rows) if self._wanted[rows].any()]

    @staticmethod
    def suits(search: NeighbourSearch, wanted: Array) -> bool:
        """Whether the set is of a kind and size for which this pays and the candidates should fit their memory."""
        n = wanted.size
        if search.few or not search.exclude_self or search.queries.dtype != np.float32:
            return False
        expected = int(wanted.sum()) * (n // _tile(n) + 1)
        return _FEWEST <= n < 1 << _INDEX_BITS and int(wanted.max()) < _tile(n) // 4 and expected <= _CANDIDATES

    def sweep(self) -> bool:
        """Collect the candidates of all rows; False where they are too many, as when the set has collapsed to a point."""
        in_threads(self._diagonal, range(len(self._rows)))
        in_threads(self._off_diagonal, list(combinations(range(len(self._rows)), 2)))
        return self._room >= 0

    def nearest(self, band: int) -> tuple[Array, Array]:
        """Rows of a band that want neighbours, and the references (b, w) nearest to each, nearest first.

        Of the w columns a row's first `wanted` are its neighbours; w is the largest number wanted in the band or more.
        """
        keys = np.sort(np.concatenate(self._kept[band]))
        self._kept[band].clear()
        local = keys >> (31 + _INDEX_BITS)
        value = ((keys >> _INDEX_BITS) & 0x7FFFFFFF).astype(np.int32).view(np.float32)
        column = keys & ((1 << _INDEX_BITS) - 1)
        wanted, rows = self._wanted[self._rows[band]], self._order[self._rows[band]]
        count = np.bincount(local, minlength=rows.size)
        first = count.cumsum() - count
        asked = np.flatnonzero(wanted > 0)
        kth = np.zeros(rows.size, np.float32)
        kth[asked] = value[first[asked] + wanted[asked] - 1]
        within = value <= (kth + 2 * self._search.error[rows])[local]
        count = np.bincount(local[within], minlength=rows.size)[asked]
        settled = self._search.settle(
            rows[asked], rectangle(value[within], count, np.inf), rectangle(column[within], count, 0)
        )
        return rows[asked], settled

    def _product(self, i: int, j: int) -> tuple[Array, slice, slice]:
        """-2 times the dot products of the rows of bands i and j, what their squared distances lack of their lengths."""
        a, b = self._rows[i], self._rows[j]
        product = self._search.buffer("distance", (a.stop - a.start, b.stop - b.start))
        np.matmul(self._points[a] * -2, self._points[b].T, out=product)
        return product, a, b

    def _diagonal(self, i: int) -> None:
        squared, a, _ = self._product(i, i)
        squared += self._squares[a]
        squared += self._squares[a, None]
        np.fill_diagonal(squared, np.inf)
        wanted = self._wanted[a]
        parted = self._search.buffer("parted", squared.shape)
        parted[:] = squared
        # Rows that want equally many lie together where they are of one group: one call for each run of them.
        edges = [0, *(np.flatnonzero(np.diff(wanted)) + 1).tolist(), wanted.size]
        kth = np.full(wanted.size, -np.inf, np.float32)
        for start, stop in pairwise(edges):
            if (k := int(wanted[start])) > 0:
                parted[start:stop].partition(k - 1, axis=1)
                kth[start:stop] = parted[start:stop, k - 1]
        self._limit[a] = kth + 2 * self._error[a]
        row, column, value = self._within(squared, self._limit[a, None])
        self._keep(i, row, value, column + a.start)

    def _off_diagonal(self, tile: tuple[int, int]) -> None:
        i, j = tile
        product, a, b = self._product(i, j)
        height = max(1, _STRIP // product.shape[1])
        for start in range(0, len(product), height):
            if self._room < 0:
                return
            squared, rows = product[start : start + height], np.arange(a.start, a.stop)[start : start + height]
            squared += self._squares[b]
            squared += self._squares[rows, None]
            row, column, value = self._within(squared, self._limit[rows, None])
            self._keep(i, row + start, value, column + b.start)
            row, column, value = self._within(squared, self._limit[b])
            self._keep(j, column, value, rows[row])

    def _within(self, squared: Array, limit: Array) -> tuple[Array, Array, Array]:
        """Rows, columns and values of what is within limits that broadcast to the distances, none of them below 0."""
        within = np.less_equal(squared, limit, out=self._search.buffer("within", squared.shape, np.bool_))
        place = np.flatnonzero(within)
        row, column = np.divmod(place, squared.shape[1])
        return row, column, np.maximum(squared.reshape(-1)[place], 0)

    def _keep(self, band: int, local: Array, value: Array, other: Array) -> None:
        """Add to a band's candidates: for its rows `local` the distances `value` to rows `other` of the whole."""
        self._room -= local.size
        if self._room < 0:
            return
        keys = local << 31
        keys |= value.view(np.int32)
        keys <<= _INDEX_BITS
        keys |= self._order[other]
        self._kept[band].append(keys)
