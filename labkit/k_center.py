"""The work behind `selection.greedy_k_center`: all sets at once, or one large set without looking at every point."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.threads import in_threads

Array = np.ndarray[Any, Any]

_CANDIDATES = 256  # points that a round of `pick_lazily` looks at: their distances fit the cache, and last for many picks
_BLOCK = 1 << 19  # numbers of a product held at once, 2 MiB
_GATHER = 1 << 17  # numbers gathered at once for direct differences: they stay in the cache
_FEW = 64  # points of a set up to which all its distances may be taken at once


def direct_distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances (…, n, m) of a (…, n, D) and b (…, m, D) by direct differences: exactly 0 for equal rows.

    The value for two rows is the same to the last bit wherever they stand, so that ties are seen as ties.
    """
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def pick_batched(points: Tensor, k: int, start: Tensor | None, invalid: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy K-Center of all sets at once; no value leaves the device inside the loop.

    points : (S, n, D). start : initial centres (S, m, D) or None. invalid : bool (S, n), True where there is no point.
    Returns indices and radii (S, k).
    """
    sets, n, size = points.shape
    rank = points.new_full((sets, n), torch.inf) if start is None else direct_distance(points, start).amin(-1)
    # Padding and what is picked stand at -1: below every distance, so that they are never the farthest again.
    rank.masked_fill_(invalid, -1.0)
    # A small pool: one call for all its distances costs less than k calls for the picked ones.
    known = direct_distance(points, points) if n <= min(4 * k, _FEW) else None
    indices = torch.empty((sets, k), dtype=torch.int64, device=points.device)
    radii = points.new_empty((sets, k))
    for j in range(k):
        pick = rank.argmax(-1, keepdim=True)
        indices[:, j : j + 1] = pick
        if known is None:
            distance = direct_distance(points, points.gather(1, pick[..., None].expand(-1, -1, size)))[..., 0]
        else:
            distance = known.gather(1, pick[..., None].expand(-1, -1, n))[:, 0]
        torch.minimum(rank, distance, out=rank)
        rank.scatter_(1, pick, -1.0)
        # A picked point is at distance 0 of a centre, so that leaving it out changes nothing but the sign.
        radii[:, j] = rank.amax(-1).clamp_(min=0)
    return indices, radii


def pick_lazily(points: Tensor, k: int, start: Tensor | None) -> tuple[Tensor, Tensor]:
    """Greedy K-Center of one large set (n, D) on the CPU; the picks and radii of `pick_batched`, but for the last bit.

    A distance to the nearest centre can only fall. So a round takes the points that are farthest now and picks among them
    alone for as long as the best of them is at least as far as every other point was when the round began. Then the
    others learn of the round's centres together, in one matrix product instead of one pass per centre.

    start : initial centres (m, D) or None. Returns indices and radii (k,).
    """
    rows = points.numpy()
    indices, radii = np.empty(k, np.int64), np.zeros(k)
    done = 0 if start is not None else 1
    # rank: squared distance to the nearest centre; -1 for what is picked.
    rank = np.min([_squared(rows, centre) for centre in (rows[:1] if start is None else start.numpy())], axis=0)
    if start is None:
        indices[0], rank[0] = 0, -1
    squares = np.einsum("ij,ij->i", rows, rows)
    while done < k:
        if rank.max() <= 0:  # every point left lies on a centre: the lowest indices, radius 0
            indices[done:] = np.flatnonzero(rank == 0)[: k - done]
            break
        candidates, least = _farthest(rank)
        near, far, before = rows[candidates], rank[candidates], done
        while done < k:
            place = int(far.argmax())
            if far[place] < least:
                break
            radii[max(done - 1, 0)] = far[place]
            indices[done] = candidates[place]
            done += 1
            np.minimum(far, _squared(near, near[place]), out=far)
            far[place] = -1
        rank[candidates] = far
        _learn(rank, rows, squares, indices[before:done])
    radii[done - 1] = max(rank.max(), 0)
    return torch.from_numpy(indices), torch.from_numpy(np.sqrt(radii)).to(points.dtype)


def _squared(rows: Array, others: Array) -> Array:
    """Squared distances (n,) of rows (n, D) and one point (D,), or as many points (n, D), by direct differences.

    NumPy and not `direct_distance`, which would wake all of torch's threads for a few microseconds of work.
    """
    difference = rows - others
    return np.asarray(np.einsum("ij,ij->i", difference, difference))


def _farthest(rank: Array) -> tuple[Array, Any]:
    """Ascending indices of the farthest points, and the least distance at which one of them goes before all others.

    Points that share a distance are all in or all out, since the lowest index must win among all that share it; the
    largest distance alone is shared by too many: then its first point, and no other in this round.
    """
    place = max(0, rank.size - _CANDIDATES)
    threshold = np.partition(rank, place)[place]
    candidates = np.flatnonzero(rank >= threshold)
    if candidates.size <= 2 * _CANDIDATES:
        return candidates, threshold
    candidates = np.flatnonzero(rank > threshold)
    if candidates.size:
        return candidates, np.nextafter(threshold, rank.dtype.type(np.inf))
    return np.array([rank.argmax()]), threshold


def _learn(rank: Array, rows: Array, squares: Array, centres: Array) -> None:
    """Lower `rank` (n,) to the direct squared distances of the new centres (indices) where these are nearer.

    The product |c|^2 - 2 x.c errs by no more than a few D rounding units of |x|^2 + |c|^2, so does the direct
    square. Only the centres that this cannot tell from the nearest are measured, and only where they may be nearer than what
    the point has.
    """
    # NumPy's product, not torch's: under autocast and reduced-precision settings that one is coarser than the bound.
    weights, lengths = rows[centres] * -2, squares[centres][:, None]
    slack = rank.dtype.type((8 * rows.shape[1] + 40) * np.finfo(rank.dtype).eps / 2)
    margin = slack * (squares + lengths.max())
    reach = np.where(rank < 0, -np.inf, rank - squares + margin).astype(rank.dtype)
    step = max(1, _BLOCK // len(weights))

    def nearer(begin: int) -> tuple[Array, Array]:
        """Points of a block that may have come nearer, and their distances; a point may come more than once."""
        block = slice(begin, begin + step)
        lacking = weights @ rows[block].T  # (centres, points): |x - c|^2 short of |x|^2
        lacking += lengths
        nearest = lacking.min(0)
        limit = np.minimum(nearest + margin[block], reach[block])
        hit = np.flatnonzero(nearest <= limit)
        place = np.flatnonzero(lacking[:, hit] <= limit[hit])
        point, centre = hit[place % max(1, hit.size)] + begin, centres[place // max(1, hit.size)]
        size = max(1, _GATHER // rows.shape[1])
        parts = [slice(i, i + size) for i in range(0, point.size, size)]
        return point, np.concatenate([rank[:0], *(_squared(rows[point[part]], rows[centre[part]]) for part in parts)])

    for point, distance in in_threads(nearer, range(0, len(rows), step)):
        np.minimum.at(rank, point, distance)
