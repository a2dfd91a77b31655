"""MAP@R, P@1, R-precision and Recall@k, exactly: every query against every reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.errors import LabError
from labkit.metrics.arrays import as_embeddings, as_labels
from labkit.metrics.neighbours import NeighbourSearch
from labkit.metrics.symmetric import SymmetricSearch
from labkit.threads import in_threads
from labkit.validation import check_number

Array = np.ndarray[Any, Any]

_CACHED, _HELD = 1 << 18, 1 << 24  # distances that one thread holds at once: at ease in the cache, and at most
_ROWS = 256  # queries that make a matrix product worth while, though they leave the cache


def retrieval_metrics(
    query: Any,
    query_labels: Any,
    reference: Any = None,
    reference_labels: Any = None,
    ks: Sequence[int] = (1, 2, 4, 8),
) -> dict[str, float]:
    """How well the nearest references of a query share its class (Euclidean distance, nothing is normalised here).

    R_i is the number of references of query i's class (itself not counted). With P@j the share of right ones among the
    first j and r_j = 1 where the j-th is right: MAP@R_i = 1/R_i sum_{j <= R_i} P@j r_j (Musgrave et al., "A Metric
    Learning Reality Check", section 3.3), P@R_i is R-precision, Recall@k is 1 where one of the first k is right.

    Parameters
    ----------
    query : floating (n, D). query_labels : integer (n,).
    reference, reference_labels : (m, D) and (m,). None: the queries themselves, each without itself (left out by its
        index, so that duplicates of it stay). With a reference set nothing is left out.
    ks : the k of Recall@k; a k above the number of references means all of them.

    Returns
    -------
    Fractions in 0 … 1 under map_at_r, p_at_1, p_at_r and recall_at_k for each k; n_queries, the number of queries that the
    means are over; n_skipped, those left out since no reference has their class. Equal distances: the lower index first.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, labels without references or the reverse, a k < 1, or no query
        with a reference of its class.
    """
    queries = as_embeddings("query", query)
    query_classes = as_labels("query_labels", query_labels, queries, of="query").cpu().numpy()
    cutoffs = _checked_ks(ks)
    alone = reference is None
    if alone != (reference_labels is None):
        raise LabError("reference_labels", "reference and reference_labels together, or neither", "only one of them")
    references, classes = queries, query_classes
    if not alone:
        references = as_embeddings("reference", reference)
        classes = as_labels("reference_labels", reference_labels, references, of="reference").cpu().numpy()
        if references.shape[1] != queries.shape[1]:
            raise LabError("reference", f"(m, {queries.shape[1]}), as wide as query", f"shape {tuple(references.shape)}")
    classes, query_classes, relevant = _numbered(classes, query_classes)
    relevant -= int(alone)
    counted = np.flatnonzero(relevant > 0)
    if counted.size == 0:
        raise LabError("query_labels", "a query with a reference of its class", "none: there is nothing to retrieve",
                       "Each class needs two samples, or one among the references.")
    wanted = np.where(relevant > 0, np.maximum(relevant, max(cutoffs)), 0).clip(max=len(classes) - int(alone))
    search = NeighbourSearch(queries.cpu().numpy(), references.cpu().numpy(), exclude_self=alone)

    def score(rows: Array, nearest: Array) -> Array:
        return _scores(classes[nearest] == query_classes[rows, None], relevant[rows], cutoffs)

    symmetric = SymmetricSearch(search, wanted, classes) if SymmetricSearch.suits(search, wanted) else None
    if symmetric and symmetric.sweep():
        sums = in_threads(lambda band: score(*symmetric.nearest(band)), symmetric.bands)
    else:
        blocks = _blocks(counted, wanted, len(classes), few=search.few)
        sums = in_threads(lambda rows: score(rows, search.nearest(rows, int(wanted[rows].max()))), blocks)
    totals = np.sum(sums, axis=0) / counted.size
    names = ["map_at_r", "p_at_1", "p_at_r", *(f"recall_at_{k}" for k in cutoffs)]
    result = dict(zip(names, totals.tolist(), strict=True))
    return {**result, "n_queries": counted.size, "n_skipped": len(query_classes) - counted.size}


def _scores(right: Array, relevant: Array, ks: Sequence[int]) -> Array:
    """Sums over the queries of a block; `right` (b, width) in order of distance, `relevant` (b,) the R of each."""
    width = int(relevant.max())
    hits = right[:, :width] & (np.arange(width) < relevant[:, None])
    found = np.count_nonzero(hits, axis=1)
    place, row = np.flatnonzero(hits), np.repeat(np.arange(relevant.size), found)
    # P@j at the hits alone: how many so far, over the rank.
    nth = np.arange(1, place.size + 1) - np.repeat(found.cumsum() - found, found)
    precision = np.bincount(row, nth / (place - row * width + 1), relevant.size)
    sums = [(precision / relevant).sum(), np.count_nonzero(right[:, 0]), (found / relevant).sum()]
    return np.array(sums + [np.count_nonzero(right[:, :k].any(1)) for k in ks], dtype=np.float64)


def _numbered(classes: Array, query_classes: Array) -> tuple[Array, Array, Array]:
    """The classes of references and queries numbered, in the smallest integers that hold them, and each query's R."""
    names, codes = np.unique(np.concatenate((classes, query_classes)), return_inverse=True)
    codes = codes.reshape(-1).astype(np.min_scalar_type(names.size))
    own, asked = codes[: classes.size], codes[classes.size :]
    return own, asked, np.bincount(own, minlength=names.size)[asked]


def _blocks(rows: Array, wanted: Array, references: int, *, few: bool) -> list[Array]:
    """Rows cut into blocks: of a cacheful in few dimensions, else enough for the product to be fast."""
    # Queries that want about as many neighbours side by side: a block then selects no more than it needs.
    rows = rows[np.argsort(wanted[rows], kind="stable")]
    step = _CACHED // references if few else max(min(_ROWS, _HELD // references), 8 * _CACHED // references)
    step = max(1, step)
    return [rows[i : i + step] for i in range(0, rows.size, step)]


def _checked_ks(ks: Any) -> list[int]:
    """The cutoffs as a list without repetition, in the order given."""
    if not isinstance(ks, Sequence) or isinstance(ks, str) or not ks:
        raise LabError("ks", "a sequence of whole numbers >= 1, such as (1, 2, 4, 8)", repr(ks))
    return list(dict.fromkeys(int(check_number("ks", k, low=1, whole=True)) for k in ks))
