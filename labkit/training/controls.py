"""Settings that may be changed while a run goes on: which, from when they act, and how a changed run is repeated.

A change is an event in the recording, `{"step", "setting", "value", "what"}`; with the experiment that the run began
with, the events are all it takes to make the same recording again.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.training.experiment import Experiment
from labkit.training.recording import Recording
from labkit.training.registry import LOSSES
from labkit.training.trainer import Trainer
from labkit.validation import check_choice, check_number

NEXT_PROBLEM = "next_problem"  # not a setting, but an event that a replay has to repeat
OPTION = "loss.options."
ACTS = {
    "optimizer.learning_rate": "at the next step",
    "projections.projection_weight": "at the next step, from the second problem on",
    "projections.patience": "at the next evaluation",
    "projections.pool_size": "when the proxies next start anew",
    "projections.selection": "when the proxies next start anew",
}
NAMES = {
    "optimizer.learning_rate": "learning rate",
    "projections.projection_weight": "λ",
    "projections.patience": "patience",
    "projections.pool_size": "pool size",
    "projections.selection": "selection",
    OPTION + "pos_margin": "margin m⁺",
    OPTION + "neg_margin": "margin m⁻",
}


def acts(setting: str) -> str:
    """From when a change of `setting` acts, in words.

    Raises
    ------
    LabError : it cannot be changed while a run goes on.
    """
    if isinstance(setting, str) and setting.startswith(OPTION):
        return "at the next step"
    if not isinstance(setting, str) or setting not in ACTS:
        hint = f"Reset the session with experiment.replace(**{{{setting!r}: ...}})."
        raise LabError("setting", f"one that acts at once: {', '.join(ACTS)}, {OPTION}…", repr(setting), hint)
    return ACTS[setting]


def named(setting: str) -> str:
    """What a setting is called, on a control as in an event."""
    return NAMES.get(setting, setting.removeprefix(OPTION).replace("_", " "))


def hot_options(loss: nn.Module) -> dict[str, float]:
    """The loss's margins, scales and weights by name: its public attributes that are real numbers.

    Whole numbers (how many centres, how large a memory) decide on shapes and are left out, unless the constructor's
    default shows that a real number is meant.
    """
    defaults = {name: p.default for name, p in inspect.signature(type(loss).__init__).parameters.items()}
    found = {}
    for name, value in vars(loss).items():
        real = isinstance(value, float) or (type(value) is int and isinstance(defaults.get(name), float))
        if real and not name.startswith("_"):
            found[name] = float(value)
    return found


def value_of(trainer: Trainer, setting: str) -> Any:
    """What `setting` stands at in a trainer.

    Raises
    ------
    LabError : it cannot be changed while a run goes on, or this run does not have it.
    """
    acts(setting)
    if setting.startswith(OPTION):
        options, name = hot_options(trainer.loss), setting.removeprefix(OPTION)
        check_choice("setting", setting, [OPTION + known for known in options])
        return options[name]
    section, _, name = setting.partition(".")
    if section == "projections":
        if trainer.projections is None:
            raise LabError(setting, "a method with proxies", f"method {trainer.experiment.method!r}")
        if name == "patience" and trainer.experiment.method == "proxy":
            hint = "Choose method 'ccp', or end the problem by hand."
            raise LabError(setting, "a method that ends problems", "'proxy', a single problem without end", hint)
        return getattr(trainer.projections, name)
    return getattr(getattr(trainer.experiment, section), name)


def change(trainer: Trainer, setting: str, value: Any) -> dict[str, Any] | None:
    """Change a setting of a running trainer, and leave an event in its recording.

    Parameters
    ----------
    trainer : between two steps; a change before its first step needs `trainer.recording()` called before.
    setting : "optimizer.learning_rate", "projections.projection_weight" (λ), "projections.patience",
        "projections.pool_size", "projections.selection", or "loss.options.NAME" for a real-valued option of the loss.
    value : what the setting takes.

    Returns
    -------
    dict, the event; None where the setting stood at `value` already.

    Raises
    ------
    LabError : not a setting that acts at once, or a value that it refuses. Nothing has changed then.
    """
    old = value_of(trainer, setting)
    if old == value:
        return None
    _put(trainer, setting, value)
    what = f"{named(setting)} {_short(old)} → {_short(value)}"
    event = {"step": trainer.steps_done, "setting": setting, "value": value, "what": what}
    trainer.recorder.events.append(event)
    return event


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _put(trainer: Trainer, setting: str, value: Any) -> None:
    section, _, name = setting.partition(".")
    experiment = trainer.experiment
    if not (setting.startswith(OPTION) and own_loss(trainer)):  # the experiment knows what is allowed
        experiment = experiment.replace(**{setting: value})
    if setting.startswith(OPTION):
        _put_option(trainer.loss, setting.removeprefix(OPTION), value)
    elif section == "projections":
        setattr(trainer.projections, name, value)
    trainer.experiment = experiment  # last: what is built, too, may refuse the value


def own_loss(trainer: Trainer) -> bool:
    """Whether the trainer's loss is another than the one that its experiment names."""
    return type(trainer.loss) is not LOSSES[trainer.experiment.loss.name]


def _put_option(loss: nn.Module, name: str, value: Any) -> None:
    old = getattr(loss, name)
    setattr(loss, name, float(check_number(OPTION + name, value)))
    try:
        check = getattr(loss, "check_parameters", None)
        if callable(check):
            check()
    except Exception:
        setattr(loss, name, old)
        raise


def take_back(trainer: Trainer, experiment: Experiment, losses: Mapping[str, float]) -> None:
    """After an older state was loaded: every setting as the experiment and the events of that state have it.

    Parameters
    ----------
    experiment : what the run began with. losses : `hot_options` of its loss then.
    """
    trainer.experiment = experiment
    for name, value in losses.items():
        _put_option(trainer.loss, name, value)
    if trainer.projections is not None:
        for setting in (s for s in ACTS if s.startswith("projections.")):
            name = setting.removeprefix("projections.")
            if not (name == "patience" and experiment.method == "proxy"):
                setattr(trainer.projections, name, getattr(experiment.projections, name))
    for event in trainer.recorder.events:
        if event.get("setting", NEXT_PROBLEM) != NEXT_PROBLEM:
            _put(trainer, event["setting"], event["value"])


def next_problem(trainer: Trainer) -> bool:
    """End the running proxy problem by hand, as if patience had run out, and leave an event.

    Returns
    -------
    bool : False, and nothing happens, where the problem has only just begun or the run is over.

    Raises
    ------
    LabError : method "pairs", which has no proxies.
    """
    begun = trainer.recorder.problems[-1]["end"] if trainer.recorder.problems else 0
    if trainer.done or trainer.steps_done == begun:
        return False
    trainer.next_problem()
    trainer.recorder.events.append({
        "step": trainer.steps_done, "setting": NEXT_PROBLEM, "value": None, "what": "next problem, by hand",
    })  # fmt: skip
    return True


def replay(
    experiment: Experiment,
    events: Iterable[Mapping[str, Any]],
    steps: int,
    *,
    splits: Splits | None = None,
    loss: nn.Module | None = None,
) -> Recording:
    """Repeat a run whose controls were moved: the same experiment and the same events give the same recording.

    Parameters
    ----------
    experiment : what the run began with; `Experiment.from_dict(recording.experiment)`.
    events : `recording.events`; those without a "setting" are only copied.
    steps : how far the run had gone.
    splits, loss : as the run's trainer had them. On one machine, with as many threads as
        `recording.environment["threads"]` says, the numbers agree to the last digit.

    Raises
    ------
    LabError : an event that does not fit the experiment.
    """
    trainer = Trainer(experiment, splits=splits, loss=copy.deepcopy(loss))
    trainer.recording()
    noted = list(trainer.recorder.events)
    for event in events:
        trainer.step(max(0, event["step"] - trainer.steps_done))
        if "setting" not in event:
            if dict(event) not in noted:
                trainer.recorder.events.append(dict(event))
        elif event["setting"] == NEXT_PROBLEM:
            next_problem(trainer)
        else:
            change(trainer, event["setting"], event["value"])
    trainer.step(max(0, steps - trainer.steps_done))
    return trainer.recording()
