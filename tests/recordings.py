"""What two recordings must have in common where one is to repeat the other."""

from __future__ import annotations

import numpy as np

from labkit.training import Recording

ARRAYS = ("steps", "embeddings", "labels", "proxies", "thumbnails")


def same(first: Recording, second: Recording) -> None:
    """Two recordings agree in everything, bit for bit, but how long they took."""
    assert first.experiment == second.experiment and first.events == second.events
    assert first.class_names == second.class_names
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert first.metrics.keys() == second.metrics.keys()
    for name, values in first.metrics.items():
        np.testing.assert_array_equal(values, second.metrics[name], err_msg=name)
    assert len(first.problems) == len(second.problems)
    for mine, other in zip(first.problems, second.problems, strict=True):
        np.testing.assert_equal(vars(mine), vars(other))
    assert first.final == second.final
