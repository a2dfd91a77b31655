"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.datasets import load_digits
from tests.photographs import own_cache, photo_folder

__all__ = ["digits", "own_cache", "photo_folder"]


@pytest.fixture(scope="session")
def digits():
    """The 8 x 8 digits in three parts; no test changes them."""
    return load_digits("digits-8x8")


@pytest.fixture(scope="session")
def shrinking_run():
    """Three snapshots (3, n, 5) of nine classes, which draw together and then shrink as a whole, and labels (n,)."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(9), [6, 7, 8, 6, 6, 6, 6, 9, 6])
    centers = rng.normal(size=(9, 5))[labels]
    noise = rng.normal(size=(len(labels), 5))
    return np.stack([centers + 0.8 * noise, centers + 0.3 * noise, 0.5 * (centers + 0.3 * noise)]), labels
