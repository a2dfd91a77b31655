"""Histograms of pair distances against a double loop."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots import distance_histograms


def pairs(x: np.ndarray, y: np.ndarray) -> tuple[list[float], list[float]]:
    same, other = [], []
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            (same if y[i] == y[j] else other).append(float(np.linalg.norm(x[i] - x[j])))
    return same, other


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    y = np.arange(60) % 3
    return np.eye(3)[y] + 0.3 * rng.normal(size=(60, 3)), y


def test_each_histogram_is_the_density_of_its_pairs(data: tuple[np.ndarray, np.ndarray]) -> None:
    fig = distance_histograms(*data)
    for trace, values in zip(fig.data, pairs(*data), strict=True):
        edges = np.asarray(trace.x)
        counts = np.array([sum(a <= v < b for v in values) for a, b in pairwise(edges)])
        assert np.allclose(np.asarray(trace.y)[:-1] * np.diff(edges) * len(values), counts, atol=1.5)
        assert f"({len(values):,} pairs)" in trace.name
        assert np.sum(np.asarray(trace.y)[:-1] * np.diff(edges)) == pytest.approx(1, abs=1e-2)


def test_the_title_counts_the_pairs_beyond_the_margins(data: tuple[np.ndarray, np.ndarray]) -> None:
    same, other = pairs(*data)
    fig = distance_histograms(*data, pos_margin=0.4, neg_margin=1.0)
    beyond, near = np.mean(np.array(same) > 0.4), np.mean(np.array(other) < 1.0)
    assert fig.layout.meta["title"] == (
        f"{beyond:.1%} of same-class pairs lie beyond m⁺ = 0.4; {near:.1%} of other-class pairs lie nearer than m⁻ = 1"
    )
    assert sorted(s.x0 for s in fig.layout.shapes) == [0.4, 1.0]


def test_a_margin_of_zero_tells_the_mean_instead(data: tuple[np.ndarray, np.ndarray]) -> None:
    same, _ = pairs(*data)
    title = distance_histograms(*data, pos_margin=0.0, neg_margin=1.0).layout.meta["title"]
    assert title.startswith(f"Same-class pairs lie {np.mean(same):.3f} apart on average; ")


def test_a_negative_margin_of_zero_says_nothing_of_same_class_pairs(data: tuple[np.ndarray, np.ndarray]) -> None:
    title = distance_histograms(*data, neg_margin=0.0).layout.meta["title"]
    assert title == "No other-class pair can lie nearer than m⁻ = 0"
    title = distance_histograms(*data, pos_margin=0.4, neg_margin=0.0).layout.meta["title"]
    assert title.endswith("of same-class pairs lie beyond m⁺ = 0.4; no other-class pair can lie nearer than m⁻ = 0")


def test_without_margins_the_title_gives_the_means(data: tuple[np.ndarray, np.ndarray]) -> None:
    same, other = pairs(*data)
    title = distance_histograms(*data).layout.meta["title"]
    assert title == f"Mean distance within classes {np.mean(same):.3f}, between classes {np.mean(other):.3f}"


@pytest.mark.parametrize("labels", [np.zeros(6, dtype=int), np.arange(6)])
def test_one_kind_of_pair_is_enough(labels: Any) -> None:
    x = np.random.default_rng(6).normal(size=(6, 2))
    assert len(distance_histograms(x, labels, 0.1, 0.5).data) == 1


def test_points_that_all_coincide_give_a_picture() -> None:
    assert len(distance_histograms(np.ones((4, 2)), np.array([0, 0, 1, 1])).data) == 2


def test_large_sets_are_thinned_and_said() -> None:
    x = np.random.default_rng(7).normal(size=(300, 2))
    fig = distance_histograms(x, np.arange(300) % 3, sample=90)
    assert fig.layout.meta["subtitle"] == "90 of 300 samples"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": 0}, "bins: expected a whole number"),
        ({"bins": 1.5}, "bins: expected a whole number"),
        ({"bins": 10_001}, "bins: expected a whole number"),
        ({"pos_margin": "a"}, "pos_margin: expected a number"),
        ({"neg_margin": np.inf}, "neg_margin: expected a finite number"),
        ({"sample": -1}, "sample: expected a whole number"),
        ({"sample": 1}, "sample: expected a whole number"),
        ({"embeddings": np.full((60, 3), 1e300)}, "embeddings: expected numbers of at most"),
    ],
)
def test_settings_out_of_their_range_are_refused(
    data: tuple[np.ndarray, np.ndarray], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(LabError, match=message):
        distance_histograms(**{"embeddings": data[0], "labels": data[1], **change})


def test_one_bar_and_all_samples(data: tuple[np.ndarray, np.ndarray]) -> None:
    assert all(len(trace.x) == 2 for trace in distance_histograms(*data, bins=1, sample=None).data)


def test_a_single_sample_is_refused() -> None:
    with pytest.raises(LabError, match="embeddings: expected at least two samples; got 1"):
        distance_histograms(np.ones((1, 2)), np.array([0]))
