"""The optimiser of an experiment, its learning-rate schedule, and the precision it computes in."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from labkit.errors import LabError
from labkit.training.experiment import Optimizer


def build_optimizer(settings: Optimizer, model: nn.Module, proxies: Iterable[nn.Parameter]) -> torch.optim.Adam:
    """Adam over the network (with weight decay) and the proxies (without, at `proxy_multiplier` times the rate).

    Each group keeps its factor under "multiplier", for the schedule.
    """
    groups = [
        {"params": [p for p in model.parameters() if p.requires_grad], "weight_decay": settings.weight_decay, "multiplier": 1.0},
    ]
    proxies = list(proxies)
    if proxies:
        groups.append({"params": proxies, "weight_decay": 0.0, "multiplier": settings.proxy_multiplier})
    return torch.optim.Adam(groups, lr=settings.learning_rate, betas=(settings.beta1, settings.beta2))


def schedule(settings: Optimizer, step: int, steps: int) -> float:
    """Fraction of the learning rate at a step (0 ... steps - 1): linear warm-up, then constant, or held and then half a cosine."""
    warmup = min(1.0, (step + 1) / settings.warmup_steps) if settings.warmup_steps else 1.0
    if settings.schedule == "constant":
        return warmup
    falling = max(0.0, (step + 1) / steps - settings.hold_fraction) / (1 - settings.hold_fraction)
    wave = 0.5 * (1 + math.cos(math.pi * falling))
    return warmup * (settings.final_fraction + (1 - settings.final_fraction) * wave)


def choose_device(name: str = "auto") -> torch.device:
    """CUDA where there is one, else Apple's MPS, else the CPU; or the device named.

    Raises
    ------
    LabError : the named device is not there.
    """
    if name != "auto":
        try:
            device = torch.device(name)
            torch.zeros(1, device=device).item()  # the meta device holds nothing
        except (RuntimeError, AssertionError, TypeError) as error:
            raise LabError("device", "a device of this machine, or 'auto'", repr(name)) from error
        return device
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The dtype that convolutions and matrix products compute in; "auto" takes half precision where it is native.

    bfloat16 on GPUs and processors with instructions for it, float16 (with loss scaling) on older GPUs, else float32.

    Raises
    ------
    LabError : float16 asked for on a processor.
    """
    if name == "auto":
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
        native = device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
        return torch.bfloat16 if native else torch.float32
    if name == "float16" and device.type == "cpu":
        raise LabError("network.precision", "'auto', 'float32' or 'bfloat16' on a processor", repr(name))
    dtype: torch.dtype = getattr(torch, name)
    return dtype
