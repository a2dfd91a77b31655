"""Retrieval and covering for each class by itself: which classes are hard, and what they are taken for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.metrics.arrays import as_pair
from labkit.metrics.covering import mean_covering_curve
from labkit.metrics.neighbours import NeighbourSearch


@dataclass(frozen=True)
class ClassFigures:
    """Figures of each class; all are tensors (C,), classes sorted.

    Attributes
    ----------
    classes : the labels. samples : how many each has.
    map_at_r, p_at_1 : means over the class's own samples as queries, in 0 … 1; NaN for a class of one sample.
    covering : mean of the class's k-Center curve over k = 1 … n_c, in the units of the embeddings.
    taken_for : the other class that holds most of the class's first R neighbours (the lower label among equals); the
        class itself where no other class does.
    share : of the first R neighbours that it holds, in 0 … 1.
    """

    classes: Tensor
    samples: Tensor
    map_at_r: Tensor
    p_at_1: Tensor
    covering: Tensor
    taken_for: Tensor
    share: Tensor


@torch.no_grad()
def class_figures(embeddings: Any, labels: Any) -> ClassFigures:
    """MAP@R, P@1, the mean of the k-Center curve, and the class it is most often taken for, for each class.

    Every sample is a query among all others, as in `retrieval_metrics`: R is the number of other samples of its class,
    and the mean of MAP@R and P@1 over samples (not classes) is that function's.

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,).

    Returns
    -------
    ClassFigures

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, or no class with two samples.
    """
    samples, labelled = as_pair(embeddings, labels)
    rows = samples.cpu().numpy()
    names, codes, counts = np.unique(labelled.cpu().numpy(), return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    relevant = counts[codes] - 1
    if not relevant.any():
        raise LabError("labels", "a class with two samples", "none: there is nothing to retrieve")
    held = np.zeros((len(names), len(names)))  # of the first R neighbours of each class, how many each class has
    precision, first = np.zeros(len(rows)), np.zeros(len(rows))
    search, width = NeighbourSearch(rows, rows, exclude_self=True), int(relevant.max())
    for block, found in search.walk(np.arange(len(rows)), width):
        near = codes[found]
        counted = np.arange(width) < relevant[block, None]
        right = (near == codes[block, None]) & counted
        at_j = right.cumsum(1) / np.arange(1, width + 1)
        precision[block] = (at_j * right).sum(1) / np.maximum(relevant[block], 1)
        first[block] = near[:, 0] == codes[block]
        np.add.at(held, (np.repeat(codes[block], counted.sum(1)), near[counted]), 1)
    looked_at = counts * (counts - 1)
    np.fill_diagonal(held, 0)
    other = held.argmax(1)
    most = held[np.arange(len(names)), other]
    alone = np.where(counts > 1, 1.0, np.nan)
    return ClassFigures(
        torch.from_numpy(names),
        torch.from_numpy(counts),
        torch.from_numpy(alone * np.bincount(codes, precision) / counts),
        torch.from_numpy(alone * np.bincount(codes, first) / counts),
        mean_covering_curve(samples, labelled).per_class.double().cpu(),
        torch.from_numpy(np.where(most > 0, names[other], names)),
        torch.from_numpy(most / np.maximum(looked_at, 1)),
    )
