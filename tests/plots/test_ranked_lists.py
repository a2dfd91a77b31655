"""Ranked lists and the weights of negatives against loops and against ranked list loss itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import RankedListLoss
from labkit.plots import negative_weight_curves, negative_weights, ranked_list

RNG = np.random.default_rng(2)
X = RNG.normal(size=(30, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = np.arange(30) % 5


@pytest.mark.parametrize("temperature", [0.0, 1.0, 10.0, 300.0])
def test_weights_are_the_formulas(temperature: float) -> None:
    d = np.array([0.3, 0.5, 1.1, 1.2, 1.9])
    powers = [math.exp(temperature * (1.2 - v)) if v < 1.2 else 0.0 for v in d]
    assert np.allclose(negative_weights(d, temperature), np.array(powers) / sum(powers))


def test_weights_at_both_ends() -> None:
    assert negative_weights([0.5, 0.9, 1.0, 1.5], 0).tolist() == [1 / 3, 1 / 3, 1 / 3, 0]
    assert negative_weights([0.9, 0.5, 0.5, 1.5], math.inf).tolist() == [0, 0.5, 0.5, 0]
    assert negative_weights([0.9, 0.5, 0.6], 1e30).tolist() == [0, 1, 0]
    assert negative_weights([1.3, 1.5], 10).tolist() == [0, 0]


def test_weights_give_the_losses_negative_part() -> None:
    loss = RankedListLoss(margin=0.0, alpha=1.2)
    references = torch.tensor(X[Y != 0])
    value = loss(torch.tensor(X[:1]), torch.tensor([0]), ref_emb=references, ref_labels=torch.tensor(Y[Y != 0]))
    d = np.linalg.norm(X[Y != 0] - X[0], axis=1)
    assert (negative_weights(d, 10.0) * (1.2 - d)).sum() == pytest.approx(value.item())


def lists(fig: Any) -> list[Any]:
    return list(fig.data)


def test_the_list_has_everything_but_the_query() -> None:
    fig = ranked_list(X, Y, 7)
    own, others = fig.data
    rows = [*own.customdata, *others.customdata]
    assert sorted(rows) == [i for i in range(30) if i != 7]
    for trace, same in ((own, True), (others, False)):
        for row, d in zip(trace.customdata, trace.x, strict=True):
            assert d == pytest.approx(np.linalg.norm(X[row] - X[7]), abs=1e-4)
            assert (Y[row] == Y[7]) == same
        assert list(trace.x) == sorted(trace.x)


def test_filled_marks_are_the_non_trivial_sets() -> None:
    fig = ranked_list(X, Y, 7, alpha=1.3, margin=0.5)
    own, others = fig.data
    hollow = "rgba(255,255,255,0)"
    for trace, costs in ((own, lambda d: d > 0.8), (others, lambda d: d < 1.3)):
        for row, color in zip(trace.customdata, trace.marker.color, strict=True):
            assert (color != hollow) == costs(np.linalg.norm(X[row] - X[7]))
    far = sum(np.linalg.norm(X[i] - X[7]) > 0.8 for i in range(30) if Y[i] == Y[7] and i != 7)
    near = sum(np.linalg.norm(X[i] - X[7]) < 1.3 for i in range(30) if Y[i] != Y[7])
    assert fig.layout.meta["title"] == f"|P*| = {far} of 5, |N*| = {near} of 24"
    assert [(s.x0, s.x1) for s in fig.layout.shapes if s.type == "rect"] == [(0.8, 1.3)]


def test_sizes_of_negatives_grow_with_their_weight() -> None:
    others = ranked_list(X, Y, 7).data[1]
    weights = negative_weights(np.asarray(others.x), 10.0)
    assert np.allclose(others.marker.size, 9 + 22 * np.sqrt(weights), atol=0.1)


def test_before_and_after_lie_below_each_other() -> None:
    fig = ranked_list({"before": X, "after": X * [2, 1, 1, 1]}, Y, 3)
    assert len(fig.data) == 4 and fig.data[3].yaxis == "y2"
    assert [a.text for a in fig.layout.annotations[:2]] == ["<b>before</b>", "<b>after</b>"]
    title = fig.layout.meta["title"]
    assert title.startswith("before: |P*| = ") and "; after: |P*| = " in title


def test_a_query_alone_in_its_class() -> None:
    labels = np.where(np.arange(30) == 4, 9, Y)
    assert "|P*| = 0 of 0" in ranked_list(X, labels, 4).layout.meta["title"]
    assert "|N*| = 0 of 0" in ranked_list(X, np.zeros(30, dtype=int), 4).layout.meta["title"]


def test_curves_are_the_weights() -> None:
    d = RNG.uniform(0, 2, 40)
    fig = negative_weight_curves(d, temperatures=(0, 10, math.inf))
    for trace, temperature in zip(fig.data, (0, 10, math.inf), strict=True):
        assert np.allclose(trace.y, negative_weights(np.sort(d), temperature))
        assert np.sum(trace.y) == pytest.approx(1)
    assert "100% at T = ∞" in fig.layout.meta["title"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": {}}, "embeddings: expected at least one array"),
        ({"embeddings": {"a": X[:3]}}, "labels: expected one label per"),
        ({"embeddings": X[:1], "labels": Y[:1], "query": 0}, "embeddings: expected at least two"),
        ({"query": 30}, "query: expected a whole number"),
        ({"margin": 2.0}, "margin: expected"),
        ({"alpha": -1.0}, "alpha: expected"),
        ({"temperature": -1.0}, "temperature: expected"),
    ],
)
def test_bad_lists_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        ranked_list(**{"embeddings": X, "labels": Y, "query": 0, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distances": [-0.1]}, "distances: expected numbers >= 0"),
        ({"distances": [math.nan]}, "distances: expected finite"),
        ({"distances": [[0.1]]}, "distances: expected a non-empty array"),
        ({"temperatures": ()}, "temperatures: expected a list"),
        ({"temperatures": (-1.0,)}, "temperature: expected"),
        ({"alpha": -1.0}, "alpha: expected"),
    ],
)
def test_bad_curves_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        negative_weight_curves(**{"distances": [0.1, 0.2], **change})
