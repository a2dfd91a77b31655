"""The geometry under every loss and metric: two normalisations, and distances exact for close points; rows are points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labkit.autograd import first_derivative
from labkit.errors import LabError
from labkit.measures import DistanceBlock
from labkit.scaling import careful_rows, rescaled, unscaled, unusual
from labkit.validation import check_choice, check_dense, check_embeddings, check_finite, describe

NORMALIZATIONS = ("lipschitz", "l2")


def at_least_float32(values: Tensor) -> Tensor:
    """Widen half precision to float32 (differentiably); float32 and float64 come back as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def check_normalize(kind: str | None) -> None:
    """Refuse anything but "lipschitz", "l2" and None, suggesting the nearest."""
    if kind is not None:
        check_choice("normalize", kind, NORMALIZATIONS)


def normalize_rows(x: Tensor, kind: str | None) -> tuple[Tensor, Tensor | None]:
    """Normalised rows of `x` (n, D) and their lengths before it (n, 1); `x` itself and no lengths when `kind` is None."""
    if kind is None:
        return x, None
    lengths = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    unit = x / lengths.clamp(min=1.0 if kind == "lipschitz" else torch.finfo(x.dtype).tiny)
    return careful_rows(x, unit, lengths, kind) if unusual(lengths, kind) else (unit, lengths)


def normalize_gradient_(gradient: Tensor, unit: Tensor, lengths: Tensor | None, kind: str | None) -> Tensor:
    """Carry `gradient` with respect to the normalised rows `unit` back to the rows before, in place.

    On the sphere the part along the row vanishes and the rest shrinks with the length; inside the unit ball the
    Lipschitz normalisation is the identity. Under "l2" a row of zeros, without direction, has the gradient zero, and
    no gradient exceeds the largest number.
    """
    if kind is None or lengths is None:
        return gradient
    along = (gradient.unsqueeze(-2) @ unit.unsqueeze(-1)).squeeze(-1)  # (n, 1); makes no product of size (n, D)
    if kind == "lipschitz":
        return gradient.addcmul_(along * (lengths > 1), unit, value=-1).div_(lengths.clamp(min=1.0))
    ends = torch.finfo(unit.dtype)
    factors = lengths.clamp(min=ends.tiny).reciprocal_().mul_(lengths > 0)
    return gradient.addcmul_(along, unit, value=-1).mul_(factors).clamp_(ends.min, ends.max)


class _Normalize(torch.autograd.Function):
    """normalize_rows with its gradient in closed form: no square root of zero on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kind: str) -> Tensor:
        unit, lengths = normalize_rows(x, kind)
        ctx.kind = kind
        ctx.save_for_backward(unit, lengths)
        return unit

    @staticmethod
    @first_derivative
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        unit, lengths = ctx.saved_tensors
        return normalize_gradient_(gradient.clone(), unit, lengths, ctx.kind), None


def normalize(x: Tensor, kind: str | None) -> Tensor:
    """Normalise the last dimension of `x` (..., D) by name: "lipschitz", "l2", or None for no change.

    Raises
    ------
    LabError : `kind` is something else (the nearest name is suggested), or `x` is not a floating tensor, sparse, on the device
        "meta", of 8-bit floats, NaN or infinite.
    """
    check_normalize(kind)
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim == 0:
        raise LabError("x", "a floating tensor of shape (..., D)", describe(x))
    check_dense("x", x)
    check_finite("x", x)
    wide = at_least_float32(x)
    result: Tensor = wide if kind is None else _Normalize.apply(wide, kind)
    return result


def lipschitz_normalize(x: Tensor) -> Tensor:
    """Project each vector onto the unit ball, `v / max(1, ‖v‖)`: vectors inside it stay where they are.

    A projection onto a convex set moves no two points apart, so the map is 1-Lipschitz ("Deep Metric Learning with
    Chance Constraints", section 4). This is not L2 normalisation, which moves every vector to the sphere.

    Parameters
    ----------
    x : (..., D) floating tensor. Half precision is widened to float32, double stays double.

    Raises
    ------
    LabError : as `normalize`.

    Examples
    --------
    >>> lipschitz_normalize(torch.tensor([3.0, 4.0])), lipschitz_normalize(torch.tensor([0.3, 0.4]))
    (tensor([0.6000, 0.8000]), tensor([0.3000, 0.4000]))
    """
    return normalize(x, "lipschitz")


def l2_normalize(x: Tensor) -> Tensor:
    """Scale each vector of `x` (..., D) to length 1; a zero vector stays zero. Raises as `lipschitz_normalize`."""
    return normalize(x, "l2")


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        dtype = x.dtype
        x, y, scale = rescaled(x, y)  # which leaves directions, hence the gradient, as they are
        ctx.save_for_backward(x, y)
        return unscaled("x", DistanceBlock(x, y).values, scale, dtype)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        grad_x, grad_y = (torch.zeros_like(v) if need else None for v, need in zip((x, y), ctx.needs_input_grad))
        DistanceBlock(x, y).add_gradients(slopes.to(x.dtype, copy=True), grad_x, grad_y, False)
        first, second = (None if grad is None else grad.to(slopes.dtype) for grad in (grad_x, grad_y))
        return first, second


def _check_two(x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
    x = check_embeddings("x", x)
    if isinstance(y, Tensor) and x.device != y.device:
        raise LabError("y", f"a tensor on the device of x, {x.device}", f"device {y.device}", "Move it with .to().")
    y = x if y is None else check_embeddings("y", y, finite=False)
    if x.shape[1] != y.shape[1]:
        raise LabError("y", f"points as wide as x, shape (m, {x.shape[1]})", f"shape {tuple(y.shape)}")
    check_finite("y", y)
    dtype = torch.promote_types(at_least_float32(x).dtype, at_least_float32(y).dtype)
    return x.to(dtype), y.to(dtype)


def pairwise_distance(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Euclidean distances (n, m) between the rows of x (n, D) and of y (m, D; x itself when None).

    Exact also for close points, float32 at least, and with a gradient that is finite everywhere: zero where two
    points coincide. Nothing is normalised here: pass the output of `lipschitz_normalize` where that is meant.

    Raises
    ------
    LabError : not two-dimensional, empty, integer, NaN, infinite or too far apart, of different widths or devices.

    Examples
    --------
    >>> pairwise_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    x, y = _check_two(x, y)
    result: Tensor = _Distance.apply(x, y)
    return result


def cosine_similarity(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Cosines (n, m) between the rows of x (n, D) and of y (m, D; x itself when None); raises as `pairwise_distance`."""
    x, y = _check_two(x, y)
    return l2_normalize(x) @ l2_normalize(y).T
