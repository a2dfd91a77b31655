"""A run's figures for TensorBoard, beside the table that is always kept. The package is an extra."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError
from labkit.files import storage_error

if TYPE_CHECKING:
    from labkit.training.trainer import Trainer


class TensorBoardLog:
    """A callback of a trainer that writes event files: the settings as text, each figure as a curve, the final ones.

    They are written anew when a run is resumed, from all that the run has measured, so that nothing is in them twice.

    Parameters
    ----------
    folder : where the event files go, such as a run's folder `tensorboard`; older ones there are removed.

    Raises
    ------
    LabError : the package tensorboard is missing; when called, the disk is full or read-only.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            hint = "pip install 'labkit[tensorboard]'"
            raise LabError("tensorboard", "the package tensorboard", "not installed", hint) from error
        self.folder = Path(folder)
        self._open: Any = SummaryWriter
        self._writer: Any = None
        self._rows = 0

    def __call__(self, trainer: Trainer, figures: dict[str, float]) -> None:
        """Write what has been measured since the last call; nothing in any process but the main one."""
        if not trainer.world.is_main:
            return
        try:
            self._write(trainer)
        except OSError as error:
            raise storage_error(self.folder, error) from error

    def _write(self, trainer: Trainer) -> None:
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for old in self.folder.glob("events.out.tfevents.*"):
                old.unlink()
            self._writer = self._open(str(self.folder))
            settings = "\n".join(f"    {line}" for line in trainer.experiment.to_json().splitlines())
            self._writer.add_text("experiment", settings, 0)
        metrics = trainer.recorder.metrics
        steps = [int(step) for step in metrics["step"]]
        for row in range(self._rows, len(steps)):
            for name, values in metrics.items():
                if name != "step" and math.isfinite(values[row]):
                    self._writer.add_scalar(name, values[row], steps[row])
        self._rows = len(steps)
        if trainer.done:
            for name, value in trainer.recorder.final.items():
                if math.isfinite(value):
                    self._writer.add_scalar(f"final/{name}", value, trainer.steps_done)
        self._writer.flush()
        if trainer.done:
            self._writer.close()
