"""The cells of a grid: an experiment for every pair of values of two settings, and what became of it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import LabError
from labkit.training.experiment import Experiment
from labkit.training.given import check_experiment
from labkit.training.recording import Recording
from labkit.validation import describe

MOST_CELLS = 400
LONGEST_NAME = 180  # letters of a cell's file name before its digest: systems allow 255 bytes
SMALL_WORD = re.compile(r"(?!(?:inf|nan)$)[a-z](?:[a-z0-9_.+]|-(?=[a-z0-9_.+]))*", re.ASCII)
LABELS = {
    "projections.projection_weight": "λ",
    "projections.proxies_per_class": "K",
    "optimizer.learning_rate": "learning rate",
}


@dataclass(frozen=True)
class Axis:
    """A setting and the values that it takes, in order."""

    setting: str
    values: tuple[Any, ...]

    @property
    def label(self) -> str:
        """The setting in a word or two: its Greek letter where it has one, else its name."""
        return LABELS.get(self.setting, self.setting.rpartition(".")[2].replace("_", " "))

    def words(self) -> tuple[str, ...]:
        """The values, as they stand on an axis."""
        return tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in self.values)


@dataclass(frozen=True)
class Cell:
    """One run of a grid; replaced, never changed, while it goes on.

    Attributes
    ----------
    row, column : its place. experiment : what it runs.
    state : "waiting", "running", "done" or "failed".
    step : steps done so far. recording : of the finished run. error : why it failed.
    """

    row: int
    column: int
    experiment: Experiment
    state: str = "waiting"
    step: int = 0
    recording: Recording | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether its recording is there."""
        return self.recording is not None

    def figure(self, name: str) -> float:
        """A figure of the chosen model on the test pictures; NaN where there is none."""
        return float(self.recording.final.get(name, math.nan)) if self.recording is not None else math.nan


def axes_of(settings: Any) -> tuple[Axis, Axis]:
    """The two axes, rows first.

    Raises
    ------
    LabError : not two settings, no values, one value twice, or more than 400 cells.
    """
    if not isinstance(settings, Mapping) or len(settings) != 2 or not all(isinstance(name, str) for name in settings):
        got = f"{len(settings)} settings" if isinstance(settings, Mapping) else describe(settings)
        raise LabError("settings", "two settings with their values, {setting: [value, …], setting: [value, …]}", got)
    rows, columns = (Axis(name, _values(name, values)) for name, values in settings.items())
    if len(rows.values) * len(columns.values) > MOST_CELLS:
        raise LabError("settings", f"at most {MOST_CELLS} cells", f"{len(rows.values)} × {len(columns.values)}")
    return rows, columns


def _values(setting: str, values: Any) -> tuple[Any, ...]:
    bare = isinstance(values, (str, bytes)) or getattr(values, "ndim", 1) == 0  # len of an array without dimensions raises
    if not isinstance(values, (Sequence, np.ndarray)) or bare or not len(values):
        raise LabError(f"settings[{setting!r}]", "a list of values", describe(values))
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    for place, value in enumerate(plain):
        if hasattr(value, "shape"):  # arrays of any kind: two of them are neither equal nor different
            raise LabError(f"settings[{setting!r}]", "numbers or words, one for each row or column", describe(value))
        if value in plain[:place]:
            raise LabError(f"settings[{setting!r}]", "every value once", f"{value!r} twice")
    return plain


def cells_of(experiment: Any, rows: Axis, columns: Axis) -> list[Cell]:
    """A cell for each pair of values, row by row.

    Raises
    ------
    LabError : no experiment, an unknown setting, or a value that the setting refuses.
    """
    check_experiment(experiment)
    return [
        Cell(i, j, experiment.replace(**{rows.setting: value, columns.setting: other}))
        for i, value in enumerate(rows.values)
        for j, other in enumerate(columns.values)
    ]


def file_name(cell: Cell, rows: Axis, columns: Axis) -> str:
    """What a cell's recording is called in the grid's folder, after its values.

    Numbers and small words stand in it as they are. Other values, which may differ only in what a file's name cannot
    hold, in their last letters or in upper and lower case, add a digest of both settings with their values.
    """
    places = ((rows, cell.row), (columns, cell.column))
    name = re.sub(r"[^\w.+-]", "_", _words(cell, rows, columns), flags=re.ASCII)
    if len(name) <= LONGEST_NAME and all(_stands(axis.values[place]) for axis, place in places):
        return f"{name}.npz"
    exact = "--".join(f"{axis.setting}-{axis.values[place]!r}" for axis, place in places)
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(exact.encode()).hexdigest()[:12]}.npz"


def older_name(cell: Cell, rows: Axis, columns: Axis) -> str:
    """What labkit once called it. Two cells might have one such name: whose run it is, the experiment in it says."""
    return re.sub(r"[^\w.+-]", "_", _words(cell, rows, columns))[:LONGEST_NAME] + ".npz"


def _words(cell: Cell, rows: Axis, columns: Axis) -> str:
    places = ((rows, cell.row), (columns, cell.column))
    return "--".join(f"{axis.setting.rpartition('.')[2]}-{axis.values[place]}" for axis, place in places)


def _stands(value: Any) -> bool:
    """Whether no other value looks like this one in a file's name."""
    return isinstance(value, (int, float)) or (isinstance(value, str) and bool(SMALL_WORD.fullmatch(value)))
