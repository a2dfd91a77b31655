"""Greedy K-Center step by step, beside random picks and the optimum: the numbers behind the stepper panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labkit.errors import LabError
from labkit.metrics import optimal_k_center, random_radii
from labkit.metrics.choices import LARGEST_EXACT
from labkit.plots.reading import Floats, Ints, float_array, label_array, names_of, proxies_by_class
from labkit.selection import greedy_k_center
from labkit.validation import check_number

LARGEST_EXACT_TOGETHER = 30  # points per set up to which the optimum of ten sets is found within about a second


@dataclass(frozen=True)
class PointSet:
    """One class to be covered: its name, its number (for the colour), samples (n, D), initial centres (m, D) or None."""

    name: str
    index: int
    points: Floats
    initial: Floats | None = None


@dataclass(frozen=True)
class Cover:
    """One set after so many picks.

    picks : indices (j,) in order. centres : (m + j, D), the initial ones first. radius : NaN without any centre.
    farthest : index of the sample that is farthest from its nearest centre, which greedy takes next; None without
        centres. nearest : (D,) that centre.
    """

    picks: Ints
    centres: Floats
    radius: float
    farthest: int | None
    nearest: Floats | None


class CoveringSteps:
    """Greedy K-Center on each set, with what random picks and the best picks would reach.

    Parameters
    ----------
    sets : one class or several, covered independently of each other. k : picks per set, at most its samples.
    use_initial : start from the sets' initial centres, where they have any.
    draws : random choices to compare with. seed : of these.

    Attributes
    ----------
    greedy : (k + 1,) covering radius after 0 … k picks, mean over sets; NaN for 0 where there are no centres yet.
    random : (draws, k + 1), the same for each draw. optimum : (k + 1,), or None where a set is too large to find it.

    Raises
    ------
    LabError : no sets, or k that is no whole number from 1 to the smallest set's size.
    """

    def __init__(
        self, sets: Sequence[PointSet], k: int, *, use_initial: bool = True, draws: int = 50, seed: int = 0
    ) -> None:
        if not sets:
            raise LabError("sets", "at least one set of points", "none")
        smallest = min(len(s.points) for s in sets)
        self.k = int(check_number("k", k, low=1, high=smallest, whole=True))
        self.sets = [s if use_initial else PointSet(s.name, s.index, s.points) for s in sets]
        greedy = [greedy_k_center(_tensor(s.points), self.k, _tensor(s.initial)) for s in self.sets]
        self._picks = [g.indices.numpy() for g in greedy]
        before = np.array([_radius(s.points, s.initial) for s in self.sets])
        self.radii: Floats = np.column_stack((before, np.stack([g.radii.numpy() for g in greedy])))
        self.greedy: Floats = self.radii.mean(axis=0)
        generator = torch.Generator().manual_seed(int(seed))
        drawn = [
            random_radii(_tensor(s.points), self.k, draws, _tensor(s.initial), generator).numpy() for s in self.sets
        ]
        start = np.full((len(drawn[0]), 1), before.mean())
        self.random: Floats = np.hstack((start, np.mean(drawn, axis=0)))
        limit = LARGEST_EXACT if len(sets) == 1 else LARGEST_EXACT_TOGETHER
        self.optimum = self._optimum(before) if max(len(s.points) for s in sets) <= limit else None

    def _optimum(self, before: Floats) -> Floats:
        best = [
            [optimal_k_center(_tensor(s.points), j, _tensor(s.initial)).radius for j in range(1, self.k + 1)]
            for s in self.sets
        ]
        return np.append(before.mean(), np.mean(best, axis=0))

    def at(self, step: int) -> list[Cover]:
        """Each set after `step` picks, 0 to k."""
        step = int(check_number("step", step, low=0, high=self.k, whole=True))
        covers = []
        for s, picks in zip(self.sets, self._picks, strict=True):
            taken = picks[:step]
            initial = np.zeros((0, s.points.shape[1])) if s.initial is None else s.initial
            centres = np.concatenate((initial, s.points[taken]))
            if not len(centres):
                covers.append(Cover(taken, centres, float("nan"), None, None))
                continue
            distance = np.linalg.norm(s.points[:, None] - centres, axis=2)
            farthest = int(distance.min(axis=1).argmax())
            nearest = centres[distance[farthest].argmin()]
            covers.append(Cover(taken, centres, float(distance.min(axis=1).max()), farthest, nearest))
        return covers


def class_sets(
    embeddings: Any,
    labels: Any,
    proxies: Any = None,
    *,
    class_names: Sequence[str] | None = None,
    pool_size: int | None = None,
    seed: int = 0,
) -> list[PointSet]:
    """A set per class: a random pool of `pool_size` of its samples (all where None or more than there are).

    Parameters
    ----------
    embeddings : (n, D). labels : whole numbers (n,). proxies : (C, K, D), the initial centres, or None.

    Raises
    ------
    LabError : shapes that disagree, NaN, or a pool below 1.
    """
    x = float_array("embeddings", embeddings, "n, D")
    y = label_array("labels", labels, len(x))
    classes = np.unique(y)
    own = proxies_by_class("proxies", proxies, classes, x.shape[1])
    size = len(x) if pool_size is None else int(check_number("pool_size", pool_size, low=1, whole=True))
    random = np.random.default_rng(int(seed))
    sets = []
    for index, (c, name) in enumerate(zip(classes, names_of(classes, class_names), strict=True)):
        members = np.flatnonzero(y == c)
        pool = members if size >= len(members) else random.choice(members, size, replace=False)
        sets.append(PointSet(name, index, x[pool], None if own is None else own[index]))
    return sets


def example_sets() -> dict[str, list[PointSet]]:
    """Small sets on which the rule shows its sides, by name."""
    random = np.random.default_rng(7)
    line = np.stack((np.linspace(-0.8, 0.8, 9), np.zeros(9)), axis=1)
    groups = [center + 0.12 * random.normal(size=(14, 2)) for center in ((-0.5, -0.3), (0.45, -0.2))]
    blob = np.array([0.1, 0.0]) + np.array([0.3, 0.16]) * random.normal(size=(40, 2))
    collapsed = np.tile([[0.1, 0.0]], (4, 1)) + 1e-3 * random.normal(size=(4, 2))
    return {
        "nine points on a line: greedy at its worst": [PointSet("line", 0, line)],
        "two groups and a straggler": [PointSet("groups", 1, np.concatenate((*groups, [[0.1, 0.85]])))],
        "an evenly filled square": [PointSet("square", 2, random.uniform(-0.8, 0.8, size=(50, 2)))],
        "a class whose four proxies have collapsed": [PointSet("class", 3, blob, collapsed)],
    }


def _radius(points: Floats, centres: Floats | None) -> float:
    if centres is None:
        return float("nan")
    return float(np.linalg.norm(points[:, None] - centres, axis=2).min(axis=1).max())


def _tensor(values: Floats | None) -> Any:
    return None if values is None else torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))
