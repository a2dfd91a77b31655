"""A grid on disk: a folder with a recording per cell, and a page of JSON that says what the grid is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.training.experiment import Experiment
from labkit.training.grid_cells import Axis, Cell, file_name, older_name
from labkit.training.recording import Recording

ABOUT = "grid.json"


def write_about(folder: Path, experiment: Experiment, axes: tuple[Axis, Axis]) -> None:
    """Say in the folder what the grid is.

    Raises
    ------
    LabError : the folder cannot be written to.
    """
    about = {"experiment": experiment.to_dict(), "settings": [[axis.setting, list(axis.values)] for axis in axes]}
    text = json.dumps(about, indent=1) + "\n"
    write_atomically(folder / ABOUT, lambda file: file.write(text.encode()))


def read_about(folder: Path) -> tuple[Experiment, dict[str, Any]]:
    """What the grid of a folder is: the experiment that its cells share, and the settings with their values.

    Raises
    ------
    LabError : no such page, or one that `write_about` has not written.
    """
    page = folder / ABOUT
    if not page.is_file():
        raise LabError(str(folder), f"the folder of a grid, with {ABOUT} in it", "none", "Grid(…, folder=…) makes one.")
    try:
        about = json.loads(page.read_text(encoding="utf-8"))
        return Experiment.from_dict(about["experiment"]), {setting: values for setting, values in about["settings"]}
    except LabError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        got = f"{type(error).__name__}: {error}"[:200]
        raise LabError(str(page), "the settings of a grid as labkit writes them", got) from error


def recorded(folder: Path, cell: Cell, axes: tuple[Axis, Axis]) -> Recording | None:
    """The finished run of a cell, if the folder has it: one of an equal experiment. A file that is none counts as absent."""
    for name in dict.fromkeys((file_name(cell, *axes), older_name(cell, *axes))):
        try:
            recording = Recording.load(folder / name)
            same = Experiment.from_dict(recording.experiment) == cell.experiment
        except LabError:
            continue
        if same and recording.final:
            return recording
    return None
