"""The mean loss between two evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from labkit.errors import LabError


class RunningLoss:
    """Sums up losses on their device, so that no step waits for it."""

    def __init__(self, device: torch.device) -> None:
        self._sum, self._count = torch.zeros((), device=device), 0

    def add(self, loss: Tensor) -> None:
        """One step's 0-d loss."""
        self._sum += loss.detach()
        self._count += 1

    def check(self, step: int) -> float:
        """The mean of the losses since it was last taken; 0 without any.

        Raises
        ------
        LabError : it is not finite; the message names `step`.
        """
        mean = float(self._sum) / max(1, self._count)
        if not math.isfinite(mean):
            raise LabError("loss", "a finite number", f"{mean} by step {step}", "Lower the learning rate.")
        return mean

    def take(self, step: int) -> float:
        """What `check` gives; the next mean begins here."""
        mean = self.check(step)
        self._sum.zero_()
        self._count = 0
        return mean

    def state_dict(self) -> dict[str, float]:
        """Sum and count."""
        return {"sum": float(self._sum), "count": self._count}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Take back what `state_dict` gave; nothing yet where it is empty."""
        self._sum.fill_(state.get("sum", 0.0))
        self._count = int(state.get("count", 0))
