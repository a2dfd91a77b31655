"""Losses that the user wrote in the notebook, under names for the loss menu."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.training import Experiment, Trainer
from labkit.training.live_run import Snapshot
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


@dataclass(frozen=True, eq=False)
class Maker:
    """What makes the trainer of an experiment; the run that it has made has it in its snapshots.

    Attributes
    ----------
    preset : whose line the panel shows. own_loss : the name of the loss of the user's own; "" for the experiment's.
    loss : that loss, of which each trainer gets a copy. splits : the pictures, in place of the experiment's.
    """

    preset: str
    own_loss: str = ""
    loss: OwnLoss | None = None
    splits: Splits | None = None

    def __call__(self, experiment: Experiment) -> Trainer:
        return Trainer(experiment, splits=self.splits, loss=None if self.loss is None else _made(self.loss))

    def loss_as_code(self) -> str:
        """The expression that makes the loss: a call of the class or function, by its own name; "" where there is none."""
        name = str(getattr(self.loss, "__name__", ""))
        return f"{name}()" if name.isidentifier() else ""

    def to_fill_in(self) -> dict[str, str]:
        """What was given to the panel and has no expression, by the argument of `replay`, in words."""
        found = {}
        if self.loss is not None and not self.loss_as_code():
            found["loss"] = f"the loss that the playground was given as {self.own_loss!r}"
        if self.splits is not None:
            found["splits"] = "the pictures that the playground was given"
        return found


def maker_of(snapshot: Snapshot) -> Maker:
    """What made a snapshot's run; for a run that was begun without the panel, one that says nothing of losses."""
    return snapshot.build if isinstance(snapshot.build, Maker) else Maker("ccp")


def _made(loss: OwnLoss) -> nn.Module:
    if isinstance(loss, nn.Module):
        return copy.deepcopy(loss)
    made = loss()
    if not isinstance(made, nn.Module):
        raise LabError("loss", "a torch module", describe(made))
    return made
