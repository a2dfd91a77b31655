"""A playground small enough for a test, without a thread of its own."""

import pytest

from labkit.panels import Playground

SMALL = {
    "data.source": "digits-8x8", "sample_size": 60, "evaluate_every": 5, "data.samples_per_class": 4,
    "projections.pool_size": 8, "optimizer.warmup_steps": 2,
}  # fmt: skip


def go(panel, steps):
    """What a play button and the page's timer do, for so many steps."""
    panel.step(steps)
    panel.run_pending()


@pytest.fixture
def make(digits):
    """Makes playgrounds, which are closed after the test."""
    panels = []

    def makes(preset="ccp", **changes):
        panels.append(Playground(preset, **{"splits": digits, "threaded": False, **SMALL, **changes}))
        return panels[-1]

    yield makes
    for panel in panels:
        panel.close()
