"""What a caller hands to a trainer or a session, looked at before anything is loaded or built."""

from __future__ import annotations

import copy
import threading
from typing import Any

from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.training.experiment import Experiment
from labkit.validation import check_number, check_takes, describe


def check_experiment(experiment: Any) -> Experiment:
    """Return `experiment` if it is one.

    Raises
    ------
    LabError : a preset's name, a dictionary, or anything else.
    """
    if not isinstance(experiment, Experiment):
        hint = "Experiment.preset(name) makes one of a preset, Experiment.from_dict(settings) of a dictionary."
        raise LabError("experiment", "an Experiment", describe(experiment), hint)
    return experiment


def check_given(experiment: Any, splits: Any, loss: Any) -> None:
    """Refuse an experiment, pictures or a loss (the last two may be None) of another kind than a trainer takes.

    Raises
    ------
    LabError : names the one that is wrong.
    """
    check_experiment(experiment)
    if splits is not None and not isinstance(splits, Splits):
        raise LabError("splits", "Splits, as load_digits gives them, or None", describe(splits))
    if loss is None:
        return
    if isinstance(loss, type):
        raise LabError("loss", "a loss, not its class", loss.__name__, f"Write {loss.__name__}(…).")
    if not isinstance(loss, nn.Module):
        hint = "labkit.losses.FunctionLoss makes one of a function."
        raise LabError("loss", "a torch.nn.Module called as loss(embeddings, labels, …)", describe(loss), hint)
    if "_modules" not in vars(loss):
        kind = type(loss).__name__
        hint = f"{kind}.__init__ has to call super().__init__() first."
        raise LabError("loss", "a module that has been set up", f"a {kind} that is not", hint)
    if type(loss).forward is nn.Module.forward:
        raise LabError("loss", "a module with a forward method", type(loss).__name__)


def copied(loss: nn.Module | None) -> nn.Module | None:
    """A loss of its own for a run, so that the user's keeps its settings.

    Raises
    ------
    LabError : it holds something that cannot be copied, such as an open file or a lock.
    """
    try:
        return copy.deepcopy(loss)
    except Exception as error:  # whatever the copying of its parts raises
        hint = "Give a function that makes a trainer as build=…; it then makes a loss of its own for each run."
        raise LabError("loss", "a loss that copy.deepcopy can copy", f"{type(error).__name__}: {error}"[:120], hint) from error


def check_build(build: Any) -> Any:
    """Return `build` if it can be called with an experiment, or is None.

    Raises
    ------
    LabError : anything else.
    """
    if build is None:
        return None
    if not callable(build):
        raise LabError("build", "a function of an experiment that gives a Trainer", describe(build))
    check_takes("build", build, "experiment")
    return build


def check_wait(timeout: Any) -> float | None:
    """Return `timeout` if it is a number of seconds >= 0 that a thread can wait, or None, which waits as long as it takes.

    Raises
    ------
    LabError : anything else.
    """
    return None if timeout is None else check_number("timeout", timeout, low=0, high=threading.TIMEOUT_MAX)
