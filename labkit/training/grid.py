"""A grid of experiments over two settings: its cells are trained one after the other, in a thread that can be stopped."""

from __future__ import annotations

import os
import platform
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Self

from labkit.errors import LabError, during
from labkit.threads import Aborted, one_core_left, unless
from labkit.training.conductor import Build
from labkit.training.experiment import Experiment
from labkit.training.given import check_build, check_wait
from labkit.training.grid_cells import Cell
from labkit.training.grid_folder import read_about, write_about
from labkit.training.grid_table import CellTable
from labkit.training.inbox import Inbox, serve
from labkit.training.trainer import Trainer
from labkit.validation import check_number, check_path, describe

Progress = Callable[[Cell], None]


class Grid(CellTable):
    """Experiments over two settings, a run for each pair of their values.

    A cell whose recording lies in the folder, of an equal experiment, is not trained again: an interrupted grid goes on
    where it stopped, and a wider one takes over what it can. A grid that nobody holds any more ends its thread.

    Parameters
    ----------
    experiment : what all cells share.
    settings : two settings and their values, e.g. {"projections.projection_weight": [0.0, 0.02],
        "projections.proxies_per_class": [1, 4]}; the first makes the rows.
    folder : where the recordings are kept, one file a cell; None keeps them in memory.
    build : makes the trainer of an experiment, in place of `Trainer(experiment)`.
    progress : called as `progress(cell)` by whoever trains: when a cell begins, at its evaluations, and when it ends.

    Attributes
    ----------
    rows, columns : the settings with their values. cells : all of them, row by row. version : counts what changed.

    Raises
    ------
    LabError : settings that are unknown, no two, without values, or with one that the experiment refuses; no path.

    Examples
    --------
    >>> experiment = Experiment.preset("poc-ccp", steps=4, evaluate_every=2, sample_size=50, **{"data.source": "digits-8x8"})
    >>> grid = Grid(experiment, {"projections.proxies_per_class": [1, 2], "seed": [0, 1]})
    >>> grid.run().figures("map_at_r").shape
    (2, 2)
    """

    def __init__(
        self,
        experiment: Experiment,
        settings: Mapping[str, Any],
        *,
        folder: str | os.PathLike[str] | None = None,
        build: Build | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(experiment, settings, folder)
        self._build: Build = check_build(build) or Trainer
        if progress is not None and not callable(progress):
            raise LabError("progress", "a function of a cell", describe(progress))
        self._progress = progress
        self._inbox, self._abort = Inbox(), threading.Event()
        # Of what a turn changes; of starting; of which thread is at work (short: a turn may stop the grid itself).
        self._lock, self._starting, self._handing = threading.RLock(), threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._trainer: Trainer | None = None
        self._at, self._next = 0, 0  # the cell at work; the one to begin with
        weakref.finalize(self, self._inbox.close)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The grid of a folder, with every run that is in it.

        Raises
        ------
        LabError : no path, no such folder, or nothing in it that says what the grid is.
        """
        return cls(*read_about(check_path("folder", folder)), folder=folder)

    @property
    def running(self) -> bool:
        """Whether a thread is at work."""
        thread = self._thread
        return self._inbox.busy and thread is not None and thread.is_alive()

    # ------------------------------------------------------------ training

    def start(self, first: tuple[int, int] | None = None) -> None:
        """Train what is not done yet, in a thread; cells that failed are tried again.

        Parameters
        ----------
        first : row and column of the cell to begin with; while the thread is at work, of the one to go on with.
        """
        if first is not None:
            if not isinstance(first, (tuple, list)) or len(first) != 2:
                raise LabError("first", "the row and the column of a cell, (row, column)", describe(first))
            self._next = self._place(*first)
        with self._starting:
            if self.running:
                return
            self._prepare()
            with self._handing:
                arguments = (weakref.ref(self), Grid._turn, self._inbox, self._inbox.open())
                thread = threading.Thread(target=serve, args=arguments, name="labkit grid", daemon=True)
                thread.start()
                self._thread = thread

    def stop(self, timeout: float = 1.0) -> bool:
        """End the thread; a cell at work is given up, those that are done stay. Whether it ended within `timeout` seconds."""
        check_number("timeout", timeout, low=0, high=threading.TIMEOUT_MAX)
        with self._handing:
            self._abort.set()
            self._inbox.close()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            if thread.is_alive():
                return False
        with self._handing:
            if self._thread is thread:  # else it has been started anew meanwhile: what is at work now is not given up
                self._thread = None
                self._give_up()
        return True

    def join(self, timeout: float | None = None) -> Self:
        """Wait until the thread is done, then raise what went wrong in the first cell that failed, if one did."""
        self._inbox.settled(check_wait(timeout))
        for cell in self._cells:
            if cell.error is not None:
                with during(self.words(cell)):
                    raise cell.error
        return self

    def run(self) -> Self:
        """Train what is not done yet, here and now; raises as `join` does."""
        if self.running:
            raise LabError("run", "a grid whose thread does not run", "one whose thread does", "Use join().")
        self._prepare()
        try:
            while self._inbox.busy:
                self._turn()
        finally:
            self._inbox.busy = False
            self._give_up()
        return self.join()

    def _prepare(self) -> None:
        with self._lock:
            self._abort.clear()
            if self.folder is not None:
                write_about(self.folder, self.experiment, self.axes)
            for place, cell in enumerate(self._cells):
                if cell.state == "failed":
                    self._put(place, state="waiting", error=None, step=0)
                elif cell.error is not None:
                    self._save(place)
            self._inbox.busy = True

    def _turn(self) -> None:
        """Begin a cell, do a step of it, or end it. Raises nothing in a thread: what goes wrong is the cell's."""
        try:
            with self._lock, one_core_left():
                self._advance()
        except Aborted:
            self._inbox.busy = False
            self._give_up()
        except BaseException as error:
            if _ends_all(error):
                raise
            self._trainer = None
            told = error if isinstance(error, Exception) else RuntimeError(f"The thread was told to end by {error!r}")
            self._put(self._at, state="failed", error=told)
            try:
                self._tell()
            except BaseException as again:  # it may be what failed
                if _ends_all(again):
                    raise

    def _advance(self) -> None:
        trainer = self._trainer
        if trainer is None:
            self._begin()
            return
        trainer.step()
        self._put(self._at, step=trainer.steps_done)
        if trainer.done:
            self._end(trainer)
        if trainer.recorder.metrics["step"][-1] == trainer.steps_done:
            self._tell()

    def _begin(self) -> None:
        waiting = [place for place, cell in enumerate(self._cells) if cell.state == "waiting"]
        if not waiting:
            self._inbox.close()
            return
        self._at = self._next if self._next in waiting else waiting[0]
        self._put(self._at, state="running")
        self._tell()
        with unless(self._abort.is_set):
            trainer = self._build(self._cells[self._at].experiment)
        trainer.model.register_forward_pre_hook(self._hook())
        self._trainer = trainer

    def _hook(self) -> Callable[..., None]:
        abort = self._abort  # the hook must not hold the grid

        def stop_here(*_: Any) -> None:
            if abort.is_set():
                raise Aborted

        return stop_here

    def _end(self, trainer: Trainer) -> None:
        self._trainer = None
        recording = trainer.recording()
        machine = {"seconds": round(trainer.seconds, 1), "cores": os.cpu_count(), "machine": platform.machine()}
        recording.environment = recording.environment | machine
        self._put(self._at, state="done", recording=recording)
        if self.folder is not None:
            try:
                self._save(self._at)
            except LabError as error:  # a disk that is full stays full: the run is kept in memory, and no other begun
                self._put(self._at, error=error)
                self._inbox.busy = False

    def _give_up(self) -> None:
        self._trainer = None
        for place, cell in enumerate(self._cells):
            if cell.state == "running":
                self._put(place, state="waiting", step=0)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._cells[self._at])


def _ends_all(error: BaseException) -> bool:
    """Whether it is Ctrl-C, which comes to the main thread; anything else, sys.exit() in a thread too, ends a cell alone."""
    return not isinstance(error, Exception) and threading.current_thread() is threading.main_thread()
