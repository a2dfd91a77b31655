"""The work behind `selection.greedy_k_center`: all sets at once, or one large set without looking at every point."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

_CANDIDATES = 512  # points that a round of `pick_lazily` looks at: small enough for the cache, enough for many picks
_BLOCK = 1 << 19  # numbers of a product held at once, 2 MiB
_GATHER = 1 << 20  # numbers gathered at once for direct differences


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
    indices = torch.empty((sets, k), dtype=torch.int64, device=points.device)
    radii = points.new_empty((sets, k))
    for j in range(k):
        pick = rank.argmax(-1, keepdim=True)
        indices[:, j : j + 1] = pick
        centre = points.gather(1, pick[..., None].expand(-1, -1, size))
        torch.minimum(rank, direct_distance(points, centre)[..., 0], out=rank)
        rank.scatter_(1, pick, -1.0)
        # A picked point is at distance 0 of a centre, so that leaving it out changes nothing but the sign.
        radii[:, j] = rank.amax(-1).clamp_(min=0)
    return indices, radii


def pick_lazily(points: Tensor, k: int, start: Tensor | None) -> tuple[Tensor, Tensor]:
    """Greedy K-Center of one large set (n, D) on the CPU; the same picks and radii as `pick_batched`, to the last bit.

    A distance to the nearest centre can only fall. So a round takes the points that are farthest now and picks among them
    alone for as long as the best of them is at least as far as every other point was when the round began. Then the
    others learn of the round's centres together, in one matrix product instead of one pass per centre.

    start : initial centres (m, D) or None. Returns indices and radii (k,).
    """
    n = points.shape[0]
    indices = torch.empty(k, dtype=torch.int64)
    radii = points.new_empty(k)
    if start is None:
        indices[0], done = 0, 1
        rank = direct_distance(points, points[:1])[:, 0]
        rank[0] = -1.0
    else:
        done, rank = 0, direct_distance(points, start).amin(1)
    squares = torch.linalg.vector_norm(points, dim=1, dtype=torch.float64).square_().to(points.dtype)
    while done < k:
        # Everything at least as far as the threshold, so that a tie is decided among all that share it.
        threshold = rank.topk(min(n, _CANDIDATES)).values[-1]
        candidates = (rank >= threshold).nonzero()[:, 0]
        near, far = points[candidates], rank[candidates]
        before, least = done, float(threshold)
        while done < k:
            value, place = far.max(0)
            if float(value) < least:
                break
            if done:
                radii[done - 1] = value
            indices[done] = candidates[place]
            done += 1
            torch.minimum(far, direct_distance(near, near[place, None])[:, 0], out=far)
            far[place] = -1.0
        rank[candidates] = far
        _learn(rank, points, squares, indices[before:done])
    radii[-1] = rank.max()
    return indices, radii.clamp_(min=0)


def _learn(rank: Tensor, points: Tensor, squares: Tensor, centres: Tensor) -> None:
    """Lower `rank` (n,) to the direct distances of the new centres (indices) where these are nearer.

    The product |c|^2 - 2 x.c errs by no more than a few D rounding units of |x|^2 + |c|^2, so does the direct
    square. Only the centres that this cannot tell from the nearest are measured, and only where they may be nearer than what
    the point has.
    """
    size = points.shape[1]
    slack = (6 * size + 40) * torch.finfo(points.dtype).eps / 2
    # NumPy's product, not torch's: under autocast and reduced-precision settings that one is coarser than the bound.
    rows, weights = points.numpy(), points[centres].numpy() * -2
    lengths = squares[centres].numpy()[:, None]
    allowed = slack * (squares + squares[centres].max())
    reach = (rank.square() * (1 + slack) - squares + allowed).masked_fill_(rank < 0, -torch.inf).numpy()
    margin = allowed.numpy()
    step = max(1, _BLOCK // len(weights))
    for begin in range(0, len(rows), step):
        block = slice(begin, begin + step)
        lacking = weights @ rows[block].T  # (centres, points): |x - c|^2 short of |x|^2
        lacking += lengths
        nearest = lacking.min(0)
        limit = np.minimum(nearest + margin[block], reach[block])
        hit = np.flatnonzero(nearest <= limit)
        point, centre = np.nonzero((lacking[:, hit] <= limit[hit]).T)
        _lower(rank, points, hit[point] + begin, centres.numpy()[centre])


def _lower(rank: Tensor, points: Tensor, point: np.ndarray[Any, Any], centre: np.ndarray[Any, Any]) -> None:
    """rank[p] = min(rank[p], |p - c|) for pairs of indices, a cacheful at a time."""
    step = max(1, _GATHER // points.shape[1])
    for begin in range(0, len(point), step):
        p, c = (torch.from_numpy(index[begin : begin + step]) for index in (point, centre))
        distance = direct_distance(points[p][:, None], points[c][:, None])[:, 0, 0]
        rank.scatter_reduce_(0, p, distance, "amin")
