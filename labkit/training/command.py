"""What `labkit train` does, alone or as one of several processes; only the main one speaks."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from labkit.errors import LabError
from labkit.training.experiment import Experiment
from labkit.training.folds import check_folds, folds_table, train_folds
from labkit.training.published import published_line
from labkit.training.tensorboard import TensorBoardLog
from labkit.training.trainer import Callback, Trainer
from labkit.training.world import join_world


def default_folder(experiment: Experiment, fold: str = "") -> Path:
    """Where a run lies if nothing else is said: runs/NAME-seedN, with -foldK before the seed where `fold` is given.

    Raises
    ------
    LabError : a name that would lead elsewhere.
    """
    if {"/", "\\"} & set(experiment.name) or experiment.name == "..":
        expected = "one without / and \\, after which the run's folder can be called"
        raise LabError("name", expected, repr(experiment.name), "Choose another, or give the folder: --out.")
    number = f"-fold{fold}" if fold else ""
    return Path("runs") / f"{experiment.name}{number}-seed{experiment.seed}"


def train_command(
    experiment: Experiment,
    folder: Path,
    *,
    fold: str = "",
    resume: bool = False,
    device: str = "auto",
    tensorboard: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Train an experiment in `folder`, or one for each fold where `fold` is "all", and say what came of it.

    Parameters
    ----------
    tensorboard : whether to write event files into the run's folder `tensorboard` as well.

    Raises
    ------
    LabError : what the trainer refuses, folds of an experiment without any, or tensorboard is not installed.
    """
    if fold:
        check_folds(experiment, fold)
    if fold == "all":
        figures = train_folds(experiment, folder, resume=resume, device=device, tensorboard=tensorboard, say=say)
        say(f"On the test classes, in per cent:\n{folds_table(figures)}\nRuns: {folder}")
        join_world(device).leave()
        return
    log: list[Callback] = [TensorBoardLog(folder / "tensorboard")] if tensorboard else []
    trainer = Trainer(experiment, directory=folder, resume=resume, device=device, callbacks=log)
    say(trainer.splits.description)
    recording = trainer.run()
    known = {name: value for name, value in recording.final.items() if math.isfinite(value)}
    say("On the test set: " + ", ".join(f"{name} {value:.4f}" for name, value in known.items()))
    if line := published_line(experiment):
        say(line)
    say(f"Run: {folder}   (labkit report {folder} makes a page of it)")
    trainer.world.leave()
