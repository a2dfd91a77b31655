"""How well a choice of centres covers a set: taken in a given order, at random, or the best there is."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.k_center import direct_distance
from labkit.metrics.arrays import as_embeddings, as_tensor
from labkit.scaling import rescaled, unscaled
from labkit.selection import greedy_k_center, random_selection
from labkit.validation import check_number, describe

LARGEST_EXACT = 60  # points up to which the best choice is found within about 0.1 s, whatever k is; 80 can take 8 s
_BLOCK = 1 << 24  # distances held at once, 64 MiB in float32


class BestCover(NamedTuple):
    """indices : int64 (k,), ascending, of the best k points. radius : the covering radius that they reach."""

    indices: Tensor
    radius: float


@torch.no_grad()
def radii_in_order(points: Any, orders: Any, initial: Any = None) -> Tensor:
    """Covering radius after each pick, for picks made in given orders.

    Parameters
    ----------
    points : floating (n, D). orders : integer (draws, k), indices into the points. initial : centres (m, D) that are
        there already, or None.

    Returns
    -------
    (draws, k) radii, in the units of the points: entry j is the largest distance from a point to the nearest of the
    first j + 1 picks and the initial centres.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, an index that is no point's.
    """
    rows = as_embeddings("points", points)
    picks = as_tensor("orders", orders, nested=True)
    if not isinstance(picks, Tensor) or picks.ndim != 2 or 0 in picks.shape or picks.is_floating_point():
        raise LabError("orders", "integers of shape (draws, k), none of them 0", describe(orders))
    picks = picks.long().to(rows.device)
    if int(picks.min()) < 0 or int(picks.max()) >= len(rows):
        raise LabError("orders", f"indices in [0, {len(rows)})", f"{int(picks.min())} … {int(picks.max())}")
    dtype, centres = rows.dtype, rows if initial is None else _checked_initial(initial, rows)
    rows, centres, scale = rescaled(rows, centres)
    start = None if initial is None else direct_distance(rows, centres).amin(1)
    radii = rows.new_empty(picks.shape)
    step = max(1, _BLOCK // (len(rows) * rows.shape[1]))
    for begin in range(0, len(picks), step):
        block = picks[begin : begin + step]
        near = rows.new_full((len(block), len(rows)), torch.inf) if start is None else start.repeat(len(block), 1)
        for j, chosen in enumerate(block.T):
            near = torch.minimum(near, direct_distance(rows[chosen], rows))
            radii[begin : begin + step, j] = near.amax(1)
    return unscaled("points", radii, scale, dtype)


@torch.no_grad()
def random_radii(
    points: Any, k: int, draws: int = 50, initial: Any = None, generator: torch.Generator | None = None
) -> Tensor:
    """Covering radius after each of k random picks, for several independent draws: (draws, k).

    Parameters
    ----------
    points, initial : as in `radii_in_order`. k : picks, at most n. draws : >= 1. generator : source of randomness.

    Raises
    ------
    LabError : as `radii_in_order`; k or draws below 1, k above the number of points.
    """
    rows = as_embeddings("points", points)
    draws = int(check_number("draws", draws, low=1, whole=True))
    orders = [random_selection(len(rows), k, generator) for _ in range(draws)]
    return radii_in_order(rows, torch.stack(orders), initial)


@torch.no_grad()
def optimal_k_center(points: Any, k: int, initial: Any = None) -> BestCover:
    """The k points that cover a small set with the smallest radius possible, found exactly.

    The radius sought is one of the distances between two points. Bisection over these asks whether k balls of a radius
    suffice; branch and bound answers: some uncovered point must lie in the next ball, so only the few balls that hold
    it are tried, and a branch ends where even the largest balls left could not hold all that is uncovered.

    Parameters
    ----------
    points : floating (n, D), n <= 60. k : picks, at most n. initial : centres (m, D) that are there already, or None.

    Returns
    -------
    BestCover with `.indices` (k,) and `.radius`. `greedy_k_center` with the same `initial` reaches at most twice it.

    Raises
    ------
    LabError : more than 60 points, k < 1 or > n, wrong shapes or dtypes, NaN or infinity.

    Examples
    --------
    >>> optimal_k_center(torch.tensor([[0.0], [1.0], [2.0], [10.0]]), 2)
    BestCover(indices=tensor([1, 3]), radius=1.0)
    """
    rows = as_embeddings("points", points).double()
    n = len(rows)
    if n > LARGEST_EXACT:
        raise LabError("points", f"at most {LARGEST_EXACT} points, among which the best are found at once", n)
    count = int(check_number("k", k, low=1, high=n, whole=True))
    between = direct_distance(rows, rows)
    start = rows.new_full((n,), torch.inf)
    centres = None if initial is None else _checked_initial(initial, rows)
    if centres is not None:
        start = direct_distance(rows, centres).amin(1)
    greedy = greedy_k_center(rows, count, centres)
    chosen, radius = greedy.indices.tolist(), float(greedy.radii[-1])
    smaller = sorted({d for d in torch.cat((between.flatten(), start)).tolist() if d < radius})
    low, high = 0, len(smaller)  # all radii from smaller[high] on suffice, none below smaller[low] does
    while low < high:
        middle = (low + high) // 2
        found = _cover(between <= smaller[middle], start > smaller[middle], count)
        if found is None:
            low = middle + 1
        else:
            high, chosen, radius = middle, found, smaller[middle]
    rest = [i for i in range(n) if i not in chosen]
    return BestCover(torch.tensor(sorted(chosen + rest[: count - len(chosen)])), radius)


def _cover(within: Tensor, uncovered: Tensor, k: int) -> list[int] | None:
    """At most k points whose balls hold every uncovered point; None where there are none.

    within : bool (n, n), which points a point's ball holds (symmetric). Sets of points are the bits of an integer.
    """
    balls = [sum(1 << i for i, inside in enumerate(line) if inside) for line in within.tolist()]
    failed: set[tuple[int, int]] = set()

    def search(missing: int, left: int) -> list[int] | None:
        if not missing:
            return []
        gains = [(ball & missing).bit_count() for ball in balls]
        enough = sum(sorted(gains)[-left:]) if left else 0
        if enough < missing.bit_count() or (missing, left) in failed:
            return None
        # The point with the fewest balls around it leaves the fewest branches.
        hardest = min((i for i in range(len(balls)) if missing >> i & 1), key=lambda i: balls[i].bit_count())
        holders = [i for i in range(len(balls)) if balls[hardest] >> i & 1]
        for ball in sorted(holders, key=lambda i: -gains[i]):
            if (rest := search(missing & ~balls[ball], left - 1)) is not None:
                return [ball, *rest]
        failed.add((missing, left))
        return None

    return search(sum(1 << i for i, lacks in enumerate(uncovered.tolist()) if lacks), k)


def _checked_initial(initial: Any, rows: Tensor) -> Tensor:
    """Initial centres (m, D) in the dtype of the points."""
    centres = as_embeddings("initial", initial).to(rows)
    if centres.shape[1] != rows.shape[1]:
        raise LabError("initial", f"{rows.shape[1]} columns, as the points have", f"shape {tuple(centres.shape)}")
    return centres
