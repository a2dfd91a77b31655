"""The picture of the protocols: which classes each bar covers."""

import numpy as np
import pytest

from labkit.datasets.protocols import fold_of_classes
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
    assert covered(figure, "MLRC, model 2") == [(0, 3, "train"), (3, 6, "choose the model"), (6, 10, "train"), (10, 20, "judge")]
    assert covered(figure, "conventional") == [(0, 10, "train"), (10, 20, "judge")]
    chosen = [covered(figure, f"MLRC, model {i}") for i in range(1, 5)]
    assert sum(b - a for bars in chosen for a, b, use in bars if use == "choose the model") == 10


def test_a_rest_is_cut_as_the_loader_cuts_it():
    folds = fold_of_classes(np.arange(98), 4)
    figure = protocol_picture(98, 4)
    for fold in range(4):
        bars = covered(figure, f"MLRC, model {fold + 1}")
        (low, high), = ((a, b) for a, b, use in bars if use == "choose the model")
        assert np.flatnonzero(folds == fold).tolist() == list(range(low, high))


def test_what_is_refused():
    for classes, folds in ((10, 1), (3, 4), (1, 1)):
        with pytest.raises(LabError):
            protocol_picture(classes, folds)
