"""Weights drawn from a generator of one's own, so that building a network disturbs nobody else's random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

Net = TypeVar("Net", bound=nn.Module)


def initialise(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Reset every layer of `model`: He initialisation for weights, zero biases, unit batch norms.

    Parameters
    ----------
    model : made of convolutions, linear layers and batch norms.
    generator : where the random numbers come from; None takes torch's global one.

    Notes
    -----
    Convolutions draw from N(0, 2 / fan_out) (He et al. 2015), linear layers from U(-a, a) with a = 1 / sqrt(fan_in).
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
            if layer.affine:
                nn.init.ones_(layer.weight)
                nn.init.zeros_(layer.bias)


def build_seeded(make: Callable[[], Net], generator: torch.Generator) -> Net:
    """Build a network on the CPU whose weights depend on `generator` alone; the global generator is not touched.

    The network is laid out on torch's `meta` device first, where construction draws no random numbers.
    """
    with torch.device("meta"):
        model = make()
    model.to_empty(device="cpu")
    initialise(model, generator)
    return model


@contextmanager
def global_generator_kept() -> Iterator[None]:
    """Whatever is drawn inside, torch's global generator goes on afterwards as if nothing had been."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)
