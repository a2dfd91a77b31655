"""How an embedding treats a set of classes over a run: retrieval, radii, and the shape of the space, moment by moment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labkit.errors import LabError
from labkit.metrics.arrays import as_embeddings, as_labels, as_tensor
from labkit.metrics.covering import mean_covering_curve
from labkit.metrics.pairs import inter_class_distance
from labkit.metrics.retrieval import retrieval_metrics
from labkit.metrics.space import effective_rank, hubness
from labkit.validation import check_choice, check_number, describe

DOMAIN_FIGURES = ("map_at_r", "covering", "inter_class_distance", "relative", "effective_rank", "hubness")
NEIGHBOURS = 10  # k of the k-occurrences


def equal_rows(labels: Any, per_class: int | None = None) -> NDArray[np.int64]:
    """Rows of the first `per_class` samples of each class, in order: radii compare only between classes of one size.

    Parameters
    ----------
    labels : integer (n,). per_class : None for as many as the smallest class has; smaller classes are left out.

    Returns
    -------
    (m,) rows, ascending.

    Raises
    ------
    LabError : labels that are no whole numbers (n,), none at all, `per_class` < 1, or no class that large.
    """
    given = as_tensor("labels", labels, nested=True)
    if not isinstance(given, Tensor) or given.ndim != 1 or not len(given):
        raise LabError("labels", "whole numbers (n,), at least one", describe(labels))
    y = as_labels("labels", given, given).cpu().numpy()
    classes, counts = np.unique(y, return_counts=True)
    wanted = int(counts.min()) if per_class is None else int(check_number("per_class", per_class, low=1, whole=True))
    if counts.max() < wanted:
        raise LabError("per_class", f"at most {counts.max()}, the largest class", wanted)
    return np.sort(np.concatenate([np.flatnonzero(y == c)[:wanted] for c in classes[counts >= wanted]]))


def domain_figures(
    embeddings: Any, labels: Any, *, only: Sequence[str] = DOMAIN_FIGURES
) -> dict[str, NDArray[np.float64]]:
    """Figures of the same samples at S moments, an array (S,) for each.

    map_at_r : retrieval of each sample among the others. covering : mean of the k-Center curves over k, then classes.
    inter_class_distance : E[d | y != y']. relative : covering over that distance: an embedding that shrinks as a whole
    has smaller radii and is no better for it; this ratio does not move then. effective_rank, hubness : as in
    `labkit.metrics`, hubness being the skewness of the 10-occurrences.

    Parameters
    ----------
    embeddings : floating (S, n, D). labels : integer (n,). only : which figures, in this order.

    Returns
    -------
    {name: (S,)}; radii and distances in the units of the embeddings, `relative` without any; NaN where all samples of
    different classes lie on one point.

    Raises
    ------
    LabError : shapes that disagree, NaN, a figure of another name, one class only, fewer than 11 samples for hubness.
    """
    moments = as_tensor("embeddings", embeddings, nested=True)
    if not isinstance(moments, Tensor) or moments.ndim != 3 or not len(moments):
        raise LabError("embeddings", "floats of shape (S, n, D)", describe(embeddings))
    y = as_labels("labels", as_tensor("labels", labels, nested=True), moments[0])
    for name in only:
        check_choice("only", name, DOMAIN_FIGURES)
    told = [_figures(as_embeddings("embeddings", at).cpu().double(), y.cpu(), only) for at in moments]
    return {name: np.array([figures[name] for figures in told]) for name in only}


def _figures(x: Tensor, y: Tensor, only: Sequence[str]) -> dict[str, float]:
    """Each figure of one moment; what two of them need is computed once."""
    covering = functools.cache(lambda: mean_covering_curve(x, y).mean)
    apart = functools.cache(lambda: inter_class_distance(x, y))
    ways: dict[str, Callable[[], float]] = {
        "map_at_r": lambda: retrieval_metrics(x, y, ks=(1,))["map_at_r"],
        "covering": covering,
        "inter_class_distance": apart,
        "relative": lambda: covering() / apart() if apart() > 0 else float("nan"),
        "effective_rank": lambda: effective_rank(x),
        "hubness": lambda: hubness(x, NEIGHBOURS).skewness,
    }
    return {name: ways[name]() for name in only}
