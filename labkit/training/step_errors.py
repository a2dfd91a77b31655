"""What goes wrong in a step, told as something that a user can mend: too little memory, weights beyond all bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from labkit.errors import LabError, said
from labkit.training.own_settings import check_gradients

if TYPE_CHECKING:
    from labkit.training.trainer import Trainer

SIGNS = ("can't allocate memory", "not enough memory", "out of memory", "cannot allocate memory")
FACTORS = {"head": "optimizer.head_multiplier", "proxies": "optimizer.proxy_multiplier"}
GROWN = 1e6  # a weight of this size has left everything that training comes to


@contextmanager
def errors_named(trainer: Trainer) -> Iterator[None]:
    """Around a step: what memory that runs out and training that diverges lead to, by its cause.

    Raises
    ------
    LabError : within torch.no_grad(); where Python, NumPy or torch find no memory; and in place of one about numbers that
        are not finite, which blames what met them first, where the weights have grown.
    """
    check_gradients("step")
    step = trainer.steps_done
    try:
        yield
    except LabError as error:
        if trainer.steps_done and "finite" in error.expected:
            _look_for_divergence(trainer, error)
        raise
    except (MemoryError, RuntimeError) as error:
        told = said(error, 160)
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and not any(sign in told.lower() for sign in SIGNS):
            raise
        hint = "Lower data.samples_per_class, memory.size or photos.size; the last checkpoint is whole."
        raise LabError("memory", "enough for a batch and its gradient", f"{told}, after step {step}", hint) from error


def _look_for_divergence(trainer: Trainer, error: LabError) -> None:
    for group in trainer.optimizer.param_groups:
        sizes = [float(parameter.detach().abs().max()) for parameter in group["params"]]
        grown = [size for size in sizes if not size < GROWN]  # NaN among them
        if grown:
            got = f"{group['lr']:.3g} for the {group['name']}, with weights of {grown[0]:.3g}"
            factor = "" if group["multiplier"] == 1 else f" (or {FACTORS[group['name']]})"
            raise LabError(
                "optimizer.learning_rate", "a rate with which the weights stay finite and small",
                f"{got}: training diverged, at step {trainer.steps_done}",
                f"Lower it{factor}. Where that changes nothing, the loss has a gradient that is not finite.",
            ) from error  # fmt: skip
