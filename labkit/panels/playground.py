"""The playground: train, pause, tweak, step and scrub, and see the geometry answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import ipywidgets

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.panels.common import Panel, on_value, row
from labkit.panels.playground_controls import Controls
from labkit.panels.playground_figure import LiveFigure
from labkit.panels.playground_losses import Maker, OwnLoss, by_name, maker_of
from labkit.panels.playground_notice import HELP, check_has_trained, what_to_notice
from labkit.panels.playground_presets import PRESETS, live_experiment
from labkit.panels.playground_sharing import Sharing
from labkit.panels.playground_transport import PresetMenu, Transport
from labkit.panels.watching import TICK, Watch
from labkit.training import Experiment, Recording
from labkit.training.session import LiveSession
from labkit.validation import check_choice


class Playground(Panel):
    """A live run with its controls: `Playground("collapse")` in a cell displays it.

    Parameters
    ----------
    preset : "collapse", "ccp", "samples", "random", "large_lambda" or "k1".
    experiment : in place of a preset's.
    loss : a loss of your own for the loss menu: a module, its class, a function that makes one, or a dict of these by
        name. The first is in use from the start.
    splits : the pictures, in place of the experiment's data source.
    controls : False hides the controls behind the teacher's switch.
    threaded : False computes in the kernel's own thread, and only in `run_pending`.
    changes : settings of the experiment, e.g. `seed=1` or `**{"optimizer.learning_rate": 1e-3}`.

    Attributes
    ----------
    session : the `LiveSession`. figure : the picture, a `LiveCanvas` that says what it shows. controls : the widgets by
        setting, `.hot` and `.cold`.

    Raises
    ------
    LabError : an unknown preset or setting, or settings that do not fit the data.
    """

    def __init__(
        self,
        preset: str = "ccp",
        *,
        experiment: Experiment | None = None,
        loss: OwnLoss | Mapping[str, OwnLoss] | None = None,
        splits: Splits | None = None,
        controls: bool = True,
        threaded: bool = True,
        **changes: Any,
    ) -> None:
        check_choice("preset", preset, PRESETS)
        wanted = live_experiment(preset, **changes) if experiment is None else experiment.replace(**changes)
        self._splits, self._losses = splits, by_name(loss)
        self._lock = threading.RLock()  # with kernel subshells, callbacks and cells run in different threads
        self._at: int | None = None  # the stored snapshot that is shown; None for now
        self._drawn = (-1, "", "")  # version, state and notice on the page
        build = self._maker(preset, next(iter(self._losses), ""))
        self.session = LiveSession(wanted, build=build, threaded=threaded, frame_seconds=TICK)
        first = self.session.prepare()
        self._build_transport()
        self._live = LiveFigure(first, self.transport.timeline)
        super().__init__(self._live.widget)
        self._watch = Watch(self.figure, self._look)
        self.session.heard = self._heard
        self._build_widgets(controls)
        self.refresh()

    def _build_transport(self) -> None:
        does = {
            "play": self.play, "pause": self.pause, "step": self.step, "steps": lambda: self.step(25), "reset": self.reset,
            "next_problem": self.next_problem, "stop": self.stop, "go_back": self.go_back,
        }  # fmt: skip
        self.transport = Transport(
            {name: self.guarded(each) for name, each in does.items()},
            self.show_at,
            lambda whether: setattr(self.figure, "balls", whether),
        )

    def _build_widgets(self, controls: bool) -> None:
        self.controls = Controls(self.guarded(self.change), self.guarded(self.restart), self._losses)
        self.sharing = Sharing(self.session, self._load, self.say_error)
        self.preset = PresetMenu(maker_of(self.session.snapshot).preset, self.guarded(self.load_preset))
        self.teacher = ipywidgets.ToggleButton(value=not controls, tooltip="For whoever stands before a class")
        on_value(self.teacher, self._show_controls)
        self._show_controls()
        top = row(self.preset, self.transport.buttons)
        time_row = row(self.transport.time, self.teacher)
        self.assemble(top, self.controls.box, time_row, help_text=HELP)
        self.children = (*self.children[:-1], self.sharing.box, self.children[-1])  # the fold below the figure

    def _show_controls(self) -> None:
        hidden = self.teacher.value
        self.teacher.description = "Show controls" if hidden else "Hide controls"
        self.controls.box.layout.display = "none" if hidden else "flex"
        self.sharing.box.layout.display = "none" if hidden else ""

    # ------------------------------------------------------------ transport

    def play(self) -> None:
        """Train until paused."""
        self.session.start()

    def pause(self) -> None:
        """Rest after the step at work."""
        self.session.pause()

    def step(self, n: int = 1) -> None:
        """Do n steps."""
        self.session.step(n)

    def next_problem(self) -> None:
        """End the running proxy problem by hand, if it has trained for a step."""
        check_has_trained(self.session.snapshot)
        self.session.next_problem()

    def reset(self) -> None:
        """Begin again with the settings as they stand."""
        self.session.reset()

    def go_back(self) -> None:
        """After a failure: to the last moment known to be good."""
        self.session.go_back()

    def stop(self) -> None:
        """End the session's thread; Play goes on."""
        self.session.stop()
        self.refresh()

    def change(self, setting: str, value: Any) -> None:
        """Move a control that acts at once."""
        try:
            self.session.set(setting, value)
        except LabError:
            self.controls.show(self.session.snapshot, force=True)
            raise

    def restart(self, changes: Mapping[str, Any]) -> None:
        """Begin again with other settings; for "loss.name" also the name of a loss of your own."""
        snapshot = self.session.snapshot
        changes, maker = dict(changes), maker_of(snapshot)
        own = maker.own_loss
        if changes.get("loss.name") in self._losses:
            own = str(changes.pop("loss.name"))
        elif "loss" in changes:
            own = ""
        try:
            wanted = snapshot.settings.replace(**changes)
        except LabError:
            self.controls.show(snapshot, force=True)
            raise
        self._begin(wanted, maker.preset, own)

    def load_preset(self, name: str) -> None:
        """Begin again with a preset, keeping the seed."""
        wanted = live_experiment(name, seed=self.session.snapshot.settings.seed)
        self._begin(wanted, name, next(iter(self._losses), ""))

    def _load(self, experiment: Experiment, own_loss: str) -> None:
        if own_loss and own_loss not in self._losses:
            raise LabError("loss", f"a loss that this panel was given: {', '.join(self._losses) or 'none'}", own_loss)
        self._begin(experiment, maker_of(self.session.snapshot).preset, own_loss)

    def _begin(self, experiment: Experiment, preset: str, own_loss: str) -> None:
        with self._lock:
            self._at = None
        self.session.reset(experiment, build=self._maker(preset, own_loss))

    def _maker(self, preset: str, own_loss: str) -> Maker:
        """What makes trainers. It says what a run is of: the panel keeps no copy, since a run may yet be refused."""
        return Maker(preset, own_loss, self._losses.get(own_loss), self._splits)

    def run_pending(self, steps: int | None = None) -> None:
        """For `threaded=False`: do what is due, at most `steps` steps of it, and draw."""
        self.session.run_pending(steps)
        self.refresh()

    def recording(self) -> Recording:
        """The run so far."""
        return self.session.recording()

    # ------------------------------------------------------------ the picture

    def show_at(self, at: int | None) -> None:
        """Show a stored snapshot by its number, or (None) follow the run."""
        with self._lock:
            self._at = at
            self.refresh()

    def refresh(self) -> None:
        """Draw the newest snapshot, or the stored one that the timeline stands at."""
        with self._lock:
            snapshot = self.session.snapshot  # inside: of two threads, the one that draws last has the newer one
            version, state, notice = self._drawn
            preset = maker_of(snapshot).preset
            if self._at is not None and self._at >= len(snapshot.stored):
                self._at = None
            self._live.draw(snapshot, self._at)
            self.transport.show(snapshot, self._at)
            refused = bool(snapshot.message) and snapshot.version != version
            self.controls.show(snapshot, force=refused)
            self.preset.show(preset, force=refused)
            text = what_to_notice(snapshot, PRESETS[preset].notice)
            if text != notice:
                self.say_notice(text)
            if snapshot.state == "failed":
                self.say_error(RuntimeError(snapshot.message))
            elif state == "failed":
                self.say_error(None)
            self._drawn = (snapshot.version, snapshot.state, text)

    def _heard(self) -> None:
        """A command was given, perhaps to the session itself in a cell: what was refused before is over."""
        with self._lock:  # so that a failure is not drawn between the two
            if self.session.state != "failed":
                self.say_error(None)
        self._watch.wake(hurry=True)

    def _look(self) -> tuple[bool, bool]:
        """Draw if there is something new; whether it was drawn, and whether more will come."""
        new = self.session.version != self._drawn[0]
        if new:
            self.refresh()
        resting = self.session.state != "playing" and self.session.settle(0)
        return new, not resting or self.session.version != self._drawn[0]

    def close(self) -> None:
        """Stop the session and free the panel's widgets."""
        for part in ("session", "_watch"):  # the session's end is heard, and wakes the watch
            if part in self.__dict__:  # absent where the panel could not be built
                getattr(self, part).stop()
        super().close()
