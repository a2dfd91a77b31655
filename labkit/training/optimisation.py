"""The optimiser of an experiment, its learning-rate schedule, and the precision it computes in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from labkit.errors import LabError
from labkit.training.sections import Optimizer


def build_optimizer(
    settings: Optimizer, model: nn.Module, proxies: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Adam or SGD over the backbone, the new last layer, and the proxies (without weight decay).

    Each group has a "name" and keeps its factor of the learning rate under "multiplier", for the schedule.
    """
    decay, (backbone, head) = settings.weight_decay, backbone_and_head(model)
    groups: list[dict[str, Any]] = [
        {"name": "backbone", "params": backbone, "weight_decay": decay, "multiplier": 1.0},
        {"name": "head", "params": head, "weight_decay": decay, "multiplier": settings.head_multiplier},
        {"name": "proxies", "params": list(proxies), "weight_decay": 0.0, "multiplier": settings.proxy_multiplier},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.name == "sgd":
        return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum)
    betas = float(settings.beta1), float(settings.beta2)  # 0 is read as an int, and torch takes no pair of an int and a float
    return torch.optim.Adam(groups, lr=settings.learning_rate, betas=betas)


def backbone_and_head(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The trainable parameters of a network in two lists; the head is its module `head`, or `heads`, where it has one."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    head = [p for name, p in named if name.startswith(("head.", "heads."))]
    return [p for name, p in named if not name.startswith(("head.", "heads."))], head


def prepare_groups(optimizer: torch.optim.Optimizer, settings: Optimizer, step: int, steps: int) -> None:
    """Set each group's learning rate for a step, and let the backbone rest while only the head and the proxies learn."""
    rate = settings.learning_rate * schedule(settings, step, steps)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["multiplier"]
        if group["name"] == "backbone" and step < settings.head_only_steps:
            for parameter in group["params"]:  # an optimiser passes over what has no gradient, moments and decay included
                parameter.grad = None


def schedule(settings: Optimizer, step: int, steps: int) -> float:
    """Fraction of the learning rate at a step (0 ... steps - 1): linear warm-up, then constant, stairs, or held and then
    half a cosine."""
    warmup = min(1.0, (step + 1) / settings.warmup_steps) if settings.warmup_steps else 1.0
    if settings.schedule == "constant":
        return warmup
    if settings.schedule == "step":
        return warmup * settings.step_factor ** (step // settings.step_size)
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
