"""Gradients in closed form: exact once and backwards, and refused where another derivative is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from labkit.errors import LabError

Backward = Callable[..., Any]


def first_derivative(backward: Backward) -> Backward:
    """For the `backward` of an autograd function: its gradients have no graph behind them, hence no derivative.

    torch's `once_differentiable` notices that only where the incoming gradient has a graph; a gradient penalty would add
    nothing, without a word. Autograd is on within a backward pass exactly where `create_graph=True` asks for a graph.

    Raises
    ------
    LabError : from the backward pass, with `create_graph=True`.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            hint = "Gradient penalties and second-order optimisers need a loss made of torch's own operations."
            raise LabError("create_graph", "False: labkit's gradients have no derivative of their own", True, hint)
        return backward(ctx, *gradients)

    return checked


def check_untransformed(name: str, values: Tensor) -> None:
    """Refuse a tensor inside one of `torch.func`'s transforms, or with a tangent: the way forwards would lose derivatives.

    Raises
    ------
    LabError : as said.
    """
    inside = torch._C._functorch.is_functorch_wrapped_tensor(values)
    if inside or forward_ad.unpack_dual(values).tangent is not None:  # type: ignore[no-untyped-call]
        got = "one inside torch.func.grad, vmap, jvp or the like" if inside else "one with a tangent"
        raise LabError(name, "a plain tensor", got, "Take gradients by backward() or torch.autograd.grad().")
