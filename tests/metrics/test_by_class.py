"""Figures of each class by itself."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.metrics import class_figures, mean_covering_curve, neighbours, retrieval_metrics
from tests.oracles.metrics import ranking

labelled = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 2)), min_size=4, max_size=12)


def test_two_heaps_and_a_class_between_them():
    """Class 0 at 0 and 1, class 5 at 10, 11 and 12, class 9 at 4 and 13: each of 9 has a stranger for its nearest."""
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0], [12.5], [4.0], [13.5]])
    result = class_figures(points, torch.tensor([0, 0, 5, 5, 5, 9, 9]))
    assert result.classes.tolist() == [0, 5, 9] and result.samples.tolist() == [2, 3, 2]
    # R = 2 in class 5: 10 and 11 find their own two; 12.5 finds 13.5, then 11, which is right at rank 2: 1/2 of 1/2.
    assert result.map_at_r.tolist() == pytest.approx([1, (1 + 1 + 0.25) / 3, 0])
    assert result.p_at_1.tolist() == pytest.approx([1, 2 / 3, 0])
    assert result.covering.tolist() == pytest.approx([0.5, (1.5 + 1 + 0) / 3, 9.5 / 2])
    # 5 is taken for 9 once in its six places; 9 at 4 for 0, at 13.5 for 5: among equals the lower label.
    assert result.taken_for.tolist() == [0, 9, 0]
    assert result.share.tolist() == pytest.approx([0, 1 / 6, 0.5])


@given(labelled)
@settings(max_examples=80, deadline=None)
def test_figures_equal_the_definition(rows):
    points, labels = [row[:2] for row in rows], [row[2] for row in rows]
    if max(map(labels.count, labels)) < 2:
        labels[0] = labels[1]
    result = class_figures(torch.tensor(points).float(), torch.tensor(labels))
    for at, c in enumerate(sorted(set(labels))):
        r = labels.count(c) - 1
        if r == 0:
            assert math.isnan(result.map_at_r[at]) and math.isnan(result.p_at_1[at]) and result.share[at] == 0
            continue
        near = [[labels[j] for j in ranking(points[i], points, i)[:r]] for i in range(len(points)) if labels[i] == c]
        scores = [sum((row[: j + 1].count(c) / (j + 1)) for j in range(r) if row[j] == c) / r for row in near]
        assert result.map_at_r[at] == pytest.approx(sum(scores) / len(scores))
        assert result.p_at_1[at] == pytest.approx(sum(row[0] == c for row in near) / len(near))
        places = [label for row in near for label in row]
        others = [label for label in places if label != c]
        most = max(sorted(set(others)), key=others.count) if others else c
        assert result.taken_for[at] == most and result.share[at] == pytest.approx(others.count(most) / len(places))


def test_means_over_samples_are_those_of_retrieval_metrics(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 7, (200,), generator=generator)
    points = torch.randn(200, 16, generator=generator) + torch.nn.functional.one_hot(labels, 16)
    expected = retrieval_metrics(points, labels)
    for block in (1 << 20, 1):
        monkeypatch.setattr(neighbours, "_AT_ONCE", block)
        result = class_figures(points, labels)
        weights = result.samples.double() / 200
        assert float((result.map_at_r * weights).sum()) == pytest.approx(expected["map_at_r"], rel=1e-9)
        assert float((result.p_at_1 * weights).sum()) == pytest.approx(expected["p_at_1"], rel=1e-9)
    assert result.covering.tolist() == pytest.approx(mean_covering_curve(points, labels).per_class.tolist())


def test_a_class_that_is_never_mistaken_is_taken_for_itself():
    result = class_figures(torch.tensor([[0.0], [1.0], [50.0], [51.0]]), torch.tensor([3, 3, -2, -2]))
    assert result.taken_for.tolist() == [-2, 3] and result.share.tolist() == [0, 0]


def test_nothing_to_retrieve_is_refused():
    with pytest.raises(LabError, match="two samples"):
        class_figures(torch.eye(3), torch.arange(3))
