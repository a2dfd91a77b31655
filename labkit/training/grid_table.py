"""The table behind a grid: two settings with their values, a cell for each pair, and what is known of each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.training.experiment import Experiment
from labkit.training.grid_cells import Axis, Cell, axes_of, cells_of, file_name
from labkit.training.grid_folder import recorded, write_about
from labkit.validation import check_number, check_path

if TYPE_CHECKING:
    import pandas as pd


class CellTable:
    """Cells in rows and columns; `Grid` trains them.

    Attributes
    ----------
    experiment : what all cells share. rows, columns : the two settings with their values. version : counts what changed.
    folder : where the recordings are kept, or None.
    """

    def __init__(self, experiment: Experiment, settings: Mapping[str, Any], folder: str | os.PathLike[str] | None) -> None:
        self.rows, self.columns = axes_of(settings)
        self._cells = cells_of(experiment, self.rows, self.columns)
        self.experiment, self.version = experiment, 0
        self.folder = None if folder is None else check_path("folder", folder)
        if self.folder is not None:
            for place, cell in enumerate(self._cells):
                if (known := recorded(self.folder, cell, self.axes)) is not None:
                    self._put(place, state="done", step=int(known.steps[-1]), recording=known)

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells as they stand, row by row."""
        return tuple(self._cells)

    def cell(self, row: int, column: int) -> Cell:
        """The cell at a row and a column, counted from 0."""
        return self._cells[self._place(row, column)]

    def _place(self, row: int, column: int) -> int:
        down = check_number("row", row, low=0, high=len(self.rows.values) - 1, whole=True)
        across = check_number("column", column, low=0, high=len(self.columns.values) - 1, whole=True)
        return int(down * len(self.columns.values) + across)

    def words(self, cell: Cell) -> str:
        """Both values of a cell, e.g. "λ = 0.02, K = 4"."""
        places = ((self.rows, cell.row), (self.columns, cell.column))
        return ", ".join(f"{axis.label} = {axis.words()[place]}" for axis, place in places)

    @property
    def progress(self) -> float:
        """Cells that are over, the running one in part; `len(cells)` when all are."""
        return sum(1.0 if c.state in ("done", "failed") else c.step / c.experiment.steps for c in self._cells)

    def figures(self, name: str = "map_at_r") -> NDArray[np.float64]:
        """(rows, columns) of a figure of `Recording.final`; NaN where a cell is not done, or has none of that name."""
        return np.array([c.figure(name) for c in self._cells]).reshape(len(self.rows.values), len(self.columns.values))

    def results(self) -> pd.DataFrame:
        """A row per cell: both settings, the state, how many proxy problems it saw, and the figures on the test pictures."""
        import pandas as pd

        rows = []
        for cell in self._cells:
            row = {self.rows.setting: self.rows.values[cell.row], self.columns.setting: self.columns.values[cell.column]}
            row |= {"state": cell.state}
            known = cell.recording
            rows.append(row if known is None else row | {"problems": len(known.problems), **known.final})
        return pd.DataFrame(rows)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the runs that are done to a folder, from which `Grid.load` opens the grid.

        Raises
        ------
        LabError : no path, or a folder that cannot be written to.
        """
        where = check_path("folder", folder)
        write_about(where, self.experiment, self.axes)
        for cell in self._cells:
            if cell.recording is not None:
                cell.recording.save(where / file_name(cell, *self.axes))
        return where

    def _save(self, place: int) -> None:
        """Write the run of one cell to the grid's own folder, if it has one."""
        cell = self._cells[place]
        if self.folder is not None and cell.recording is not None:
            cell.recording.save(self.folder / file_name(cell, *self.axes))
            self._put(place, error=None)

    def _put(self, place: int, **changes: Any) -> None:
        self._cells[place] = replace(self._cells[place], **changes)
        self.version += 1
