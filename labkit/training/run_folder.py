"""A run on disk: experiment.json, checkpoint.pt, recording.npz and, at the end, model.pt. Never half-written."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labkit.datasets import Splits
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.training.checkpoint import load_checkpoint, save_checkpoint
from labkit.training.experiment import Experiment
from labkit.training.recording import Recording


class RunFolder:
    """The folder that one run writes to.

    The checkpoint alone decides how a resumed run goes on; the recording beside it is for looking at, and is written
    at most every `recording_every` seconds and at the end.
    """

    recording_every = 15.0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._recorded_at = float("-inf")

    def open(self, experiment: Experiment, resume: bool) -> dict[str, Any] | None:
        """Make the folder ready for `experiment`; returns the state to go on from, None for a new run.

        Raises
        ------
        LabError : a run is there already and `resume` is off, it had other settings, or its checkpoint is damaged.
        """
        checkpoint, settings = self.path / "checkpoint.pt", self.path / "experiment.json"
        if not checkpoint.exists():
            text = experiment.to_json().encode()
            write_atomically(settings, lambda file: file.write(text))
            return None
        if not resume:
            raise LabError(str(self.path), "a folder without a run in it", "a checkpoint", "Resume it, or choose another.")
        if not settings.is_file() or Experiment.from_json(settings.read_bytes()) != experiment:
            raise LabError(str(settings), "the settings of the experiment being resumed", "others", "Choose another folder.")
        return load_checkpoint(checkpoint)

    def save(self, state: dict[str, Any], recording: Callable[[], Recording], done: bool) -> None:
        """Write the checkpoint, and the recording where it is due.

        Raises
        ------
        LabError : the disk is full or read-only; what was there before is still whole.
        """
        save_checkpoint(self.path / "checkpoint.pt", state)
        if done or time.monotonic() - self._recorded_at > self.recording_every:
            self.record(recording())
        if done:
            write_atomically(self.path / "model.pt", lambda file: torch.save(state["model"], file))

    def record(self, recording: Recording) -> None:
        """Write the recording now."""
        recording.save(self.path / "recording.npz")
        self._recorded_at = time.monotonic()


def run_identity(splits: Splits, loss: nn.Module | None) -> dict[str, str]:
    """What a resumed run must share with its checkpoint beyond the experiment: the pictures, and a loss of one's own."""
    parts = (splits.train, splits.held_out, splits.test)
    summed = [zlib.crc32(array.numpy().tobytes()) for part in parts for array in (part.images[::97], part.labels)]
    named = "the experiment's" if loss is None else f"{loss} {getattr(getattr(loss, 'function', None), '__qualname__', '')}"
    return {"data": f"{splits.name} {zlib.crc32(repr(summed).encode()):08x}", "loss": re.sub(r" at 0x\w+", "", named)}


def check_identity(state: dict[str, Any], identity: dict[str, str]) -> None:
    """Refuse a checkpoint of a run on other pictures or with another loss of one's own."""
    for part, mine in identity.items():
        theirs = state.get("identity", {}).get(part)
        if theirs != mine:
            raise LabError("checkpoint", f"a run with the same {part} ({mine})", theirs, "Use another folder.")
