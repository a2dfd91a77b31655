"""A value whose gradient is taken at once, so that what it was computed from may change before the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from labkit.autograd import first_derivative
from labkit.errors import LabError


def with_gradient_now(compute: Callable[[Tensor], Tensor], x: Tensor, parameters: Iterable[Tensor] = ()) -> Tensor:
    """The 0-d `compute(x)`, differentiated with respect to x and to `parameters` before this function returns.

    No graph of `compute` outlives the call: the backward pass only scales the gradients that are there already.
    """
    if not torch.is_grad_enabled():
        return compute(x)
    leaf = x.detach().requires_grad_(x.requires_grad)
    learnt = [p for p in parameters if p.requires_grad]
    value = compute(leaf)
    inputs = ([x] if x.requires_grad else []) + learnt
    if not value.requires_grad or not inputs:
        return value.detach()
    wanted = ([leaf] if x.requires_grad else []) + learnt
    gradients = torch.autograd.grad(value, wanted, allow_unused=True)
    return known(value.detach(), gradients, inputs)


def known(value: Tensor, gradients: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> Tensor:
    """The 0-d `value`, whose gradients with respect to `inputs` are these."""
    result: Tensor = _Known.apply(value, gradients, *inputs)
    return result


def check_held(value: float, gradients: Sequence[Tensor | None], dtype: torch.dtype) -> None:
    """Refuse a loss that `dtype` cannot hold, or that is so large that its gradients overflowed.

    Raises
    ------
    LabError : as said.
    """
    most = torch.finfo(dtype).max
    held = abs(value) <= most  # False for NaN too
    if held and abs(value) > most**0.5:  # below, the gradients need no look
        held = all(g is None or bool(torch.isfinite(g).all()) for g in gradients)
    if not held:
        hint = "Choose normalize='lipschitz' or 'l2', scale the embeddings down, or look at the loss's settings."
        raise LabError("embeddings", "numbers small enough to be squared and added up", f"a loss of {value}", hint)


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor | None], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    @first_derivative
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(None if g is None else g * upstream.to(g.dtype) for g in ctx.gradients)
