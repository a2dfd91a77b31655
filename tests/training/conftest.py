"""Small runs that take a second each."""

from __future__ import annotations

import pytest

from labkit.datasets import load_digits
from labkit.training import Experiment

TINY = {
    "steps": 30, "evaluate_every": 5, "sample_size": 60, "data.source": "digits-8x8", "data.samples_per_class": 4,
    "projections.pool_size": 8, "projections.patience": 1, "optimizer.warmup_steps": 2,
}  # fmt: skip


def tiny(preset: str = "poc-ccp", **changes) -> Experiment:
    return Experiment.preset(preset, **{**TINY, **changes})


@pytest.fixture(scope="session")
def digits():
    return load_digits("digits-8x8")
