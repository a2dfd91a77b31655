"""Figures of a domain over a run, and as many samples of each class."""

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import domain_figures, domains, equal_rows
from labkit.metrics.domains import DOMAIN_FIGURES
from tests.oracles import metrics as oracle


def by_definition(x, y):
    """Every figure from its definition, every distance anew."""
    points, labels = x.tolist(), y.tolist()
    curves = [sum(radii) / len(radii) for radii in oracle.curve(points, labels)]
    apart = [d for d, same in oracle.pairs(points, labels) if not same]
    values = np.linalg.svd(x - x.mean(0), compute_uv=False)
    share = values / values.sum()
    covering, distance = sum(curves) / len(curves), sum(apart) / len(apart)
    return {
        "map_at_r": oracle.retrieval(points, labels)["map_at_r"],
        "covering": covering,
        "inter_class_distance": distance,
        "relative": covering / distance,
        "effective_rank": np.exp(-(share * np.log(share)).sum()),
        "hubness": oracle.skewness(oracle.occurrences(points, 10)),
    }


def test_figures_are_what_their_definitions_say(shrinking_run):
    found = domain_figures(*shrinking_run)
    assert tuple(found) == DOMAIN_FIGURES and all(v.shape == (3,) and v.dtype == np.float64 for v in found.values())
    for moment, x in enumerate(shrinking_run[0]):
        expected = by_definition(x, shrinking_run[1])
        assert {name: values[moment] for name, values in found.items()} == pytest.approx(expected, rel=1e-9)


def test_lists_and_tensors_and_half_the_digits_are_taken(shrinking_run):
    x, y = shrinking_run
    found = domain_figures(x, y)
    for given in ((x.tolist(), y.tolist()), (torch.from_numpy(x), torch.from_numpy(y))):
        again = domain_figures(*given)
        assert all(np.array_equal(again[name], values) for name, values in found.items())
    single = domain_figures(x.astype(np.float32), y)
    assert all(single[name] == pytest.approx(values, rel=1e-4) for name, values in found.items())


def test_an_embedding_that_shrinks_as_a_whole_changes_the_radii_alone(shrinking_run):
    found = domain_figures(*shrinking_run)
    for name in ("covering", "inter_class_distance"):
        assert found[name][2] == pytest.approx(found[name][1] / 2)
    for name in ("map_at_r", "relative", "effective_rank", "hubness"):
        assert found[name][2] == pytest.approx(found[name][1])


def test_only_what_is_asked_for_is_computed_and_nothing_twice(shrinking_run, monkeypatch):
    calls = []
    for name in ("mean_covering_curve", "inter_class_distance", "retrieval_metrics", "effective_rank", "hubness"):
        way = getattr(domains, name)
        monkeypatch.setattr(domains, name, lambda *a, _way=way, _name=name, **k: calls.append(_name) or _way(*a, **k))
    domain_figures(shrinking_run[0][:1], shrinking_run[1])
    assert sorted(calls) == ["effective_rank", "hubness", "inter_class_distance", "mean_covering_curve", "retrieval_metrics"]
    calls.clear()
    assert list(domain_figures(*shrinking_run, only=["covering"])) == ["covering"]
    assert calls == ["mean_covering_curve"] * 3
    assert list(domain_figures(*shrinking_run, only=["relative", "covering"])) == ["relative", "covering"]


def test_where_all_classes_lie_on_one_point_the_ratio_is_not_there():
    assert np.isnan(domain_figures(np.zeros((1, 4, 2)), [0, 0, 1, 1], only=["relative"])["relative"]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"only": ["coverage"]}, "only"),
        ({"embeddings": np.zeros((4, 2))}, r"embeddings: expected floats of shape \(S, n, D\)"),
        ({"embeddings": "words"}, "embeddings"),
        ({"embeddings": np.full((1, 60, 2), np.nan)}, "embeddings: expected finite"),
        ({"labels": [0, 1]}, "labels"),
    ],
)
def test_what_does_not_fit_is_refused(shrinking_run, change, words):
    given = {"embeddings": shrinking_run[0], "labels": shrinking_run[1]} | change
    with pytest.raises(LabError, match=words):
        domain_figures(**given)


def test_as_many_of_each_class(shrinking_run):
    labels = shrinking_run[1]
    rows = equal_rows(labels)
    assert np.bincount(labels[rows]).tolist() == [6] * 9 and (np.diff(rows) > 0).all()
    assert np.bincount(labels[equal_rows(labels, 8)]).tolist() == [0, 0, 8, 0, 0, 0, 0, 8]
    assert equal_rows(labels.tolist()).tolist() == equal_rows(torch.from_numpy(labels)).tolist() == rows.tolist()
    for per_class, words in ((10, "at most 9"), (0, "per_class")):
        with pytest.raises(LabError, match=words):
            equal_rows(labels, per_class)
    for wrong in ([], [[0], [1]], [0.5], None):
        with pytest.raises(LabError, match="labels"):
            equal_rows(wrong)
