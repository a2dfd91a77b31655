"""A live session: a trainer in a thread of its own, steered by commands, watched through snapshots.

The thread never draws, prints or touches a widget: it takes commands between two steps, and leaves snapshots to look at.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Self, TypeVar

from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.threads import one_core_left
from labkit.training.conductor import Build, Conductor
from labkit.training.controls import OPTION, acts
from labkit.training.experiment import Experiment
from labkit.training.given import check_build, check_experiment, check_given, check_wait, copied
from labkit.training.inbox import Command, Inbox, serve
from labkit.training.live_run import Snapshot
from labkit.training.recording import Recording
from labkit.training.trainer import Trainer
from labkit.validation import check_flag, check_number, check_word

Answer = TypeVar("Answer")
_named: weakref.WeakValueDictionary[str, LiveSession] = weakref.WeakValueDictionary()


class LiveSession:
    """A run that can be started, paused, changed and looked at while it goes on.

    Every command returns at once and acts between two steps; `settle` waits for that, `join` also raises what went wrong.
    After each, `heard()` is called, in the thread that gave the command, so that who draws begins to look. A session that
    nobody holds any more ends its thread. As a context manager it stops when left.

    Parameters
    ----------
    experiment : what to run.
    splits, loss : as `Trainer` takes them; the loss is copied, so that yours keeps its settings.
    build : makes the trainer of an experiment, in place of `Trainer(experiment, splits=splits, loss=loss)`.
    name : an older session of the same name is stopped, as when a notebook's cell runs again.
    threaded : False leaves all work to `run_pending`, in the caller's thread.
    frame_seconds : least time between two snapshots while it trains.

    Examples
    --------
    >>> experiment = Experiment.preset("poc-ccp", steps=8, evaluate_every=4, sample_size=50, **{"data.source": "digits-8x8"})
    >>> session = LiveSession(experiment, threaded=False)
    >>> session.step(4)
    >>> session.set("optimizer.learning_rate", 1e-4)
    >>> session.run_pending().step
    4
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        splits: Splits | None = None,
        loss: nn.Module | None = None,
        build: Build | None = None,
        name: str | None = None,
        threaded: bool = True,
        frame_seconds: float = 0.1,
    ) -> None:
        check_given(experiment, splits, loss)
        self.threaded = check_flag("threaded", threaded)
        self._inbox, self._lock, self._abort = Inbox(), threading.RLock(), threading.Event()
        self._conductor = Conductor(
            experiment,
            check_build(build) or (lambda wanted: Trainer(wanted, splits=splits, loss=copied(loss))),
            self._inbox,
            self._abort.is_set,
            check_number("frame_seconds", frame_seconds, low=0),
        )
        self.heard: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()  # of the thread, and its end: commands may come from several threads
        weakref.finalize(self, self._inbox.close)
        if name is not None:
            if (older := _named.get(check_word("name", name))) is not None:
                older.stop()
            _named[name] = self

    def start(self) -> None:
        """Train until paused, or until the run is over."""
        self._command(lambda: self._conductor.go(None))

    def step(self, n: int = 1) -> None:
        """Do n steps, then pause."""
        number = int(check_number("n", n, low=1, whole=True))
        self._command(lambda: self._conductor.go(number))

    def pause(self) -> None:
        """Rest after the step at work."""
        self._command(self._conductor.rest)

    def next_problem(self) -> None:
        """End the running proxy problem now: the proxies start anew from chosen samples."""
        self._command(lambda: self._conductor.of_run().next_problem())

    def set(self, setting: str, value: Any) -> None:
        """Change a setting that acts at once; `labkit.training.controls` says which do, and from when.

        Raises
        ------
        LabError : it restarts the run (use `reset`), or it refuses the value. What only the running loss can tell
            (an option that it does not have) is in the next snapshot's `message`, and raised by `join`.
        """
        acts(setting)
        if not setting.startswith(OPTION):
            self._conductor.newest.settings.replace(**{setting: value})
        self._command(lambda: self._conductor.of_run().change(setting, value))

    def reset(self, experiment: Experiment | None = None, *, build: Build | None = None) -> None:
        """Begin again, paused: with another experiment, or with the settings as they stand now."""
        if experiment is not None:
            check_experiment(experiment)
        check_build(build)
        self._command(lambda: self._conductor.rebuild(experiment, build))

    def go_back(self) -> None:
        """To the last moment known to be good, with the settings of that moment; for a run that failed."""
        self._command(self._conductor.go_back)

    def stop(self, timeout: float = 1.0) -> bool:
        """End the thread; what was recorded stays, and `start` goes on. Returns whether it ended within `timeout` seconds.

        A step that takes too long is let go of at the network's next use (`start` then goes on from the last evaluation), a
        run being built after the part at work. What does not end in time ends by itself as soon as it can; `message` says so.
        """
        check_number("timeout", timeout, low=0, high=threading.TIMEOUT_MAX)
        with self._starting:
            thread, self._thread = self._thread, None
            self._inbox.close()
        if not self._lock.acquire(timeout=timeout / 2):  # whoever is at work holds it, also one told to end before
            self._abort.set()
            if not self._lock.acquire(timeout=timeout / 2):
                self._conductor.outlasts()
                self.heard()
                return False
        try:
            self._abort.clear()
            self._conductor.rest()
            self._conductor.publish("stopped", fresh=False)
        finally:
            self._lock.release()
        if thread is not None and thread is not threading.current_thread():
            thread.join()  # it was sent home, and nothing holds it up
        self.heard()
        return True

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot. While nobody takes it, no time is spent on another."""
        self._conductor.seen = True
        return self._conductor.newest

    state = property(lambda self: self._conductor.newest.state, doc="The newest snapshot's state, without taking it.")
    version = property(lambda self: self._conductor.newest.version, doc="The newest snapshot's number, without taking it.")

    def prepare(self) -> Snapshot:
        """Build the trainer and measure the untrained network, in the caller's thread if no other works; once."""
        self._ask(self._conductor.of_run)
        return self.snapshot

    def recording(self) -> Recording:
        """The run so far as a `Recording`, taken between two steps."""
        return self._ask(lambda: self._conductor.of_run().recording())

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until all commands are obeyed and no step is due; False if that took longer than `timeout` seconds."""
        seconds = check_wait(timeout)
        return self._inbox.settled(seconds) if self._alive() else True

    def join(self, timeout: float | None = None) -> Snapshot:
        """Wait as `settle` does, then raise what went wrong, if anything did."""
        seconds = check_wait(timeout)
        _ = self.settle(seconds) if self.threaded else self.run_pending()
        error, self._conductor.error = self._conductor.error, None
        if error is not None:
            raise error
        return self.snapshot

    def run_pending(self, steps: int | None = None) -> Snapshot:
        """Without a thread: obey all commands, then do at most `steps` of the steps that are due (None: all)."""
        if self._alive():
            raise LabError("run_pending", "a session whose thread does not run", "one whose thread does", "Use settle().")
        left = -1 if steps is None else check_number("steps", steps, low=0, whole=True)
        while self._inbox.due() or (self._inbox.busy and left != 0):
            left -= not self._inbox.due()
            self._turn()
        if self._inbox.busy:
            self._conductor.publish()
        return self.snapshot

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------ the thread

    def _alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _command(self, command: Command) -> None:
        with self._starting:
            self._inbox.put(command)
            if self.threaded and not self._alive():
                arguments = (weakref.ref(self), LiveSession._turn, self._inbox, self._inbox.open())
                thread = threading.Thread(target=serve, args=arguments, name="labkit session", daemon=True)
                self._abort.clear()
                thread.start()
                self._thread = thread
        self.heard()

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer, given by the thread if there is one, else here."""
        thread = self._thread
        if thread is None or not thread.is_alive() or threading.current_thread() is thread:
            return self._here(question)
        answers: list[Answer] = []
        given = threading.Event()

        def answer() -> None:
            try:
                answers.append(question())
            finally:
                given.set()

        self._inbox.put(answer)
        while not given.wait(0.1) and thread is self._thread and thread.is_alive():
            pass  # a thread that was stopped meanwhile has forgotten the question
        return answers[0] if answers else self._here(question)  # the thread ended, or what it raised is raised here

    def _here(self, question: Callable[[], Answer]) -> Answer:
        with self._lock, one_core_left():
            if threading.current_thread() is not self._thread:
                self._abort.clear()  # of work that outlasted its stop, and has ended now
            return question()

    def _turn(self) -> None:
        with self._lock, one_core_left():
            self._conductor.turn()
