"""The way back from a loss to the network's gradient, and a look at whether it arrives there."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError


class WayBack:
    """Calls backward() on each step's loss; refuses losses that have been used up or do not depend on the network.

    Parameters
    ----------
    scaler : of half precision's losses. model : the network; where nothing of it learns, nothing is looked for.
    loss : for its name.
    """

    def __init__(self, scaler: torch.amp.GradScaler, model: nn.Module, loss: nn.Module) -> None:
        self._scaler, self._model, self._name = scaler, model, type(loss).__name__
        self._arrived = not any(parameter.requires_grad for parameter in model.parameters())

    def __call__(self, loss: Tensor) -> None:
        """Gradients of a 0-d loss, scaled as half precision needs it.

        Raises
        ------
        LabError : NaN or infinity (looked for on the processor, where that is free; elsewhere `RunningLoss` does), backward()
            has been called on it already, or the first loss other than 0 has no gradient in the network.
        """
        if loss.device.type == "cpu" and not math.isfinite(value := loss.item()):
            hint = "Look for a root or a logarithm of 0, or a mean of nothing."
            raise LabError(f"loss ({self._name})", "a finite number", value, hint)
        scaled: Any = self._scaler.scale(loss)
        try:
            scaled.backward()
        except RuntimeError as error:
            if "a second time" not in str(error):
                raise
            hint = "Leave out its own call of backward()."
            raise LabError(self._name, "a loss on which nobody has called backward() yet", "one used up", hint) from error
        if not self._arrived:
            self._look(loss)

    def _look(self, loss: Tensor) -> None:
        """Once: the first loss that is not 0. A 0 may come of a batch in which nothing has to move."""
        if all(parameter.grad is None for parameter in self._model.parameters()):
            if loss.item() != 0:
                expected = "a loss computed from the embeddings, with its gradient"
                raise LabError(self._name, expected, "one that does not depend on them", "Look for a detach().")
        else:
            self._arrived = True
