"""What a live session's thread does between two commands: steps, snapshots, and what becomes of an error."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labkit.errors import LabError
from labkit.threads import Aborted, unless
from labkit.training.controls import OPTION
from labkit.training.experiment import Experiment
from labkit.training.inbox import Inbox
from labkit.training.live_run import LiveRun, Snapshot
from labkit.training.trainer import Trainer
from labkit.validation import describe

Build = Callable[[Experiment], Trainer]


class Conductor:
    """Conducts a run, one turn at a time, in whichever thread calls; only one may at a time.

    Parameters
    ----------
    experiment, build : what to run, and what makes its trainer. inbox : where commands come from.
    aborted : true when the step at work shall be let go of. frame_seconds : least time between two snapshots.

    Attributes
    ----------
    newest : the newest snapshot; replaced, never changed. seen : whether somebody took it.
    error : what went wrong last, until somebody takes it.
    """

    def __init__(
        self, experiment: Experiment, build: Build, inbox: Inbox, aborted: Callable[[], bool], frame_seconds: float
    ) -> None:
        self._build, self._inbox, self._aborted, self._frame_seconds = build, inbox, aborted, frame_seconds
        self._run: LiveRun | None = None
        self._runs, self._playing, self._to_do, self._message = 0, False, 0, ""
        self._failed = self._torn = False  # torn: a step was let go of half-way
        self._building = False
        self._pace: deque[tuple[float, int]] = deque(maxlen=12)  # when the last snapshots were taken, at which steps
        self.newest, self.seen = Snapshot(0, 0, "new", experiment, experiment, build=build), True
        self.error: Exception | None = None

    def turn(self) -> None:
        """One command, or one step. Never raises: what goes wrong is published."""
        command, self._building = self._inbox.take(), False
        try:
            if command is not None:
                self._message = ""
                command()
                self.publish(fresh=not self._inbox.busy)  # at once: while it plays, the next frame comes soon
            elif self._inbox.busy:
                self._advance()
        except Aborted:
            self._torn = self._torn or not self._building
            self._message = "Stopped while it was being built; the next command builds it anew." if self._building else ""
            self.rest()
            self.publish("stopped", fresh=False)
        except BaseException as error:
            if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                raise
            if not isinstance(error, Exception):  # would end the thread unseen, e.g. sys.exit() in a loss
                error = RuntimeError(f"The training thread was told to end by {error!r}")
            refused = command is not None and isinstance(error, LabError) and self._run is not None
            self._failed = self._failed or not refused
            self.error, self._message = error, str(error) if isinstance(error, LabError) else repr(error)
            if not refused:
                self.rest()
            self.publish(fresh=False)

    def _advance(self) -> None:
        run = self.of_run()
        run.advance()
        if not self._playing:
            self._to_do -= 1
        if run.trainer.done or not (self._playing or self._to_do):
            self.rest()
        waited = time.perf_counter() - (self._pace[-1][0] if self._pace else 0.0)
        if not self._inbox.busy or (self.seen and waited >= self._frame_seconds):
            self.publish()

    def of_run(self) -> LiveRun:
        """The run, built if there is none yet."""
        if self._run is None:
            self.rebuild(self.newest.experiment, None)
        assert self._run is not None
        return self._run

    def rebuild(self, experiment: Experiment | None, build: Build | None) -> None:
        """A new run, paused; of the settings as they stand, where no other experiment is given."""
        old = self._run
        wanted = experiment if experiment is not None else self.newest.settings
        self._building = True
        with unless(self._aborted):
            trainer = (build or self._build)(wanted)
            if not isinstance(trainer, Trainer):
                raise LabError("build", "a function of an experiment that gives a Trainer", describe(trainer))
            run = LiveRun(trainer, self._aborted)
        if experiment is None and old is not None and old.own_loss:  # its settings are in no experiment
            for name, value in old.look(fresh=False)["options"].items():
                run.change(OPTION + name, value)
        self._run, self._build, self._building = run, build or self._build, False
        self._runs += 1
        self._failed = self._torn = False
        self.rest()
        self.publish()

    def go(self, steps: int | None) -> None:
        """Take turns from now on: for so many steps, or (None) without end."""
        run = self.of_run()
        if self._failed:
            raise LabError("start", "a run that has not failed", "one that has", "Go back or reset first.")
        if self._torn:
            self.go_back(lately=False)
        if not run.trainer.done:
            if self._playing:  # steps asked for while it plays are the last ones; while it steps they come on top
                self._to_do = 0
            self._to_do += steps or 0
            self._playing = steps is None
            self._inbox.busy = True

    def rest(self) -> None:
        """Take no more turns than commands."""
        self._playing, self._to_do, self._inbox.busy = False, 0, False
        self._pace.clear()

    def outlasts(self) -> None:
        """Say in the newest snapshot that the turn at work has not ended when it was told to; called by another thread."""
        words = "being built" if self._building else "at work"
        told = f"The run is still {words}; it ends by itself as soon as it can."
        self.newest = replace(self.newest, version=self.newest.version + 1, message=told)

    def go_back(self, *, lately: bool = True) -> None:
        """See `LiveRun.go_back`."""
        step = self.of_run().go_back(lately)
        self._failed = self._torn = False
        self.rest()
        self._message = f"Back at step {step}."

    def publish(self, state: str = "", *, fresh: bool = True) -> None:
        """Make the newest snapshot; `fresh` embeds the samples anew if they were last embedded at an earlier step."""
        run, last = self._run, self.newest
        if run is None:
            facts: dict[str, Any] = {"experiment": last.experiment, "settings": last.settings}
        else:
            facts = run.look(fresh and not self._failed)
            self._pace.append((time.perf_counter(), facts["step"]))
        if not state:
            resting = "done" if run is not None and run.trainer.done else "paused"
            state = "failed" if self._failed else "playing" if self._inbox.busy else resting
        (since, first), (now, step) = (self._pace[0], self._pace[-1]) if self._pace else ((0.0, 0), (0.0, 0))
        speed = (step - first) / (now - since) if now > since else 0.0
        can = self._failed and run is not None
        self.seen = False  # before the snapshot is there to be seen: who takes it at once must not be forgotten
        self.newest = Snapshot(
            last.version + 1, self._runs, state, steps_per_second=speed, message=self._message, can_go_back=can,
            build=self._build, **facts,
        )  # fmt: skip
