"""A run on disk: experiment.json, checkpoint.pt, recording.npz, metrics.csv and, at the end, model.pt. Never half-written."""

from __future__ import annotations

import contextlib
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.training.checkpoint import load_checkpoint, save_checkpoint
from labkit.training.experiment import Experiment
from labkit.training.folder_lock import FolderLock
from labkit.training.metrics_table import MetricsTable
from labkit.training.recorder import Recorder
from labkit.training.recording import Recording
from labkit.training.world import World
from labkit.validation import check_path, describe


class RunFolder:
    """The folder that one run writes to.

    The checkpoint alone decides how a resumed run goes on. It is written at every evaluation where it is small; one of more
    than `small` bytes only when the run has gone on for `share` times what writing the last one took, so that
    writing costs a run at most a twentieth of its time, and a kill that much of it. What lies beside it is for looking at:
    a row of metrics.csv at every evaluation, the recording at most every `recording_every` seconds, a large one as seldom as
    a large checkpoint, and at the end. Each file is replaced whole. The checkpoint that says the run is over is written
    last, so that then all the others are there.
    """

    recording_every = 15.0
    share, small = 20.0, 16e6

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.table = MetricsTable(self.path / "metrics.csv")
        self._lock: FolderLock | None = None
        self._recorded_at, self._saved_at = float("-inf"), float("-inf")
        self._record_seconds = self._save_seconds = 0.0  # that the last one took

    def open(self, experiment: Experiment, resume: bool) -> dict[str, Any] | None:
        """Keep others out, and look whether `experiment` may run here; returns the state to go on from, None for a new run.

        Nothing of the run is written before `begin`: what comes in between may fail.

        Raises
        ------
        LabError : a run is there already and `resume` is off, it had other settings, its checkpoint is damaged, or another
            process is writing there.
        """
        if self.path.exists() and not self.path.is_dir():
            raise LabError(str(self.path), "a folder, or nothing there yet", "a file", "Choose another folder.")
        self._lock = FolderLock(self.path)
        try:
            self._remove_halves()
            return self._open(experiment, resume)
        except LabError:
            self.give_back()
            raise

    def begin(self, experiment: Experiment) -> None:
        """Write the settings of a new run."""
        text = experiment.to_json().encode()
        write_atomically(self.path / "experiment.json", lambda file: file.write(text))

    def close(self) -> None:
        """Let other runs in."""
        if self._lock is not None:
            self._lock.release()

    def give_back(self) -> None:
        """Let go of a folder in which nothing was begun."""
        if self._lock is not None:
            self._lock.give_back()

    def _remove_halves(self) -> None:
        """What a process that was killed had begun to write; nobody else is writing now."""
        for half in self.path.glob(".*.partial"):
            with contextlib.suppress(OSError):
                half.unlink()

    def _open(self, experiment: Experiment, resume: bool) -> dict[str, Any] | None:
        checkpoint, settings = self.path / "checkpoint.pt", self.path / "experiment.json"
        if not checkpoint.exists():
            return None
        if not resume:
            raise LabError(str(self.path), "a folder without a run in it", "a checkpoint", "Resume it, or choose another.")
        try:
            kept = Experiment.from_json(settings.read_bytes()) if settings.is_file() else None
        except LabError as error:
            raise LabError(str(settings), error.expected, error.got, "Put it back, or choose another folder.") from error
        if kept != experiment:
            got = "no such file" if kept is None else _differences(kept.to_dict(), experiment.to_dict())
            raise LabError(str(settings), "the settings of the experiment being resumed", got, "Choose another folder.")
        return load_checkpoint(checkpoint)

    def save(self, state: Callable[[], dict[str, Any]], recorder: Recorder, done: bool, must: bool = False) -> None:
        """Write the checkpoint where it is due, the new rows of the table, and the recording where it is due.

        Parameters
        ----------
        state : gives what the checkpoint holds. done : whether the run is over. must : write the checkpoint in any case.

        Raises
        ------
        LabError : the disk is full or read-only, and what was there before is still whole; or another trainer has taken
            the folder over.
        """
        self._check_lock()
        if done:
            weights = state()["model"]
            write_atomically(self.path / "model.pt", lambda file: torch.save(weights, file))
        elif must or time.monotonic() - self._saved_at >= self.share * self._save_seconds:
            self._save(state())
        self.table.write(recorder.metrics)
        if done or time.monotonic() - self._recorded_at > max(self.recording_every, self.share * self._record_seconds):
            self.record(recorder.recording())
        if done:
            self._save(state())
            self.close()

    def _save(self, state: dict[str, Any]) -> None:
        path, started = self.path / "checkpoint.pt", time.monotonic()
        save_checkpoint(path, state)
        self._saved_at = time.monotonic()
        self._save_seconds = self._counted(path, self._saved_at - started)

    def _counted(self, path: Path, seconds: float) -> float:
        """What writing a file took, nothing for a small one: how often that is written hangs on no clock."""
        return seconds if path.stat().st_size > self.small else 0.0

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()

    def record(self, recording: Recording) -> None:
        """Write the recording now."""
        path, started = self.path / "recording.npz", time.monotonic()
        recording.save(path)
        self._recorded_at = time.monotonic()
        self._record_seconds = self._counted(path, self._recorded_at - started)


def open_folder(
    directory: str | os.PathLike[str] | None, experiment: Experiment, resume: bool, world: World
) -> tuple[RunFolder | None, dict[str, Any] | None]:
    """The folder, on the main process alone, and the state to go on from on all; None and None without a directory.

    Early, since what is loaded and built afterwards may take minutes; whoever fails at that gives the folder back.

    Raises
    ------
    LabError : as `RunFolder.open`, a name that no folder can have, or there is nothing to resume from.
    """
    if directory is None:
        if resume:
            raise LabError("resume", "a directory to resume from", "directory=None")
        return None, None
    folder = RunFolder(check_path("directory", directory))
    state = world.on_main(lambda: folder.open(experiment, resume))
    return (folder if world.is_main else None), state


@contextlib.contextmanager
def building_in(folder: RunFolder | None) -> Iterator[None]:
    """Give the folder back if what is built for it inside fails."""
    try:
        yield
    except BaseException:
        if folder is not None:
            folder.give_back()
        raise


def begin_folder(folder: RunFolder | None, experiment: Experiment, world: World) -> None:
    """`RunFolder.begin` on the main process, which alone has the folder; what it refuses is raised on all."""
    world.on_main(lambda: None if folder is None else folder.begin(experiment))


def _differences(kept: Mapping[str, Any], mine: Mapping[str, Any], before: str = "", most: int = 3) -> str:
    """The first settings that differ, in words."""
    found: list[str] = []
    for name, value in kept.items():
        if isinstance(value, Mapping) and isinstance(mine[name], Mapping) and name != "options":
            inner = _differences(value, mine[name], f"{before}{name}.", most)
            found += [inner] if inner else []
        elif value != mine[name]:
            found.append(f"{before}{name} {value!r} there, {mine[name]!r} here")
    return "; ".join(found[:most])


def run_identity(splits: Splits, loss: nn.Module | None) -> dict[str, str]:
    """What a resumed run must share with its checkpoint beyond the experiment: the pictures, and a loss of one's own."""
    parts = (splits.train, splits.held_out, splits.test)
    summed = [zlib.crc32(array.numpy().tobytes()) for part in parts for array in (part.images[::97], part.labels)]
    named = "the experiment's" if loss is None else f"{loss} {getattr(getattr(loss, 'function', None), '__qualname__', '')}"
    return {"data": f"{splits.name} {zlib.crc32(repr(summed).encode()):08x}", "loss": re.sub(r" at 0x\w+", "", named)}


def check_identity(state: Mapping[str, Any], identity: dict[str, str], source: str) -> None:
    """Refuse a checkpoint, `source`, of a run on other pictures or with another loss of one's own."""
    kept = state["identity"]
    for part, mine in identity.items():
        theirs = kept.get(part) if isinstance(kept, Mapping) else describe(kept)
        if not isinstance(theirs, str) or theirs != mine:
            raise LabError(source, f"a run with the same {part} ({mine})", theirs, "Use another folder.")
