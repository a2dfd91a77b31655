"""The two measures between points of all pairs, distances and dot products, and the way back from slopes to the points."""

from __future__ import annotations

import torch
from torch import Tensor

DIRECT_WIDTH = 16  # up to this many columns every difference is formed; beyond, a matrix product is many times faster
PAIRS_AT_ONCE = 1 << 12  # rows of D numbers held at a time where pairs are looked up one by one
Pairs = tuple[Tensor, Tensor]  # rows of x and of y
Gradients = tuple[Tensor | None, Tensor | None]  # with respect to x and to y, where wanted


class DistanceBlock:
    """Euclidean distances `values` (r, m) of points x (r, D) to points y (m, D), and the way back from slopes.

    Up to DIRECT_WIDTH columns the differences themselves are formed. Beyond, ‖x‖² + ‖y‖² − 2 xᵀy is one matrix
    product, but subtracts nearly equal numbers where points are close (float32 loses most digits at 1e-4 apart):
    such pairs are found and recomputed from their differences, both here and in the gradient.

    `own` is the column of the first row's own point where x are consecutive rows of y (their distances are 0), else
    None; `y_squared` (m,) are the squared lengths of y, where a caller has them.
    """

    def __init__(self, x: Tensor, y: Tensor, own: int | None = None, y_squared: Tensor | None = None) -> None:
        self.x, self.y, self.own = x, y, own
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
        limit = 8192 * torch.finfo(x.dtype).eps * (x_squared.max() + y_squared.max())
        if own is not None:
            squared.diagonal(own).fill_(torch.inf)
        near = squared < limit if bool(squared.min() < limit) else None
        if own is not None:
            squared.diagonal(own).zero_()
        self.values = squared.clamp_(min=0.0).sqrt_()
        if near is not None:
            rows, columns = near.nonzero(as_tuple=True)
            self.close = rows, columns
            self.close_values = squared.new_empty(len(rows))
            for part in _parts(len(rows)):
                self.close_values[part] = torch.linalg.vector_norm(x[rows[part]] - y[columns[part]], dim=1)
            self.values[self.close] = self.close_values

    def add_gradients(
        self, slopes: Tensor, grad_x: Tensor | None, grad_y: Tensor | None, mirrored: bool, symmetric: bool = False
    ) -> None:
        """Add to grad_x (r, D) and grad_y (m, D) what `slopes` (r, m) say of each distance; overwrites both matrices.

        Each pair pulls along (x − y) / d, two identical points nowhere. `mirrored`: x and y are the same points, and
        grad_x alone takes both ends of each pull, in one product instead of two; `symmetric`: so are their slopes.
        """
        if self.close is not None:
            both = grad_x, grad_x if mirrored else grad_y
            self.add_listed_gradients(self.close, slopes[self.close], self.close_values, both)
            slopes[self.close] = 0.0
        least = torch.finfo(slopes.dtype).tiny ** 0.5  # far below any distance, yet slopes / least stays finite
        weights = slopes.div_(self.values.clamp_(min=least))
        if self.own is not None:
            weights.diagonal(self.own).zero_()  # a miner may name a sample with itself
        times = 2 if mirrored and symmetric else 1
        if mirrored:
            weights, grad_y = weights if symmetric else torch.add(weights, weights.T, out=self.values), None
        if self.direct:
            pulls = self.differences.mul_(weights)
            for grad, dim, sign in ((grad_x, 2, times), (grad_y, 1, -1)):
                if grad is not None:
                    grad.add_(pulls.sum(dim=dim).T, alpha=sign)
            return
        for grad, w, x, y in ((grad_x, weights, self.x, self.y), (grad_y, weights.T, self.y, self.x)):
            if grad is not None:
                grad.addmm_(w, y, alpha=-times).addcmul_(w.sum(dim=1, keepdim=True), x, value=times)

    def add_listed_gradients(self, pairs: Pairs, slopes: Tensor, values: Tensor, grads: Gradients) -> None:
        """The same for listed pairs, from their differences: `slopes` (k,), overwritten, of distances `values` (k,)."""
        weights = slopes.div_(values.clamp(min=torch.finfo(slopes.dtype).tiny ** 0.5))
        for part in _parts(len(weights)):
            pulls = (self.x[pairs[0][part]] - self.y[pairs[1][part]]).mul_(weights[part].unsqueeze(1))
            for grad, index, sign in zip(grads, pairs, (1, -1)):
                if grad is not None:
                    grad.index_add_(0, index[part], pulls, alpha=sign)


class SimilarityBlock:
    """Dot products of x (r, D) with y (m, D), and the way back; the counterpart of DistanceBlock."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y
        self.values = x @ y.T

    def add_gradients(
        self, slopes: Tensor, grad_x: Tensor | None, grad_y: Tensor | None, mirrored: bool, symmetric: bool = False
    ) -> None:
        """Add to grad_x (r, D) and grad_y (m, D) what `slopes` (r, m) say of each product; the rest as there."""
        if mirrored:
            slopes, grad_y = slopes if symmetric else slopes + slopes.T, None
        if grad_x is not None:
            grad_x.addmm_(slopes, self.y, alpha=2 if mirrored and symmetric else 1)
        if grad_y is not None:
            grad_y.addmm_(slopes.T, self.x)

    def add_listed_gradients(self, pairs: Pairs, slopes: Tensor, values: Tensor, grads: Gradients) -> None:
        """The same for listed pairs, `slopes` (k,)."""
        for grad, own, other, points in ((grads[0], *pairs, self.y), (grads[1], *pairs[::-1], self.x)):
            if grad is not None:
                grad.index_add_(0, own, points[other].mul_(slopes.unsqueeze(1)))


def squared_lengths(x: Tensor) -> Tensor:
    """(n,) squared Euclidean lengths of the rows of x (n, D)."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=1)
    return lengths.square()


def _parts(n: int) -> list[slice]:
    return [slice(start, start + PAIRS_AT_ONCE) for start in range(0, n, PAIRS_AT_ONCE)]
