"""The embedding map: what is drawn where, and that its title tells the truth."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.plots import embedding_map
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.marks import kept_apart, number_positions
from tests.plots.recordings import distance_to_nearest


@pytest.fixture
def scene() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], [20, 30, 40])
    centers = np.array([[0.7, 0.0], [-0.4, 0.6], [-0.4, -0.6]])
    return {
        "embeddings": centers[labels] + 0.1 * rng.normal(size=(90, 2)),
        "labels": labels,
        "proxies": centers[:, None] + 0.05 * rng.normal(size=(3, 4, 2)),
        "next_proxies": centers[:, None] + 0.1 * rng.normal(size=(3, 4, 2)),
    }


def by_name(fig: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in fig.data if trace.name}


def test_every_sample_lies_in_its_class_and_place(scene: dict[str, Any]) -> None:
    traces = by_name(embedding_map(**scene, class_names=["zero", "one", "two"]))
    for c, name in enumerate(["zero", "one", "two"]):
        own = scene["embeddings"][scene["labels"] == c]
        drawn = np.stack([traces[name].x, traces[name].y], axis=1)
        assert np.allclose(drawn, own, atol=5.1e-4)
        assert np.array_equal(traces[name].customdata, np.flatnonzero(scene["labels"] == c))
        assert traces[name].marker.symbol == "y-down-open"


def test_proxies_are_squares_and_the_next_ones_circles(scene: dict[str, Any]) -> None:
    traces = by_name(embedding_map(**scene))
    for name, key, symbol in (("proxies", "proxies", "square"), ("next proxies (K-Center)", "next_proxies", "circle")):
        drawn = np.stack([traces[name].x, traces[name].y], axis=1)
        assert np.allclose(drawn, scene[key].reshape(-1, 2), atol=5.1e-4)
        assert traces[name].marker.symbol == symbol
    assert len(set(traces["proxies"].marker.color)) == 3


@pytest.mark.parametrize(("balls", "expected"), [(True, lambda d: np.quantile(d, 0.95)), ("max", np.max)])
def test_balls_have_the_radius_that_they_claim(scene: dict[str, Any], balls: Any, expected: Any) -> None:
    fig = embedding_map(**scene, balls=balls)
    distances = distance_to_nearest(scene["embeddings"], scene["proxies"], scene["labels"])
    rings = [trace for trace in fig.data if trace.fill == "toself"]
    assert len(rings) == 3
    for c, ring in enumerate(rings):
        first = np.array([[x, y] for x, y in zip(ring.x[:49], ring.y[:49], strict=True)], dtype=float)
        radii = np.linalg.norm(first - scene["proxies"][c, 0], axis=1)
        assert np.allclose(radii, expected(distances[scene["labels"] == c]), atol=2e-3)
    assert ("95 % quantile" if balls is True else "largest") in fig.layout.meta["subtitle"]


def test_the_title_is_computed_from_the_data(scene: dict[str, Any]) -> None:
    distances = distance_to_nearest(scene["embeddings"], scene["proxies"], scene["labels"])
    q95 = np.mean([np.quantile(distances[scene["labels"] == c], 0.95) for c in range(3)])
    assert f"within {q95:.3f}" in embedding_map(**scene).layout.title.text


def test_both_axes_have_one_scale_and_the_unit_circle_is_there(scene: dict[str, Any]) -> None:
    fig = embedding_map(**scene)
    assert fig.layout.yaxis.scaleanchor == "x"
    assert fig.layout.xaxis.range == fig.layout.yaxis.range
    circle = fig.layout.shapes[0]
    assert (circle.type, circle.x0, circle.x1) == ("circle", -1, 1)


def test_many_dimensions_are_projected_and_said_so() -> None:
    rng = np.random.default_rng(4)
    fig = embedding_map(rng.normal(size=(40, 8)), np.arange(40) % 4, rng.normal(size=(4, 2, 8)), balls=True)
    assert "8-D" in fig.layout.meta["subtitle"] and "principal component" in fig.layout.xaxis.title.text
    assert not fig.layout.shapes  # the unit circle means nothing there


def test_tensors_of_any_precision_are_welcome(scene: dict[str, Any]) -> None:
    plain = by_name(embedding_map(**scene))
    tensors = by_name(embedding_map(torch.tensor(scene["embeddings"]).bfloat16(), torch.tensor(scene["labels"])))
    assert np.allclose(plain["1"].x, tensors["1"].x, atol=5e-3)


def test_thumbnails_stand_in_the_hover_label_of_their_own_sample(scene: dict[str, Any]) -> None:
    pictures = np.zeros((90, 4, 2), dtype=np.uint8)
    pictures[20, 0, 0] = 255  # the first sample of class 1
    traces = by_name(embedding_map(**scene, thumbnails=pictures))
    assert traces["1"].text[0] == "\u2801"
    assert set(traces["0"].text) == set(traces["1"].text[1:]) == {"\u2800"}
    assert "%{text}" in traces["1"].hovertemplate


def test_numbers_stand_outside_their_class() -> None:
    xy = np.array([[1.0, 0], [2, 0], [3, 0], [-1, 0], [-2, 0], [-3, 0]])
    positions = number_positions(xy, np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1]), 0.5)
    assert positions[0, 0] > 3 and positions[1, 0] < -3
    assert np.allclose(positions[:, 1], 0)


def test_numbers_of_classes_in_one_heap_are_kept_apart_and_others_stay():
    places = np.array([[0.0, 0.0], [0.0, 0.0], [0.01, 0.0], [5.0, 5.0]])
    moved = kept_apart(places, 0.5)
    distances = np.linalg.norm(moved[:, None] - moved[None], axis=2)[np.triu_indices(4, 1)]
    assert distances.min() > 0.48
    assert np.abs(moved[3] - places[3]).max() < 1e-2 and np.abs(moved[:3]).max() < 0.5
    apart = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert kept_apart(apart, 0.9) is apart
    assert np.abs(kept_apart(np.ones((12, 2)), 0.4, edge=1.0)).max() <= 1.0 + 1e-9
    assert np.isfinite(kept_apart(np.zeros((30, 2)), 1e-300)).all()


def test_a_sample_is_spread_evenly_over_each_class() -> None:
    labels = np.repeat([0, 1], [100, 300])
    rows = evenly_per_class(labels, 40)
    assert np.bincount(labels[rows]).tolist() == [10, 30]
    assert len(np.unique(rows)) == 40 and rows[0] == 0 and rows[-1] == 399
    assert np.array_equal(evenly_per_class(labels, 400), np.arange(400))
    assert np.bincount(labels[evenly_per_class(labels, 2)]).tolist() == [1, 1]  # no class goes missing


@pytest.mark.parametrize(
    ("counts", "sample", "size", "classes"),
    [
        ([3] * 300, 500, 500, 300),
        ([7, 7, 7], 10, 9, 3),  # as rounding has it
        ([5, 5, 5, 5], 10, 8, 4),
        ([991, *[1] * 9], 20, 20, 10),
        ([20] * 1000, 500, 496, 62),
        ([1] * 1000, 500, 500, 500),
        ([100, 100], 1, 1, 1),
    ],
)
def test_at_most_means_at_most(counts: list[int], sample: int, size: int, classes: int) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    rows = evenly_per_class(labels, sample)
    assert len(rows) == len(np.unique(rows)) == size and (np.diff(rows) > 0).all()
    found = np.unique(labels[rows], return_counts=True)
    assert len(found[0]) == classes and np.diff(found[0], prepend=0).max() <= -(-len(counts) // classes), "at even distances"
    if len(set(counts)) == 1:
        assert np.ptp(found[1]) <= 1, "equal classes give equally many, but for one"


def test_shares_that_fit_are_those_of_rounding() -> None:
    labels = np.repeat(np.arange(4), [10, 20, 33, 37])
    for sample in range(4, 100):
        rounded = [max(1, round(sample * count / 100)) for count in (10, 20, 33, 37)]
        found = np.bincount(labels[evenly_per_class(labels, sample)])
        if sum(rounded) <= sample:
            assert found.tolist() == rounded
        else:
            assert found.sum() == sample and all(0 <= a - b <= 1 for a, b in zip(rounded, found, strict=True))


def test_a_class_without_a_name_keeps_its_number(scene: dict[str, Any]) -> None:
    assert {"zero", "1", "2"} <= set(by_name(embedding_map(**scene, class_names=["zero"])))


def test_a_class_name_cannot_act_as_markup(scene: dict[str, Any]) -> None:
    fig = embedding_map(**scene, class_names=["<i>x</i>", "b", "c"])
    assert "<i>" not in fig.to_json().replace("\\u003c", "<")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"labels": np.zeros(5, dtype=int)},
            r"labels: expected one label per embedding, shape \(90,\); got shape \(5,\)",
        ),
        ({"labels": np.zeros(90)}, "labels: expected whole numbers"),
        ({"embeddings": np.zeros(90)}, "embeddings: expected a non-empty array of shape"),
        ({"embeddings": np.full((90, 2), np.nan)}, "embeddings: expected finite numbers only; got 180 NaN"),
        ({"embeddings": "nonsense"}, "embeddings: expected numbers"),
        ({"embeddings": np.full((90, 3), 1e300), "proxies": None, "next_proxies": None}, "at most 1e[+]30 in size"),
        ({"proxies": np.full((3, 4, 2), -1e31)}, "proxies: expected numbers of at most 1e[+]30"),
        ({"width": -640}, r"width: expected a finite number in \[140, 100000\]; got -640"),
        ({"width": "wide"}, "width: expected a number"),
        ({"sample": -5}, "sample: expected a whole number"),
        ({"sample": 0}, "sample: expected a whole number"),
        ({"sample": 2.5}, "sample: expected a whole number"),
        ({"proxies": np.zeros((3, 4, 5))}, "proxies: expected D = 2"),
        ({"proxies": np.zeros((2, 4, 2))}, "proxies: expected one row per class, C = 3"),
        ({"next_proxies": np.zeros((3, 2))}, "next_proxies: expected a non-empty array of shape"),
        ({"balls": True, "proxies": None}, "balls: expected proxies to draw balls around"),
        ({"balls": "maximum"}, "balls: expected one of 'q95', 'max'"),
        ({"thumbnails": np.zeros((3, 2, 2), dtype=np.uint8)}, "thumbnails: expected 90 grey pictures"),
    ],
)
def test_what_cannot_be_drawn_is_refused(scene: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        embedding_map(**{**scene, **change})


def test_a_single_sample_gives_a_picture() -> None:
    fig = embedding_map(np.array([[0.3, 0.4]]), np.array([7]))
    assert by_name(fig)["7"].x.tolist() == pytest.approx([0.3], abs=1e-3)


@pytest.mark.parametrize("scale", [1e30, 1e-30, 1e-300])
@pytest.mark.parametrize("dimensions", [2, 5])
def test_numbers_of_any_size_up_to_the_limit_are_drawn(scale: float, dimensions: int) -> None:
    x = np.random.default_rng(8).uniform(-1, 1, size=(30, dimensions)) * scale
    fig = embedding_map(x, np.arange(30) % 3, x[:3, None], balls=True)
    assert np.isfinite(fig.layout.xaxis.range).all()
    assert all(np.isfinite(by_name(fig)[name].x).all() for name in "012")


def test_a_class_name_that_no_file_can_hold_is_shown_with_a_replacement(scene: dict[str, Any]) -> None:
    fig = embedding_map(**scene, class_names=["a\ud800", "\ud83d\ude00", "c"], title="half \udc00")
    assert {"a\ufffd", "\U0001f600", "c"} <= set(by_name(fig)) and "half \ufffd" in fig.layout.title.text
    fig.to_html().encode()


NAMES = ["Black_footed_Albatross", "Horned_Lark", "Parakeet Auklet"]


@pytest.mark.parametrize("names", [NAMES, ["digit 7", "digit 8", "digit 9"]])
def test_names_of_classes_are_whole_inside_the_picture(scene: dict[str, Any], names: list[str]) -> None:
    x = np.hstack([2 * scene["embeddings"], 0.01 * scene["embeddings"]])
    fig = embedding_map(x, scene["labels"], class_names=names)
    written = next(trace for trace in fig.data if trace.mode == "text")
    half = fig.layout.xaxis.range[1]
    across = 640 + 50 - 45 - 7 * max(map(len, names))
    for at, up, text in zip(written.x, written.y, written.text, strict=True):
        lines = re.sub("</?b>", "", text).split("<br>")
        assert " ".join(lines) in [name.replace("_", " ") for name in names] and all(len(line) <= 13 for line in lines)
        letter = written.textfont.size / across * half
        assert abs(at) + 0.62 * letter * max(map(len, lines)) <= half * 1.001
        assert abs(up) + 0.65 * letter * len(lines) <= half * 1.001


def test_numbers_of_classes_leave_the_picture_as_it_was(scene: dict[str, Any]) -> None:
    fig = embedding_map(**scene)
    assert fig.layout.xaxis.range == (-1.2, 1.2)
    written = next(trace for trace in fig.data if trace.mode == "text")
    assert written.textfont.size == 18 and written.text == ("<b>0</b>", "<b>1</b>", "<b>2</b>")


def test_few_samples_have_a_shape_for_each_class_and_many_or_those_with_proxies_the_paper_s_mark() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(120, 2)), np.arange(120) % 12
    few = [trace.marker for trace in embedding_map(x, labels).data if trace.mode == "markers"]
    assert len({marker.symbol for marker in few[:10]}) == 10
    assert len({(marker.symbol, marker.color) for marker in few}) == 12
    with_proxies = embedding_map(x, labels, proxies=rng.normal(size=(12, 2, 2))).data[0].marker
    many = embedding_map(np.tile(x, (5, 1)), np.tile(labels, 5)).data[0].marker
    assert with_proxies.symbol == many.symbol == "y-down-open"
