"""Distances over all pairs of samples, in blocks, and the two means that the figures show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.k_center import direct_distance
from labkit.metrics.arrays import as_pair, as_tensor
from labkit.scaling import binary_scale, peak, rescaled, unscaled
from labkit.validation import check_dense, check_finite, describe

_BLOCK = 1 << 18  # distances held at once, 2 MiB in float64
_FEW_DIMENSIONS = 8  # up to here one pass per dimension is faster than one call per pair
_DIRECT = 1 << 28  # above this many differences a matrix product in float64 takes over


def pair_blocks(embeddings: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Every pair i < j once, as (distances float64 (p,), same class bool (p,)), block by block.

    Distances are direct differences in float64; where there are too many of them, float64 products of centred
    embeddings, whose error is about 1e-8 of the embeddings' spread.
    """
    n, size = embeddings.shape
    scale = binary_scale(peak(embeddings), torch.float64)
    if scale != 1.0:
        for distance, same in pair_blocks(embeddings.to(torch.float64) * scale, labels):
            yield unscaled("embeddings", distance, scale), same
        return
    device = torch.device("cpu") if embeddings.device.type == "mps" else embeddings.device  # no float64 there
    points, labels = embeddings.to(device, torch.float64), labels.to(device)
    by_product = n * n * size // 2 > _DIRECT
    if by_product:
        points = points - points.mean(0)
    step = max(1, _BLOCK // n)
    for start in range(0, n, step):
        rows, after = slice(start, min(n, start + step)), slice(start + step, n)
        width = rows.stop - start
        i, j = torch.triu_indices(width, width, 1, device=device)
        same = labels[rows, None] == labels[None, rows]
        yield _between(points[rows], points[rows], by_product)[i, j], same[i, j]
        if after.start < n:
            same = labels[rows, None] == labels[None, after]
            yield _between(points[rows], points[after], by_product).flatten(), same.flatten()


def _between(a: Tensor, b: Tensor, by_product: bool) -> Tensor:
    """Distances (n, m) of rows of a (n, D) and b (m, D)."""
    if by_product:
        squared = torch.addmm(b.square().sum(1)[None], a, b.T, alpha=-2.0)
        return squared.add_(a.square().sum(1)[:, None]).clamp_(min=0).sqrt_()
    if a.shape[1] > _FEW_DIMENSIONS:
        return direct_distance(a, b)
    squared = a.new_zeros(a.shape[0], b.shape[0])
    for x, y in zip(a.T, b.T, strict=True):
        squared.add_((x[:, None] - y).square_())
    return squared.sqrt_()


@torch.no_grad()
def inter_class_distance(embeddings: Any, labels: Any) -> float:
    """Mean distance over all pairs of samples of different classes, E[d | y != y'].

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,).

    Returns
    -------
    The mean, in the units of the embeddings.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, or fewer than two classes.
    """
    samples, classes = as_pair(embeddings, labels)
    total, count = 0.0, 0
    for distance, same in pair_blocks(samples, classes):
        total += float(distance.masked_fill_(same, 0.0).sum())
        count += same.numel() - int(same.sum())
    if count == 0:
        raise LabError("labels", "at least two classes", f"only class {int(classes[0])}")
    return finite_mean(total / count)


def finite_mean(value: float) -> float:
    """Refuse a mean of distances whose sum overflowed."""
    if not math.isfinite(value):
        raise LabError("embeddings", "distances small enough to be added up", f"a mean of {value}", "Scale them down.")
    return value


@torch.no_grad()
def proxy_spread(proxies: Any) -> float:
    """Mean distance between two proxies of one class: over a class's pairs, then over classes; 0 for one proxy.

    Direct differences, so that a collapse to 1e-6 is still measured. Where all proxies of each class lie on one point,
    the proxies are no better than one per class.

    Parameters
    ----------
    proxies : floating tensor or array (C, K, D).

    Raises
    ------
    LabError : another number of dimensions, an empty or integer tensor, NaN or infinity.
    """
    values = as_tensor("proxies", proxies, nested=True)
    if not isinstance(values, Tensor) or values.ndim != 3 or 0 in values.shape or not values.is_floating_point():
        raise LabError("proxies", "a floating tensor of shape (C, K, D), none of them 0", describe(proxies))
    check_dense("proxies", values)
    check_finite("proxies", values)
    values = values.detach() if values.dtype == torch.float64 else values.detach().float()
    k = values.shape[1]
    if k == 1:
        return 0.0
    dtype = values.dtype
    values, _, scale = rescaled(values, values)
    wide = torch.float32 if values.device.type == "mps" else torch.float64
    mean = direct_distance(values, values).sum(dtype=wide) / (values.shape[0] * k * (k - 1))
    return float(unscaled("proxies", mean, scale, dtype))
