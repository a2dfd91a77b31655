"""Recordings that the tests of plots share; none of them may be changed by a test."""

from __future__ import annotations

import pytest

from labkit.training.recording import Recording
from tests.plots.recordings import make_recording


@pytest.fixture(scope="session")
def ccp() -> Recording:
    return make_recording(4)


@pytest.fixture(scope="session")
def single() -> Recording:
    return make_recording(1)
