"""Running experiments: settings, the loop, and what is kept of a run."""

from labkit.training.experiment import Experiment
from labkit.training.recording import Problem, Recording
from labkit.training.shipped import load_shipped, results_table, shipped
from labkit.training.trainer import Trainer

__all__ = ["Experiment", "Problem", "Recording", "Trainer", "load_shipped", "results_table", "shipped"]
