"""The geometry under every loss and metric: two normalisations, and distances exact for close points; rows are points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from labkit.errors import LabError
from labkit.scaling import careful_rows, rescaled, unscaled, unusual
from labkit.validation import check_choice, check_embeddings, check_finite, describe

NORMALIZATIONS = ("lipschitz", "l2")
DIRECT_WIDTH = 16  # up to this many columns every difference is formed; beyond, a matrix product is many times faster
PAIRS_AT_ONCE = 1 << 12  # rows of D numbers held at a time where pairs are looked up one by one
Pairs = tuple[Tensor, Tensor]  # rows of x and of y
Gradients = tuple[Tensor | None, Tensor | None]  # with respect to x and to y, where wanted


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
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        unit, lengths = ctx.saved_tensors
        return normalize_gradient_(gradient.clone(), unit, lengths, ctx.kind), None


def normalize(x: Tensor, kind: str | None) -> Tensor:
    """Normalise the last dimension of `x` (..., D) by name: "lipschitz", "l2", or None for no change.

    Raises
    ------
    LabError : `kind` is something else (the nearest name is suggested), or `x` is not a floating tensor.
    """
    check_normalize(kind)
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim == 0:
        raise LabError("x", "a floating tensor of shape (..., D)", describe(x))
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
    LabError : `x` is not a floating tensor.

    Examples
    --------
    >>> lipschitz_normalize(torch.tensor([3.0, 4.0])), lipschitz_normalize(torch.tensor([0.3, 0.4]))
    (tensor([0.6000, 0.8000]), tensor([0.3000, 0.4000]))
    """
    return normalize(x, "lipschitz")


def l2_normalize(x: Tensor) -> Tensor:
    """Scale each vector of `x` (..., D) to length 1; a zero vector stays zero. Raises as `lipschitz_normalize`."""
    return normalize(x, "l2")


class DistanceBlock:
    """Euclidean distances `values` (r, m) of points x (r, D) to points y (m, D), and the way back from slopes.

    Up to DIRECT_WIDTH columns the differences themselves are formed. Beyond, ‖x‖² + ‖y‖² − 2 xᵀy is one matrix
    product, but subtracts nearly equal numbers where points are close (float32 loses most digits at 1e-4 apart):
    such pairs are found and recomputed from their differences, both here and in the gradient.

    `own` is the column of the first row's own point where x are consecutive rows of y (their distances are 0), else
    None; `y_squared` (m,) are the squared lengths of y, where a caller has them.
    """

    def __init__(self, x: Tensor, y: Tensor, own: int | None = None, y_squared: Tensor | None = None) -> None:
        self.x, self.y = x, y
        self.values: Tensor
        self.close: Pairs | None = None
        self.direct = x.shape[1] <= DIRECT_WIDTH
        if self.direct:
            self.differences = x.T.contiguous().unsqueeze(2) - y.T.contiguous().unsqueeze(1)  # (D, r, m), m innermost
            self.values = self.differences.square().sum(dim=0).sqrt_()  # a norm over the first dimension is slow
            return
        if y_squared is None:
            y_squared = squared_lengths(y)
        x_squared = squared_lengths(x) if own is None else y_squared[own : own + len(x)]
        squared = torch.addmm(y_squared, x, y.T, alpha=-2).add_(x_squared.unsqueeze(1))
        near = squared < 8192 * torch.finfo(x.dtype).eps * (x_squared.max() + y_squared.max())
        if own is not None:
            squared.diagonal(own).zero_()
            near.diagonal(own).fill_(False)
        self.values = squared.clamp_(min=0.0).sqrt_()
        rows, columns = near.nonzero(as_tuple=True)
        if len(rows) > 0:
            self.close = rows, columns
            self.close_values = squared.new_empty(len(rows))
            for part in _parts(len(rows)):
                self.close_values[part] = torch.linalg.vector_norm(x[rows[part]] - y[columns[part]], dim=1)
            self.values[self.close] = self.close_values

    def add_gradients(self, slopes: Tensor, grad_x: Tensor | None, grad_y: Tensor | None, mirrored: bool) -> None:
        """Add to grad_x (r, D) and grad_y (m, D) what `slopes` (r, m) say of each distance; overwrites both matrices.

        Each pair pulls along (x − y) / d, two identical points nowhere. `mirrored`: x and y are the same points, and
        grad_x alone takes both ends of each pull, in one product instead of two.
        """
        if self.close is not None:
            both = grad_x, grad_x if mirrored else grad_y
            self.add_listed_gradients(self.close, slopes[self.close], self.close_values, both)
            slopes[self.close] = 0.0
        least = torch.finfo(slopes.dtype).tiny ** 0.5  # far below any distance, yet slopes / least stays finite
        weights = slopes.div_(self.values.clamp_(min=least))
        if mirrored:
            weights, grad_y = torch.add(weights, weights.T, out=self.values), None
        if self.direct:
            pulls = self.differences.mul_(weights)
            for grad, dim, sign in ((grad_x, 2, 1), (grad_y, 1, -1)):
                if grad is not None:
                    grad.add_(pulls.sum(dim=dim).T, alpha=sign)
            return
        for grad, w, x, y in ((grad_x, weights, self.x, self.y), (grad_y, weights.T, self.y, self.x)):
            if grad is not None:
                grad.addmm_(w, y, alpha=-1).addcmul_(w.sum(dim=1, keepdim=True), x)

    def add_listed_gradients(self, pairs: Pairs, slopes: Tensor, values: Tensor, grads: Gradients) -> None:
        """The same for listed pairs, from their differences: `slopes` (k,), overwritten, of distances `values` (k,)."""
        weights = slopes.div_(values.clamp(min=torch.finfo(slopes.dtype).tiny ** 0.5))
        for part in _parts(len(weights)):
            pulls = (self.x[pairs[0][part]] - self.y[pairs[1][part]]).mul_(weights[part].unsqueeze(1))
            for grad, index, sign in zip(grads, pairs, (1, -1)):
                if grad is not None:
                    grad.index_add_(0, index[part], pulls, alpha=sign)


def squared_lengths(x: Tensor) -> Tensor:
    """(n,) squared Euclidean lengths of the rows of x (n, D)."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=1)
    return lengths.square()


def _parts(n: int) -> list[slice]:
    return [slice(start, start + PAIRS_AT_ONCE) for start in range(0, n, PAIRS_AT_ONCE)]


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        x, y, scale = rescaled(x, y)  # which leaves directions, hence the gradient, as they are
        ctx.save_for_backward(x, y)
        return unscaled("x", DistanceBlock(x, y).values, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        grad_x, grad_y = (torch.zeros_like(v) if need else None for v, need in zip((x, y), ctx.needs_input_grad))
        DistanceBlock(x, y).add_gradients(slopes.clone(), grad_x, grad_y, False)
        return grad_x, grad_y


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
