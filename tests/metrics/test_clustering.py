"""Normalised mutual information of k-means and the classes."""

import math
import warnings

import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import clustering, nmi
from tests.oracles.metrics import mutual_information


def blobs(n, size, classes, spread):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % classes
    centres = torch.randn(classes, size, generator=generator)
    return centres[labels] + spread * torch.randn(n, size, generator=generator), labels


@pytest.fixture(params=["scikit-learn", "faiss"])
def either(request, monkeypatch):
    """Both ways of clustering, whatever the size."""
    if request.param == "faiss":
        monkeypatch.setattr(clustering, "_SMALL", 0)


def test_separate_blobs_give_one(either):
    # Two blobs, since faiss starts at random points and from there may halve one of three and join the others.
    points, labels = blobs(60, 5, 2, 1e-3)
    assert nmi(points, labels) == pytest.approx(1.0)
    assert nmi(points.numpy(), labels.numpy()) == pytest.approx(1.0)


def test_two_pairs_with_crossed_labels_give_zero(either):
    points = torch.tensor([[0.0], [0.1], [9.0], [9.1]])
    assert nmi(points, torch.tensor([0, 1, 0, 1])) == pytest.approx(0.0, abs=1e-12)


def test_two_clusters_against_uneven_labels(either):
    points, labels = torch.tensor([[0.0], [0.1], [0.2], [9.0], [9.1]]), [0, 0, 1, 1, 1]
    assert nmi(points, torch.tensor(labels)) == pytest.approx(mutual_information([0, 0, 0, 1, 1], labels))


def test_the_same_seed_gives_the_same_value_and_leaves_the_global_generators_alone(either):
    points, labels = blobs(300, 8, 10, 1.0)
    before = torch.random.get_rng_state()
    values = {nmi(points, labels, seed=s) for s in (3, 3, 3)}
    assert len(values) == 1
    assert 0 < values.pop() < 1
    assert torch.equal(before, torch.random.get_rng_state())


def test_collapsed_embeddings_give_zero_without_a_warning(either):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nmi(torch.ones(12, 4), torch.arange(12) % 3) == pytest.approx(0.0, abs=1e-12)


def test_half_precision(either):
    points, labels = blobs(60, 8, 4, 1.0)
    assert nmi(points.half(), labels) == nmi(points.half().float(), labels)
    assert nmi(points.bfloat16(), labels) == nmi(points.bfloat16().float(), labels)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"embeddings": torch.randn(6)}, "embeddings"),
        ({"embeddings": torch.ones(6, 2, dtype=torch.int64)}, "embeddings"),
        ({"embeddings": torch.full((6, 2), math.nan)}, "embeddings"),
        ({"labels": torch.arange(5)}, "labels"),
        ({"labels": torch.zeros(6, dtype=torch.int64)}, "labels"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(LabError) as error:
        nmi(**{"embeddings": torch.randn(6, 2), "labels": torch.arange(6) % 2, **arguments})
    assert error.value.argument == named
