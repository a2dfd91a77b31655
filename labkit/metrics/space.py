"""The shape of an embedding space without its labels: how many directions it uses, and whether a few samples are
everybody's neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labkit.errors import LabError
from labkit.metrics.arrays import as_embeddings
from labkit.metrics.neighbours import NeighbourSearch
from labkit.scaling import binary_scale, peak
from labkit.validation import check_number


@dataclass(frozen=True)
class Hubness:
    """Who is among whose k nearest neighbours.

    Attributes
    ----------
    occurrences : int64 (n,), among how many samples' k nearest each sample is; their mean is k.
    skewness : of that distribution: third central moment over the cube of the standard deviation. 0 where all are near
        alike often, large where a few samples (hubs) are near very many.
    antihubs : share of samples that are nobody's neighbour, in 0 … 1.
    """

    occurrences: torch.Tensor
    skewness: float
    antihubs: float


@torch.no_grad()
def effective_rank(embeddings: Any, *, centered: bool = True) -> float:
    """How many directions the embeddings use: exp of the entropy of the singular values, divided by their sum.

    Roy & Vetterli, "The effective rank: a measure of effective dimensionality" (EUSIPCO 2007), of the (n, D) matrix of
    embeddings. It lies between 1 (all on a line) and min(n, D) (all directions alike); singular values, not their
    squares (the variances), are what the definition takes, and small directions count for more by that.

    Parameters
    ----------
    embeddings : floating (n, D).
    centered : take the mean away first, so that where the heap lies as a whole is not counted as a direction; False is
        the definition to the letter.

    Returns
    -------
    The rank, no whole number; 0 where nothing is spread (one sample, or all alike).

    Raises
    ------
    LabError : wrong shape or dtype, NaN or infinity.

    Examples
    --------
    >>> round(effective_rank(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])), 6)
    2.0
    """
    rows = as_embeddings("embeddings", embeddings)
    rows = (rows * binary_scale(peak(rows), rows.dtype)).cpu().double()  # the rank does not depend on the scale
    size = float(rows.abs().max())
    if centered:
        rows = rows - rows.mean(0)
    # Through the smaller of the two products: its eigenvalues are the squares of the singular values.
    product = rows.T @ rows if rows.shape[1] <= rows.shape[0] else rows @ rows.T
    squares = torch.linalg.eigvalsh(product)
    # What is left of rounding: of the products against the largest, of the mean against the embeddings' own size.
    noise = torch.finfo(torch.float64).eps * len(squares)
    squares = squares[squares > noise * max(float(squares.max()), noise * size * size * len(rows))]
    if not squares.numel():
        return 0.0
    share = squares.sqrt() / squares.sqrt().sum()
    return float((-(share * share.log()).sum()).exp())


@torch.no_grad()
def hubness(embeddings: Any, k: int = 10) -> Hubness:
    """How unevenly samples are among the k nearest neighbours of others: the skewness of the k-occurrences.

    Radovanović et al., "Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data" (JMLR 2010), equation 1. A
    sample is no neighbour of its own; equal distances: the lower index first, Euclidean distance, nothing is normalised.

    Parameters
    ----------
    embeddings : floating (n, D). k : neighbours of each sample, at most n - 1.

    Returns
    -------
    Hubness : `.skewness`, `.antihubs`, `.occurrences`.

    Raises
    ------
    LabError : wrong shape or dtype, NaN or infinity, k < 1 or not below n.

    Examples
    --------
    >>> hubness(torch.tensor([[0.0], [1.0], [2.5]]), k=1).occurrences.tolist()
    [1, 2, 0]
    """
    rows = as_embeddings("embeddings", embeddings).cpu().numpy()
    if len(rows) < 2:
        raise LabError("embeddings", "at least two samples, to be neighbours", f"shape {rows.shape}")
    k = int(check_number("k", k, low=1, high=len(rows) - 1, whole=True))
    search = NeighbourSearch(rows, rows, exclude_self=True)
    found = np.zeros(len(rows), dtype=np.int64)
    for _, nearest in search.walk(np.arange(len(rows)), k):
        found += np.bincount(nearest.ravel(), minlength=len(rows))
    away = found - float(k)
    deviation = float(np.sqrt(np.mean(away**2)))
    skewness = float(np.mean(away**3)) / deviation**3 if deviation else 0.0
    return Hubness(torch.from_numpy(found), skewness, float((found == 0).mean()))
