"""Similarities to a great many proxies: nothing as large as the proxies is made on the way but their gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labkit.autograd import first_derivative
from labkit.geometry import normalize, normalize_gradient_, normalize_rows
from labkit.scaling import unusual

NUMBERS_AT_ONCE = 1 << 18  # entries of a large matrix handled together, so that they stay in the cache
NEVER = -750.0  # exp of it is 0 in every precision


def similarity(x: Tensor, weight: Tensor, kind: str | None) -> Tensor:
    """Dot products (N, M) of rows of x (N, D) and of weight (M, D) after normalisation by name, differentiable once.

    The proxies' lengths scale the columns of the product, so that normalised proxies are never stored. A row of
    zeros under "l2" has similarity 0 to everything and gradient 0.
    """
    result: Tensor
    if kind is None:
        result = _Similarity.apply(x, weight, None, None)
        return result
    lengths: Tensor = torch.linalg.vector_norm(weight.detach(), dim=1)
    if unusual(lengths, kind):  # the product with such proxies may overflow or vanish before their lengths come in
        result = normalize(x, kind) @ normalize(weight, kind).T
    else:
        result = _Similarity.apply(x, weight, kind, lengths)
    return result


class _Similarity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, kind: str | None, scale: Tensor | None) -> Tensor:
        unit, lengths = normalize_rows(x, kind)
        values = unit @ weight.T
        if scale is not None:  # the proxies' lengths, none of them unusual
            scale = (scale.clamp(min=1.0) if kind == "lipschitz" else scale).reciprocal()
            values *= scale
        ctx.kind = kind
        ctx.save_for_backward(unit, lengths, weight, scale)
        return values

    @staticmethod
    @first_derivative
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        unit, lengths, weight, scale = ctx.saved_tensors
        grad_x = grad_weight = None
        with torch.autocast(slopes.device.type, enabled=False):
            if scale is not None:
                slopes = slopes * scale
            if ctx.needs_input_grad[0]:
                grad_x = normalize_gradient_(slopes @ weight, unit, lengths, ctx.kind)
            if ctx.needs_input_grad[1]:
                grad_weight = _weight_gradient(slopes, unit, weight, scale, ctx.kind)
        return grad_x, grad_weight, None, None


def _weight_gradient(slopes: Tensor, unit: Tensor, weight: Tensor, scale: Tensor | None, kind: str | None) -> Tensor:
    """(M, D): `slopesᵀ unit`, less the part along each proxy where normalisation holds its length."""
    gradient = torch.empty_like(weight)
    step = max(1, NUMBERS_AT_ONCE // weight.shape[1]) if weight.device.type == "cpu" else len(weight)
    for start in range(0, len(weight), step):
        part = gradient[start : start + step]
        torch.mm(slopes[:, start : start + step].T, unit, out=part)
        if scale is not None:
            s = scale[start : start + step].unsqueeze(1)
            proxies = weight[start : start + step] * s
            along = torch.linalg.vecdot(part, proxies).unsqueeze(1)
            if kind == "lipschitz":
                along = along * (s < 1)
            part.addcmul_(along, proxies, value=-1)
    return gradient


def soft_choice(values: Tensor, gamma: float) -> Tensor:
    """`Σ_k softmax_k(s / gamma) s` (N, C) over the last dimension of values (N, C, K), differentiable once.

    gamma = 0 gives the largest value (the mean gradient of those that tie), gamma = inf the mean.
    """
    result: Tensor = _SoftChoice.apply(values, gamma)
    return result


class _SoftChoice(torch.autograd.Function):
    """The slopes are made on the way, a few rows at a time, and are all that is kept."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, gamma: float) -> Tensor:
        tiny = torch.finfo(values.dtype).tiny
        gamma = min(max(gamma, tiny), 1 / tiny)  # divided by these, gaps are 0 or endless: the two limits themselves
        slopes = torch.empty_like(values) if ctx.needs_input_grad[0] else None
        result = values.new_empty(values.shape[:2])
        step = max(1, NUMBERS_AT_ONCE // values[0].numel()) if values.device.type == "cpu" else len(values)
        for start in range(0, len(values), step):
            rows = slice(start, start + step)
            top = values[rows].amax(dim=2, keepdim=True)
            gaps = values[rows] - top
            exponents = (gaps / gamma).clamp_(min=NEVER)
            chosen = exponents.exp()  # the largest is 1; a softmax over so few is several times slower
            chosen /= chosen.sum(dim=2, keepdim=True)
            result[rows] = gaps.mul_(chosen).sum(dim=2).add_(top.squeeze(2))
            if slopes is not None:
                mean = torch.linalg.vecdot(chosen, exponents).unsqueeze(2)
                torch.mul(exponents.sub_(mean).add_(1.0), chosen, out=slopes[rows])
        ctx.save_for_backward(slopes)
        return result

    @staticmethod
    @first_derivative
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slopes,) = ctx.saved_tensors
        return slopes * gradient.unsqueeze(2), None
