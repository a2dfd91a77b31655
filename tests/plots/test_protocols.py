"""The picture of the protocols: which classes each bar covers."""

import pytest

from labkit.errors import LabError
from labkit.plots import protocol_picture


def covered(figure, name):
    return sorted(
        (int(base), int(base + length), trace.name)
        for trace in figure.data
        for y, base, length in zip(trace.y, trace.base, trace.x, strict=True)
        if y == name
    )


def test_every_class_has_one_use_in_each_model():
    figure = protocol_picture(10, 4)
    assert covered(figure, "MLRC, model 2") == [(0, 2, "train"), (2, 5, "choose the model"), (5, 10, "train"), (10, 20, "judge")]
    assert covered(figure, "conventional") == [(0, 10, "train"), (10, 20, "judge")]
    chosen = [covered(figure, f"MLRC, model {i}") for i in range(1, 5)]
    assert sum(b - a for bars in chosen for a, b, use in bars if use == "choose the model") == 10


def test_what_is_refused():
    for classes, folds in ((10, 1), (3, 4), (1, 1)):
        with pytest.raises(LabError):
            protocol_picture(classes, folds)
