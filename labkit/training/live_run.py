"""A run that is watched while it goes on: what a viewer gets to see of it, and the way back when it fails.

Synchronous, like the trainer; `labkit.training.session` adds the thread.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.threads import Aborted
from labkit.training import controls
from labkit.training.experiment import Experiment
from labkit.training.recording import Recording
from labkit.training.trainer import Trainer

Array = NDArray[Any]


class Frame(NamedTuple):
    """Where everything lay after `step` steps: samples (n, D) and proxies (C, K, D), both normalised, read-only."""

    step: int
    embeddings: Array
    proxies: Array | None


class Boundary(NamedTuple):
    """The end of a proxy problem: after how many steps, at which stored frame, and the (C, K, D) proxies chosen next."""

    step: int
    frame: int
    chosen: Array | None


@dataclass(frozen=True)
class Snapshot:
    """All a viewer needs, never changed once it is published.

    Attributes
    ----------
    version : counts snapshots. run : counts resets; labels and pictures of the samples belong to a run.
    state : "new", "paused", "playing", "done", "failed" or "stopped".
    live : where everything lies now; None before the run was prepared. stored : the recording's frames so far.
    metrics : a tuple per figure, an entry per evaluation. loss : of the last step.
    boundaries : closed problems. events : changes by hand.
    experiment : what the run began with. settings : the same with all changes since.
    options : the loss's real-valued options as they stand.
    step : steps done; `live` may be older after a failure.
    message : what to tell the user, e.g. a refused value or why the run failed. can_go_back : after a failure.
    build : what made the run's trainer, or will.
    """

    version: int
    run: int
    state: str
    experiment: Experiment
    settings: Experiment
    step: int = 0
    live: Frame | None = None
    stored: tuple[Frame, ...] = ()
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    boundaries: tuple[Boundary, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, float] = field(default_factory=dict)
    labels: Array | None = None
    class_names: tuple[str, ...] = ()
    thumbnails: Array | None = None
    loss: float = math.nan
    steps_per_second: float = 0.0
    message: str = ""
    can_go_back: bool = False
    build: Callable[[Experiment], Trainer] | None = None

    def chosen(self, frame: int | None = None) -> Array | None:
        """(C, K, D) what K-Center chose last, as seen from a stored frame (None: from now).

        At a problem's end that is what the next problem starts from; otherwise what the running problem started from.
        """
        at = len(self.stored) if frame is None else frame
        known = [b.chosen for b in self.boundaries if b.frame <= at and b.chosen is not None]
        if known:
            return known[-1]
        return self.stored[0].proxies if self.stored else None

    def problem(self, frame: int | None = None) -> int:
        """Number, from 1, of the proxy problem at a stored frame (None: now); a frame at a boundary closes its problem."""
        return 1 + sum(frame is None or b.frame < frame for b in self.boundaries)


class LiveRun:
    """A trainer with its first figures taken, one step at a time.

    Parameters
    ----------
    trainer : at its first step. aborted : asked before every use of the network; true makes `advance` raise `Aborted`.
    """

    def __init__(self, trainer: Trainer, aborted: Callable[[], bool]) -> None:
        self.trainer, self.experiment = trainer, trainer.experiment
        self.own_loss = controls.own_loss(trainer)
        self.options = controls.hot_options(trainer.loss)  # as they were at the start
        trainer.recorder.room = None  # frames are known by their number
        self.loss = math.nan
        self._frames: list[Frame] = []
        self._live: Frame | None = None  # the last one between two stored frames
        self._metrics: dict[str, tuple[float, ...]] = {}
        self._aborted = aborted
        trainer.model.register_forward_pre_hook(self._see_network)
        trainer.recording()  # the untrained network's figures, before any control can be moved
        watched: nn.Module = trainer.loss if trainer.projections is None else trainer.projections
        watched.register_forward_hook(self._see_loss)
        self._evaluated = self._state()
        self._before_change: tuple[int, dict[str, Any]] | None = None

    def _see_loss(self, _module: nn.Module, _inputs: Any, output: Tensor) -> None:
        if isinstance(output, Tensor):  # anything else is refused by whoever asked for it
            self._last = output.detach()

    def _see_network(self, _module: nn.Module, _inputs: Any) -> None:
        if self._aborted():
            raise Aborted

    def advance(self) -> None:
        """One step.

        Raises
        ------
        LabError : the loss is not finite; says at which step, and which setting was moved last.
        """
        evaluations = len(self.trainer.recorder.metrics["step"])
        try:
            self.trainer.step()
            self.loss = float(self._last)
            if not math.isfinite(self.loss):
                raise LabError("loss", "a finite number", f"{self.loss}, at step {self.trainer.steps_done}")
        except LabError as error:
            raise LabError(error.argument, error.expected, error.got, f"{error.hint} {self.last_change()}".strip()) from error
        if len(self.trainer.recorder.metrics["step"]) > evaluations:
            self._keep()

    def _keep(self) -> None:
        """Remember this moment as good; a change made long before it is no longer suspected."""
        self._evaluated = self._state()
        changed = self._before_change
        if changed is not None and self.trainer.steps_done - changed[0] > 2 * self.trainer.experiment.evaluate_every:
            self._before_change = None

    def _state(self) -> dict[str, Any]:
        state = self.trainer.state_dict()
        recorder = state.pop("recorder")  # only ever grows: the lists are copied, what is in them is not
        lists = {k: list(v) if isinstance(v, list) else dict(v) if isinstance(v, dict) else v for k, v in recorder.items()}
        return {**copy.deepcopy(state), "recorder": lists}

    def last_change(self) -> str:
        """The setting that was moved last, as a sentence; empty where none was."""
        moved = [event for event in self.trainer.recorder.events if "setting" in event]
        return f"Moved last: {moved[-1]['what']}, at step {moved[-1]['step']}." if moved else ""

    def change(self, setting: str, value: Any) -> None:
        """Change a setting that acts at once (`labkit.training.controls.change`)."""
        before = self._state()
        if controls.change(self.trainer, setting, value) is not None:
            self._before_change = (self.trainer.steps_done, before)

    def next_problem(self) -> None:
        """End the running proxy problem by hand."""
        if controls.next_problem(self.trainer):
            self._keep()

    def go_back(self, lately: bool = True) -> int:
        """To the moment before the last change, where that was lately, else to the last evaluation; returns its step."""
        changed = self._before_change if lately else None
        state = self._evaluated if changed is None else changed[1]
        at = self.trainer.steps_done
        own = copy.deepcopy({name: value for name, value in state.items() if name != "recorder"})
        self.trainer.load_state_dict({**own, "recorder": state["recorder"]})
        controls.take_back(self.trainer, self.experiment, self.options)
        del self._frames[len(self.trainer.recorder.steps) :]
        self._metrics, self._live = {}, None
        step = self.trainer.steps_done
        self.trainer.recorder.events.append({"step": step, "what": f"back from step {at}"})
        self.loss, self._evaluated, self._before_change = math.nan, self._state(), None
        return step

    def recording(self) -> Recording:
        """The run so far, under the settings it began with."""
        return self.trainer.recording()

    def look(self, fresh: bool) -> dict[str, Any]:
        """The parts of a `Snapshot` that belong to the run; `fresh` embeds the samples if the last frame is older."""
        recorder, trainer = self.trainer.recorder, self.trainer
        for at in range(len(self._frames), len(recorder.steps)):
            proxies = recorder.proxies[at].numpy() if recorder.proxies else None
            self._frames.append(_frame(recorder.steps[at], recorder.embeddings[at].numpy(), proxies))
        if len(self._metrics.get("step", ())) != len(recorder.metrics["step"]):
            self._metrics = {name: tuple(values) for name, values in recorder.metrics.items()}
        live = self._frames[-1]
        begun = bool(recorder.problems) and recorder.problems[-1]["snapshot"] == len(self._frames) - 1
        if fresh and (live.step != trainer.steps_done or begun):
            references = trainer.references.current()
            proxies = None if references is None else references.numpy().copy()
            live = self._live = _frame(trainer.steps_done, trainer.embed(trainer.sample.images).float().numpy(), proxies)
        elif self._live is not None and self._live.step > live.step:
            live = self._live
        return {
            "live": live,
            "step": trainer.steps_done,
            "stored": tuple(self._frames),
            "metrics": self._metrics,
            "boundaries": tuple(_boundary(problem) for problem in recorder.problems),
            "events": tuple(dict(event) for event in recorder.events),
            "experiment": self.experiment,
            "settings": trainer.experiment,
            "options": controls.hot_options(trainer.loss),
            "labels": _read_only(recorder.fixed["labels"]),
            "class_names": tuple(recorder.fixed["class_names"]),
            "thumbnails": _read_only(recorder.fixed["thumbnails"]),
            "loss": self.loss,
        }


def _read_only(array: Any) -> Any:
    """A view that nobody writes through: the recording has the same memory. None stays None."""
    if array is None:
        return None
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _frame(step: int, embeddings: Array, proxies: Array | None) -> Frame:
    return Frame(step, _read_only(embeddings), _read_only(proxies))


def _boundary(problem: Mapping[str, Any]) -> Boundary:
    return Boundary(problem["end"], problem["snapshot"], _read_only(problem["next_proxies"]))
