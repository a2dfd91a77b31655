"""Neighbours within one set: every pair multiplied once, for both of its ends."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from labkit.metrics.neighbours import NeighbourSearch, rectangle
from labkit.threads import in_threads

Array = np.ndarray[Any, Any]

_TILE = 1 << 11  # rows of a tile: a product of this size is fast, and a local row number takes 11 bits of a key
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
    """

    def __init__(self, search: NeighbourSearch, wanted: Array) -> None:
        self._search, self._wanted = search, wanted
        n = wanted.size
        edges = np.linspace(0, n, -(-n // _tile(n)) + 1).astype(int).tolist()
        self._rows = [slice(start, stop) for start, stop in pairwise(edges)]
        self._limit = np.full(n, -np.inf, np.float32)
        self._kept: list[list[Array]] = [[] for _ in self._rows]
        self._room = _CANDIDATES
        self.bands = [i for i, rows in enumerate(self._rows) if wanted[rows].any()]

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
        rows = np.arange(self._rows[band].start, self._rows[band].stop)
        count = np.bincount(local, minlength=rows.size)
        first = count.cumsum() - count
        asked = np.flatnonzero(self._wanted[rows] > 0)
        kth = np.zeros(rows.size, np.float32)
        kth[asked] = value[first[asked] + self._wanted[rows[asked]] - 1]
        within = value <= (kth + 2 * self._search.error[rows])[local]
        count = np.bincount(local[within], minlength=rows.size)[asked]
        settled = self._search.settle(
            rows[asked], rectangle(value[within], count, np.inf), rectangle(column[within], count, 0)
        )
        return rows[asked], settled

    def _squared(self, i: int, j: int) -> tuple[Array, slice, slice]:
        """Squared distances between the rows of bands i and j, none below 0."""
        a, b, search = self._rows[i], self._rows[j], self._search
        squared = search.buffer("distance", (a.stop - a.start, b.stop - b.start))
        np.matmul(search.doubled[a], search.references[b].T, out=squared)
        squared += search.squares[b]
        squared += search.squares[a, None]
        np.maximum(squared, 0, out=squared)
        return squared, a, b

    def _diagonal(self, i: int) -> None:
        squared, a, _ = self._squared(i, i)
        np.fill_diagonal(squared, np.inf)
        wanted = self._wanted[a]
        # One row sorted at a time stays in the cache.
        ordered = self._search.buffer("parted", squared.shape)
        ordered[:] = squared
        ordered.sort(axis=1)
        kth = ordered[np.arange(wanted.size), np.maximum(wanted, 1) - 1]
        self._limit[a] = np.where(wanted > 0, kth + 2 * self._search.error[a], -np.inf)
        self._keep(i, a.start, squared, self._limit[a, None], by_row=True)

    def _off_diagonal(self, tile: tuple[int, int]) -> None:
        i, j = tile
        if self._room < 0:
            return
        squared, a, b = self._squared(i, j)
        self._keep(i, b.start, squared, self._limit[a, None], by_row=True)
        self._keep(j, a.start, squared, self._limit[b], by_row=False)

    def _keep(self, band: int, offset: int, squared: Array, limit: Array, *, by_row: bool) -> None:
        """Add to a band's candidates what lies within the limits of its rows (rows or columns of the tile)."""
        within = np.less_equal(squared, limit, out=self._search.buffer("within", squared.shape, np.bool_))
        self._room -= int(np.count_nonzero(within))
        if self._room < 0:
            return
        place = np.flatnonzero(within)
        row, column = place // squared.shape[1], place % squared.shape[1]
        local, other = (row, column) if by_row else (column, row)
        keys = local << 31
        keys |= squared.reshape(-1)[place].view(np.int32)
        keys <<= _INDEX_BITS
        keys |= other + offset
        self._kept[band].append(keys)
