"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import pytest

from labkit.datasets import load_digits
from tests.photographs import own_cache, photo_folder

__all__ = ["digits", "own_cache", "photo_folder"]


@pytest.fixture(scope="session")
def digits():
    """The 8 x 8 digits in three parts; no test changes them."""
    return load_digits("digits-8x8")
