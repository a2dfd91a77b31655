"""Losses that the user wrote in the notebook, under names for the loss menu."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping

from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.training import Experiment, Trainer
from labkit.validation import describe

OwnLoss = nn.Module | Callable[[], nn.Module]


def by_name(loss: OwnLoss | Mapping[str, OwnLoss] | None) -> dict[str, OwnLoss]:
    """A module, its class, a function that makes one, or a dict of these; a single one is named as its class or function.

    Raises
    ------
    LabError : something else.
    """
    if loss is None:
        return {}
    if isinstance(loss, Mapping):
        named = {str(name): each for name, each in loss.items()}
    else:
        itself = inspect.isclass(loss) or inspect.isfunction(loss)
        named = {str(getattr(loss, "__name__", loss)) if itself else type(loss).__name__: loss}
    for name, each in named.items():
        if not callable(each):
            raise LabError("loss", "a module, its class, or a function that makes one", f"{name}: {describe(each)}")
    return named


def builder(splits: Splits | None, loss: OwnLoss | None) -> Callable[[Experiment], Trainer]:
    """What makes the trainer of an experiment, with a copy of the loss for each."""

    def build(experiment: Experiment) -> Trainer:
        return Trainer(experiment, splits=splits, loss=None if loss is None else _made(loss))

    return build


def _made(loss: OwnLoss) -> nn.Module:
    if isinstance(loss, nn.Module):
        return copy.deepcopy(loss)
    made = loss()
    if not isinstance(made, nn.Module):
        raise LabError("loss", "a torch module", describe(made))
    return made
