"""Recordings of real runs that come with the checkout, and the table over seeds that they make."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.datasets.roots import recorded_folder
from labkit.training.grid import Grid
from labkit.training.recording import Recording
from labkit.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd


def shipped_folder() -> Path:
    """`data/recordings` of the checkout that labkit runs from.

    Raises
    ------
    LabError : labkit runs from an installed package without a checkout.
    """
    return recorded_folder("recordings")


def shipped() -> list[str]:
    """Names of the recordings that come with labkit."""
    return sorted(path.stem for path in shipped_folder().glob("*.npz"))


def load_shipped(name: str) -> Recording:
    """One of them, by name, e.g. "mnist-2d-ccp-seed0"."""
    check_choice("name", name, shipped())
    return Recording.load(shipped_folder() / f"{name}.npz")


def shipped_grids() -> list[str]:
    """Names of the grids that come with labkit."""
    return sorted(path.parent.name for path in (shipped_folder() / "grid").glob("*/grid.json"))


def shipped_grid(name: str) -> Grid:
    """One of them with all its runs, by name, e.g. "lambda-by-k"; `notebooks/grid.py` trained it."""
    check_choice("name", name, shipped_grids())
    return Grid.load(shipped_folder() / "grid" / name)


def results_table(recordings: Iterable[Recording], figures: Iterable[str]) -> pd.DataFrame:
    """Final figures of several runs: one row per experiment name, mean ± standard deviation over its seeds.

    Parameters
    ----------
    recordings : finished runs. figures : keys of `Recording.final`; one that no run of a name has is left blank.

    Returns
    -------
    DataFrame of strings, indexed by experiment name, with the number of seeds in the first column.
    """
    import pandas as pd

    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        groups.setdefault(str(recording.experiment["name"]), []).append(recording)
    rows = {}
    for name, runs in groups.items():
        row: dict[str, str | int] = {"seeds": len({run.experiment["seed"] for run in runs})}
        for figure in figures:
            values = np.array([run.final.get(figure, np.nan) for run in runs])
            row[figure] = _mean_and_spread(values[np.isfinite(values)])
        rows[name] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def _mean_and_spread(values: NDArray[Any]) -> str:
    """The deviation with two digits, the mean with as many decimals; four digits where nothing deviates."""
    if not len(values):
        return ""
    if np.ptp(values) == 0:  # whose mean may be off by a last bit
        return f"{values[0]:.4g}" + (" ± 0" if len(values) > 1 else "")
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    decimals = max(0, 1 - math.floor(math.log10(spread)))
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}" if decimals <= 5 else f"{mean:.3g} ± {spread:.2g}"
