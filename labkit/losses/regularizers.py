"""Penalties on the proxies themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from labkit.autograd import first_derivative
from labkit.errors import LabError
from labkit.geometry import at_least_float32, normalize_gradient_, normalize_rows
from labkit.validation import check_embeddings, check_finite, check_number

NUMBERS_AT_ONCE = 1 << 17  # entries of the centres handled together, so that they stay in the cache


class SparseCentersRegularizer(nn.Module):
    """Draws the centres of a class together, so that those it does not need merge (Qian et al., "SoftTriple", eq. 9).

    `1 / (C K (K − 1)) Σ_c Σ_{k<k'} ‖w_ck − w_ck'‖` over l2-normalised centres, where the distance of two unit vectors
    is `sqrt(2 − 2 cos)`. It is formed from differences, class by class: exact for close centres, with gradient 0
    between two that coincide, and never a matrix over all C·K centres. K = 1 gives 0. The weight τ (.2 in the paper)
    is the loss's `weight_reg_weight`. Works in pytorch-metric-learning's losses too, and equals its namesake.

    Parameters
    ----------
    num_classes, centers_per_class : C and K, whole numbers >= 1.

    Raises
    ------
    LabError : when built with other sizes; when called with `weight` not of shape (C·K, D), or not finite.

    Examples
    --------
    >>> SparseCentersRegularizer(1, 2)(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))  # √2 / 2
    tensor(0.7071)
    """

    def __init__(self, num_classes: int, centers_per_class: int) -> None:
        super().__init__()
        self.num_classes = int(check_number("num_classes", num_classes, low=1, whole=True))
        self.centers_per_class = int(check_number("centers_per_class", centers_per_class, low=1, whole=True))

    def extra_repr(self) -> str:
        return f"num_classes={self.num_classes}, centers_per_class={self.centers_per_class}"

    def forward(self, weight: Tensor) -> Tensor:
        """The penalty, a 0-d tensor, of the centres `weight` (C·K, D), rows c·K ... (c + 1)·K − 1 those of class c."""
        weight = check_embeddings("weight", weight, finite=False)
        c, k = self.num_classes, self.centers_per_class
        if len(weight) != c * k:
            expected = f"num_classes · centers_per_class = {c} · {k} = {c * k} rows"
            raise LabError("weight", expected, f"shape {tuple(weight.shape)}")
        with torch.autocast(weight.device.type, enabled=False):
            centers = at_least_float32(weight).reshape(c, k, -1)
            result: Tensor = _Spread.apply(centers) / (c * max(1, k * (k - 1)))
        if not bool(torch.isfinite(result)):
            check_finite("weight", weight)
        return result


class _Spread(torch.autograd.Function):
    """Sum of the distances of all pairs within each class of (C, K, D); the gradient is made on the way."""

    @staticmethod
    def forward(ctx: Any, centers: Tensor) -> Tensor:
        gradient = torch.empty_like(centers) if ctx.needs_input_grad[0] else None
        total = centers.new_zeros(())
        least = torch.finfo(centers.dtype).tiny ** 0.5  # far below any distance: coinciding centres do not pull
        step = max(1, NUMBERS_AT_ONCE // centers[0].numel()) if centers.device.type == "cpu" else len(centers)
        for start in range(0, len(centers), step):
            unit, lengths = normalize_rows(centers[start : start + step], "l2")
            pulls = torch.zeros_like(unit)
            for k in range(1, unit.shape[1]):  # centres k apart
                differences = unit[:, k:] - unit[:, :-k]
                distances = torch.linalg.vector_norm(differences, dim=2, keepdim=True)
                total += distances.sum()
                if gradient is not None:
                    differences /= distances.clamp_(min=least)
                    pulls[:, k:] += differences
                    pulls[:, :-k] -= differences
            if gradient is not None:
                gradient[start : start + step] = normalize_gradient_(pulls, unit, lengths, "l2")
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @first_derivative
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        gradient: Tensor = ctx.saved_tensors[0]
        return gradient * upstream
