"""Running experiments: settings, the loop, and what is kept of a run."""

from labkit.training.controls import replay
from labkit.training.experiment import Experiment
from labkit.training.fitting import fit_proxies, with_proxies
from labkit.training.folds import folds_table, train_folds
from labkit.training.grid import Grid
from labkit.training.photographs import load_photos
from labkit.training.profile import by_profile, profile
from labkit.training.published import published
from labkit.training.recorded_sample import recorded_pictures, recorded_sides
from labkit.training.recording import Problem, Recording
from labkit.training.results import load_results, paired_differences, summary
from labkit.training.shipped import load_shipped, results_table, shipped, shipped_folder, shipped_grid, shipped_grids
from labkit.training.trainer import Trainer

__all__ = [
    "Experiment",
    "Grid",
    "Problem",
    "Recording",
    "Trainer",
    "by_profile",
    "fit_proxies",
    "folds_table",
    "load_photos",
    "load_results",
    "load_shipped",
    "paired_differences",
    "profile",
    "published",
    "recorded_pictures",
    "recorded_sides",
    "replay",
    "results_table",
    "shipped",
    "shipped_folder",
    "shipped_grid",
    "shipped_grids",
    "summary",
    "train_folds",
    "with_proxies",
]
