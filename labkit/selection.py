"""Choosing samples that stand for a class: greedy K-Center and random selection, batched over classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.k_center import pick_batched, pick_lazily
from labkit.scaling import binary_scale, peak, unscaled, widened
from labkit.validation import check_dense, check_finite, check_number, check_stored, describe

_LARGE, _MANY = 4096, 16  # points of a set and picks from which the lazy way pays


class KCenter(NamedTuple):
    """What `greedy_k_center` chose.

    indices : int64 (…, k), in the order of the picks, into the points of each set.
    radii : (…, k), covering radius after each pick: the largest distance from a point to its nearest centre.
    """

    indices: Tensor
    radii: Tensor


@torch.no_grad()
def greedy_k_center(points: Tensor, k: int, initial: Tensor | None = None, mask: Tensor | None = None) -> KCenter:
    """Pick k points one after the other, each time the one farthest from its nearest centre.

    The radius is at most twice the smallest that any k points can reach beside the `initial` ones. It is Algorithm 2 of
    "Deep Metric Learning with Chance Constraints": the pool is `points`, the proxies just trained are `initial`.
    Equal distances go to the lower index; nothing is picked twice, not even when every distance is 0.

    Parameters
    ----------
    points : floating (…, n, D); leading dimensions are independent sets (classes). Half precision is computed in float32.
    k : number of picks, at most the number of (valid) points of every set.
    initial : centres that are there already, (…, m, D), or (m, D) for all sets. None: the first pick is the first
        valid point.
    mask : bool (…, n), True where a point is valid: ragged sets are padded and masked. What the padding holds is ignored.

    Returns
    -------
    KCenter with `.indices` (…, k) and `.radii` (…, k), in the units of `points`, on their device.

    Raises
    ------
    LabError : wrong shapes or dtypes, sparse or meta tensors, NaN or infinite points, or some further apart than the
        largest number; k < 1 or larger than the valid points of some set.

    Examples
    --------
    >>> greedy_k_center(torch.tensor([[0.0], [1.0], [4.0]]), 2).radii
    tensor([4., 1.])
    """
    points, mask = _checked_points(points, mask)
    k = _checked_k(k, points.shape[-2], mask)
    lead, (n, size) = points.shape[:-2], points.shape[-2:]
    start = _checked_initial(initial, points)
    sets = points.reshape(-1, n, size)
    invalid = None if mask is None else ~mask.reshape(-1, n)
    start = None if start is None else start.reshape(sets.shape[0], -1, size)
    if (scales := _scales(sets, start)) is not None:
        sets, start = widened(sets) * scales, None if start is None else widened(start) * scales
    indices, radii = _pick(sets, k, start, invalid)
    if scales is not None:
        radii = unscaled("points", radii, scales[:, 0], points.dtype)
    return KCenter(indices.reshape(*lead, k), radii.reshape(*lead, k))


def random_selection(candidates: int | Tensor, k: int, generator: torch.Generator | None = None) -> Tensor:
    """Pick k different indices at random, every subset equally likely.

    Parameters
    ----------
    candidates : the number n of points, or a bool mask (…, n) of the valid points of each set.
    k : number of picks, at most the number of (valid) points of every set.
    generator : the source of randomness; None: torch's global one, which makes a run hard to repeat.

    Returns
    -------
    int64 (k,) for a number, (…, k) on the mask's device for a mask.

    Raises
    ------
    LabError : a mask that is not bool, k < 1 or larger than the valid points of some set.
    """
    if not isinstance(candidates, Tensor):
        n = int(check_number("candidates", candidates, low=1, whole=True))
        candidates = torch.ones(n, dtype=torch.bool)
    if candidates.dtype != torch.bool or candidates.ndim == 0:
        raise LabError("candidates", "a number of points or a bool mask (…, n)", describe(candidates))
    check_stored("candidates", candidates)
    k = _checked_k(k, candidates.shape[-1], candidates)
    device = candidates.device if generator is None else generator.device
    keys = torch.rand(candidates.shape, dtype=torch.float64, generator=generator, device=device)
    return keys.to(candidates.device).masked_fill(~candidates, -1.0).topk(k, dim=-1).indices


def _pick(points: Tensor, k: int, start: Tensor | None, invalid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Indices and radii (S, k) of sets (S, n, D), by whichever way is faster."""
    if points.device.type != "cpu" or points.shape[1] < _LARGE or k < _MANY:
        if invalid is None:
            invalid = torch.zeros(points.shape[:2], dtype=torch.bool, device=points.device)
        return pick_batched(points, k, start, invalid)
    rows = []
    for s, one in enumerate(points):
        valid = None if invalid is None else (~invalid[s]).nonzero()[:, 0]
        indices, radii = pick_lazily(one if valid is None else one[valid], k, None if start is None else start[s])
        rows.append((indices if valid is None else valid[indices], radii))
    indices, radii = (torch.stack(column) for column in zip(*rows, strict=True))
    return indices, radii


def _scales(points: Tensor, start: Tensor | None) -> Tensor | None:
    """(S, 1, 1): by what each set is multiplied so that squares neither overflow nor vanish; None for nothing."""
    both = (points,) if start is None else (points, start)
    if binary_scale(peak(*both), points.dtype) == 1.0:
        return None
    scales = [binary_scale(peak(*one), points.dtype) for one in zip(*both, strict=True)]
    return widened(points).new_tensor(scales)[:, None, None]


def _checked_points(points: Any, mask: Any) -> tuple[Tensor, Tensor | None]:
    """Points as float32 or float64 with finite entries (0 where masked out), and the mask."""
    if not isinstance(points, Tensor) or points.ndim < 2 or 0 in points.shape:
        raise LabError("points", "a torch.Tensor of shape (…, n, D), none of them 0", describe(points))
    if not points.is_floating_point():
        raise LabError("points", "a floating dtype", describe(points), "Convert with .float().")
    check_dense("points", points)
    points = points.detach()
    if points.dtype != torch.float64:
        points = points.float()
    if mask is None:
        check_finite("points", points)
        return points, None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != points.shape[:-1]:
        raise LabError("mask", f"a bool tensor of shape {tuple(points.shape[:-1])}", describe(mask))
    check_stored("mask", mask)
    mask = mask.to(points.device)
    points = points.masked_fill(~mask[..., None], 0.0)
    check_finite("points", points)
    return points, mask


def _checked_k(k: Any, n: int, mask: Tensor | None) -> int:
    """k as an int, at most the number of valid points of the smallest set."""
    count = int(check_number("k", k, low=1, whole=True))
    valid = n if mask is None or mask.numel() == 0 else int(mask.sum(-1).min())
    if count > valid:
        which = "points" if mask is None else "valid points in the smallest set"
        raise LabError("k", f"at most the number of {which}, {valid}", count)
    return count


def _checked_initial(initial: Any, points: Tensor) -> Tensor | None:
    """Initial centres expanded to the leading dimensions of the points, in their dtype."""
    if initial is None:
        return None
    lead, size = points.shape[:-2], points.shape[-1]
    wanted = f"a floating tensor of shape {tuple(lead)} + (m, {size}) or (m, {size}), m >= 1"
    if not isinstance(initial, Tensor) or not initial.is_floating_point():
        raise LabError("initial", wanted, describe(initial))
    if initial.ndim < 2 or 0 in initial.shape or initial.shape[-1] != size:
        raise LabError("initial", wanted, describe(initial))
    if initial.ndim != 2 and initial.shape[:-2] != lead:
        raise LabError("initial", wanted, describe(initial))
    check_dense("initial", initial)
    centres = initial.detach().to(points)
    check_finite("initial", centres)  # in the dtype of the points, which may be too small for them
    return centres.expand(*lead, *centres.shape[-2:])
