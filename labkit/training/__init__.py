"""Running experiments: settings, the loop, and what is kept of a run."""

from labkit.training.experiment import Experiment
from labkit.training.grid import Grid
from labkit.training.profile import by_profile, profile
from labkit.training.recording import Problem, Recording
from labkit.training.results import load_results, paired_differences, summary
from labkit.training.shipped import load_shipped, results_table, shipped, shipped_grid, shipped_grids
from labkit.training.trainer import Trainer

__all__ = [
    "Experiment",
    "Grid",
    "Problem",
    "Recording",
    "Trainer",
    "by_profile",
    "load_results",
    "load_shipped",
    "paired_differences",
    "profile",
    "results_table",
    "shipped",
    "shipped_grid",
    "shipped_grids",
    "summary",
]
