"""Retrieval metrics: small cases by hand, the definition, pytorch-metric-learning, ties, and bad input."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from labkit.errors import LabError
from labkit.metrics import neighbours, retrieval_metrics, symmetric
from labkit.metrics import retrieval as retrieval_module
from tests.oracles.metrics import retrieval

# Whole coordinates: every squared distance is exact in any arithmetic, and ties are plenty.
labelled_grid = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3)), min_size=2, max_size=14)


def blobs(n, size, classes, spread=1.0, seed=0):
    """Gaussian classes around Gaussian centres."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    centres = torch.randn(classes, size, generator=generator)
    return centres[labels] + spread * torch.randn(n, size, generator=generator), labels


def widen(points, size):
    """The same distances in more dimensions: coordinates repeated in places, zeros elsewhere."""
    wide = torch.zeros(len(points), size)
    wide[:, : points.shape[1]] = points
    return wide


def same(result, expected):
    assert result.keys() == expected.keys()
    for name, value in expected.items():
        assert result[name] == pytest.approx(value, abs=1e-9), name


def test_four_points_by_hand():
    # On a line at 0, 1, 3, 7 with classes a a b a. Query 0: a b a, R = 2. Query 1: a b a. Query 2 has no partner.
    # Query 3: b a a.
    result = retrieval_metrics(torch.tensor([[0.0], [1.0], [3.0], [7.0]]), torch.tensor([0, 0, 1, 0]), ks=(1, 2))
    same(result, {
        "map_at_r": (0.5 + 0.5 + 0.25) / 3,
        "p_at_1": 2 / 3,
        "p_at_r": 0.5,
        "recall_at_1": 2 / 3,
        "recall_at_2": 1.0,
        "n_queries": 3,
        "n_skipped": 1,
    })


def test_keys_and_types_are_the_fixed_ones():
    result = retrieval_metrics(*blobs(20, 3, 2))
    assert list(result) == ["map_at_r", "p_at_1", "p_at_r", "recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8",
                            "n_queries", "n_skipped"]
    assert all(type(result[name]) is (int if name.startswith("n_") else float) for name in result)


@pytest.mark.parametrize("size", [2, 12])
def test_perfect_classes_give_one(size):
    points, labels = blobs(60, size, 4, spread=1e-3)
    result = retrieval_metrics(points, labels)
    assert [result[k] for k in ("map_at_r", "p_at_1", "p_at_r", "recall_at_8")] == [1, 1, 1, 1]


@pytest.mark.parametrize("size", [2, 12])
@given(labelled_grid)
@settings(max_examples=120, deadline=None)
def test_equals_the_definition_with_ties(size, rows):
    points, labels = torch.tensor([row[:2] for row in rows]).float(), torch.tensor([row[2] for row in rows])
    if labels.unique().numel() == len(rows):
        labels[-1] = labels[0]
    same(retrieval_metrics(widen(points, size), labels), retrieval(points.tolist(), labels.tolist()))


@pytest.mark.parametrize("size", [2, 12])
@given(labelled_grid, labelled_grid)
@settings(max_examples=80, deadline=None)
def test_equals_the_definition_with_references(size, rows, others):
    points, labels = torch.tensor([row[:2] for row in rows]).float(), torch.tensor([row[2] for row in rows])
    references, classes = torch.tensor([row[:2] for row in others]).float(), torch.tensor([row[2] for row in others])
    classes[0] = labels[0]
    same(
        retrieval_metrics(widen(points, size), labels, widen(references, size), classes, ks=(1, 3)),
        retrieval(points.tolist(), labels.tolist(), references.tolist(), classes.tolist(), ks=(1, 3)),
    )


@pytest.mark.parametrize(("n", "size", "classes"), [(400, 2, 5), (400, 3, 40), (300, 64, 7), (300, 512, 60)])
def test_agrees_with_pytorch_metric_learning(n, size, classes):
    points, labels = blobs(n, size, classes, spread=2.0)
    include = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=include, k="max_bin_count", device=torch.device("cpu"))
    theirs = calculator.get_accuracy(points, labels)
    ours = retrieval_metrics(points, labels)
    for name, other in zip(("p_at_1", "p_at_r", "map_at_r"), include, strict=True):
        assert ours[name] == pytest.approx(theirs[other], abs=1e-6)


def test_query_and_gallery_agree_with_pytorch_metric_learning():
    points, labels = blobs(150, 16, 6, spread=2.0)
    references, classes = blobs(200, 16, 6, spread=2.0, seed=1)
    calculator = AccuracyCalculator(include=("mean_average_precision_at_r",), k="max_bin_count", device=torch.device("cpu"))
    theirs = calculator.get_accuracy(points, labels, references, classes)
    ours = retrieval_metrics(points, labels, references, classes)
    assert ours["map_at_r"] == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)


@pytest.mark.parametrize("size", [2, 40])
def test_duplicates_of_a_query_stay_only_the_query_itself_leaves(size):
    # Two copies of each point with different labels: leaving out "the first column" would drop the wrong one.
    points = torch.randn(8, size, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    labels = torch.arange(8).repeat_interleave(2)
    same(retrieval_metrics(points, labels), retrieval(points.tolist(), labels.tolist()))


@pytest.mark.parametrize("size", [2, 40])
def test_collapsed_embeddings_rank_by_index(size):
    points, labels = torch.full((30, size), 0.3), torch.arange(30) % 3
    same(retrieval_metrics(points, labels), retrieval([[0.0]] * 30, labels.tolist()))


def test_a_reference_set_that_equals_the_queries_keeps_the_self_match():
    points, labels = blobs(30, 12, 3)
    assert retrieval_metrics(points, labels, points, labels)["p_at_1"] == 1.0


@pytest.mark.parametrize("offset", [0.0, 30.0, 3000.0])
@pytest.mark.parametrize("size", [2, 24])
def test_neighbours_are_those_of_direct_differences(offset, size):
    """Far from the origin a product of embeddings loses what tells neighbours apart; the search must not."""
    rows = (np.random.default_rng(0).normal(size=(300, size)) + offset).astype(np.float32)
    search = neighbours.NeighbourSearch(rows, rows, exclude_self=True)
    found = search.nearest(np.arange(300), 20)
    exact = ((rows[:, None].astype(np.float64) - rows[None]) ** 2).sum(2)
    np.fill_diagonal(exact, np.inf)
    best = np.sort(exact, axis=1)[:, :20]
    assert np.allclose(np.take_along_axis(exact, found, axis=1), best, rtol=1e-5, atol=0)
    assert all(len(set(row)) == 20 for row in found.tolist())


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e18, 1e30])
@pytest.mark.parametrize("size", [2, 24])
def test_scale_does_not_matter(scale, size):
    points, labels = blobs(60, size, 4)
    same(retrieval_metrics(points * scale, labels), retrieval_metrics(points.double() * scale, labels))


@pytest.mark.parametrize("size", [2, 24])
def test_one_point_far_away_leaves_the_order_of_the_others(size):
    points, labels = blobs(300, size, 30, spread=0.1)
    points[0] = 1e25
    result = retrieval_metrics(points, labels)
    same(result, retrieval_metrics(points.double(), labels))
    assert result["map_at_r"] > 0.4  # with all others at one distance it would be under 0.04


def test_one_row_at_a_time_gives_the_same(monkeypatch):
    points, labels = blobs(120, 24, 9, spread=2.0)
    whole = retrieval_metrics(points, labels)
    monkeypatch.setattr(retrieval_module, "_CACHED", 1)
    monkeypatch.setattr(retrieval_module, "_ROWS", 1)
    monkeypatch.setattr(neighbours, "_GATHER", 50)
    same(retrieval_metrics(points, labels), whole)


@pytest.fixture
def swept(monkeypatch):
    """Counts the sweeps over one set in itself, and lets them begin with small sets."""
    sweeps = []
    original = symmetric.SymmetricSearch.sweep

    def sweep(self):
        sweeps.append(original(self))
        return sweeps[-1]

    monkeypatch.setattr(symmetric.SymmetricSearch, "sweep", sweep)
    monkeypatch.setattr(symmetric, "_FEWEST", 200)
    monkeypatch.setattr(symmetric, "_STRIP", 200)  # several strips to a tile
    return sweeps


def plain(points, labels, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(symmetric.SymmetricSearch, "suits", staticmethod(lambda *_: False))
        return retrieval_metrics(points, labels)


KINDS = "overlapping", "collapsed classes", "whole numbers", "far from the origin", "singles", "sizes", "tight", "rounded"


@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_of_one_set_equals_the_search_by_query(kind, swept, monkeypatch):
    points, labels = blobs(403, 24, 100, spread=2.0)
    if kind == "collapsed classes":
        points = points[labels]
    elif kind == "whole numbers":
        points = points.round()
    elif kind == "far from the origin":
        points = points + 30
    elif kind == "singles":
        labels[:200] = torch.arange(1000, 1200)
    elif kind == "sizes":  # classes of 2 to 12, which want 8 to 11 neighbours
        labels = torch.arange(66).repeat_interleave(torch.arange(2, 13).repeat(6))[:403]
        points = points + labels[:, None] / 50
    elif kind == "tight":  # every neighbour that is wanted stands in the row's own tile
        labels = torch.arange(403) // 12
        points = 0.1 * points + 10 * torch.randn(34, 24, generator=torch.Generator().manual_seed(1))[labels]
    elif kind == "rounded":  # products of these rows lose all that tells twelve neighbours, of two classes, apart
        heaps = torch.arange(403) // 12
        labels = 2 * heaps + torch.arange(403) % 2
        points = 1e-3 * points + 10 * torch.randn(34, 24, generator=torch.Generator().manual_seed(1))[heaps]
    same(retrieval_metrics(points, labels), plain(points, labels, monkeypatch))
    assert swept == [True]


def test_the_sweep_gives_way_where_candidates_are_too_many(swept, monkeypatch):
    monkeypatch.setattr(symmetric, "_CANDIDATES", 40_000)
    points, labels = torch.full((403, 24), 0.3), torch.arange(403) % 100
    same(retrieval_metrics(points, labels), retrieval([[0.0]] * 403, labels.tolist()))
    assert swept == [False]


def test_classes_of_very_different_size():
    points, labels = blobs(200, 12, 2, spread=3.0)
    labels[:3], labels[3] = 7, 8
    same(retrieval_metrics(points, labels), retrieval(points.tolist(), labels.tolist()))


def test_queries_of_unknown_classes_are_counted_apart():
    points, labels = blobs(30, 12, 3)
    result = retrieval_metrics(points[:10], labels[:10] + torch.tensor([0] * 8 + [50, -50]), points, labels)
    assert (result["n_queries"], result["n_skipped"]) == (8, 2)


def test_k_beyond_the_references_means_all():
    result = retrieval_metrics(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 1, 0]), ks=(1, 100))
    assert (result["recall_at_1"], result["recall_at_100"]) == (0.0, 1.0)


def test_arrays_half_precision_and_strides():
    points, labels = blobs(80, 24, 4, spread=2.0)
    whole = retrieval_metrics(points, labels)
    same(retrieval_metrics(points.numpy(), labels.numpy()), whole)
    same(retrieval_metrics(points.requires_grad_(), labels.int()), whole)
    points = points.detach()
    same(retrieval_metrics(points.T.contiguous().T, labels), whole)
    same(retrieval_metrics(points.repeat_interleave(2, 1)[:, ::2], labels), whole)
    for kind in (torch.float16, torch.bfloat16):
        same(retrieval_metrics(points.to(kind), labels), retrieval_metrics(points.to(kind).float(), labels))


points, labels = blobs(6, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": torch.randn(6)}, "query"),
        ({"query": torch.ones(6, 3, dtype=torch.int32)}, "query"),
        ({"query": torch.full((6, 3), math.nan)}, "query"),
        ({"query": torch.full((6, 3), math.inf)}, "query"),
        ({"query": torch.ones(0, 3), "query_labels": torch.ones(0, dtype=torch.int64)}, "query"),
        ({"query": [[1.0]] * 6}, "query"),
        ({"query_labels": torch.arange(5)}, "query_labels"),
        ({"query_labels": torch.ones(6)}, "query_labels"),
        ({"query_labels": torch.arange(6)}, "query_labels"),
        ({"query": torch.ones(1, 3), "query_labels": torch.tensor([0])}, "query_labels"),
        ({"reference": points}, "reference_labels"),
        ({"reference_labels": torch.arange(6)}, "reference_labels"),
        ({"reference": points, "reference_labels": torch.arange(5)}, "reference_labels"),
        ({"reference": torch.randn(6, 4), "reference_labels": torch.arange(6)}, "reference"),
        ({"reference": points, "reference_labels": torch.arange(10, 16)}, "query_labels"),
        ({"ks": ()}, "ks"),
        ({"ks": 3}, "ks"),
        ({"ks": (0,)}, "ks"),
        ({"ks": (1, 2.5)}, "ks"),
    ],
)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(LabError) as error:
        retrieval_metrics(**{"query": points, "query_labels": torch.tensor([0, 0, 0, 1, 1, 1]), **arguments})
    assert error.value.argument == named
