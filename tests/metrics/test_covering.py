"""Covering radius, its quantile and mean, and the k-Center curve."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.metrics import covering, covering_curve, covering_radius, covering_summary, mean_covering_curve
from tests.oracles.metrics import curve, own_distances

labelled_grid = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 2)), min_size=1, max_size=12)


def split(rows):
    return torch.tensor([row[:2] for row in rows]).float(), torch.tensor([row[2] for row in rows])


def test_known_radii_with_classes_in_sorted_order():
    embeddings = torch.tensor([[0.0, 0.0], [3.0, 4.0], [10.0, 0.0], [10.0, 2.0]])
    labels = torch.tensor([5, 5, -1, -1])
    centers = torch.tensor([[0.0, 0.0], [10.0, 0.0], [10.0, 1.0], [0.0, 0.1]])
    assert covering_radius(embeddings, labels, centers, torch.tensor([5, -1, -1, 9])).tolist() == [1.0, 5.0]


def test_summary_of_a_line():
    # One centre at 0 and samples at 0 … 20: the 95 % quantile is 19, the mean 10. The second class lies on its centre.
    embeddings = torch.cat((torch.arange(21.0), torch.zeros(3)))[:, None]
    labels = torch.tensor([0] * 21 + [1] * 3)
    summary = covering_summary(embeddings, labels, torch.zeros(2, 1), torch.tensor([0, 1]))
    assert summary.classes.tolist() == [0, 1]
    assert summary.radius.tolist() == [20, 0]
    assert summary.quantile_95.tolist() == [19, 0]
    assert summary.mean_distance.tolist() == [10, 0]
    assert (summary.covering_max, summary.covering_q95, summary.covering_mean) == (10, 9.5, 5)
    assert summary.largest_radius == 20


@given(labelled_grid, labelled_grid)
@settings(max_examples=80, deadline=None)
def test_summary_equals_the_definition(rows, centre_rows):
    centre_rows += [(0, 1, c) for c in range(3)]
    (points, labels), (centres, owners) = split(rows), split(centre_rows)
    summary = covering_summary(points, labels, centres, owners)
    distances = own_distances(points.tolist(), labels.tolist(), centres.tolist(), owners.tolist())
    assert summary.radius.tolist() == pytest.approx([max(d) for d in distances], rel=1e-6)
    assert summary.mean_distance.tolist() == pytest.approx([sum(d) / len(d) for d in distances], rel=1e-6)
    quantiles = [float(torch.quantile(torch.tensor(d, dtype=torch.float64), 0.95)) for d in distances]
    assert summary.quantile_95.tolist() == pytest.approx(quantiles, rel=1e-5, abs=1e-6)


def test_blocks_do_not_change_the_result(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    points, labels = torch.randn(90, 5, generator=generator), torch.arange(90) % 4
    whole = covering_radius(points, labels, points[:12], labels[:12]), covering_curve(points, labels)
    monkeypatch.setattr(covering, "_BLOCK", 1)
    assert torch.equal(covering_radius(points, labels, points[:12], labels[:12]), whole[0])
    assert all(torch.equal(a, b) for a, b in zip(covering_curve(points, labels), whole[1], strict=True))


def test_close_to_a_far_centre_nothing_is_lost():
    radius = covering_radius(torch.tensor([[1000.0, 0.0, 1000.0]]), torch.tensor([0]),
                             torch.tensor([[1000.0, 0.001, 1000.0]]), torch.tensor([0]))
    assert radius.item() == pytest.approx(0.001, rel=1e-5)


def test_curve_of_a_line_starts_in_the_middle():
    curves = covering_curve(torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]]), torch.zeros(5, dtype=torch.int64))
    assert [c.tolist() for c in curves] == [[2, 2, 1, 1, 0]]


@given(labelled_grid)
@settings(max_examples=80, deadline=None)
def test_curves_equal_the_definition(rows):
    points, labels = split(rows)
    curves = covering_curve(points, labels)
    expected = curve(points.tolist(), labels.tolist())
    assert len(curves) == len(expected)
    for ours, theirs in zip(curves, expected, strict=True):
        assert ours.tolist() == pytest.approx(theirs, rel=1e-6)


def test_curve_does_not_depend_on_the_order_of_distinct_samples():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40) % 3
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    for a, b in zip(covering_curve(points, labels), covering_curve(points[order], labels[order]), strict=True):
        assert torch.equal(a, b)


def test_a_class_of_one_sample_has_the_curve_zero():
    assert [c.tolist() for c in covering_curve(torch.ones(1, 2), torch.tensor([3]))] == [[0.0]]


def test_half_precision_arrays_and_strides():
    points, labels = torch.randn(12, 8, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2
    for kind in (torch.float16, torch.bfloat16):
        low = points.to(kind)
        assert torch.equal(covering_radius(low, labels, low[:4], labels[:4]),
                           covering_radius(low.float(), labels, low[:4].float(), labels[:4]))
    strided = points[:, ::2]
    expected = covering_radius(strided.contiguous(), labels, strided[:4].contiguous(), labels[:4])
    assert torch.equal(covering_radius(strided, labels, strided[:4], labels[:4]), expected)
    assert torch.equal(covering_radius(strided.numpy(), labels.numpy(), strided[:4].numpy(), labels[:4].numpy()), expected)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"embeddings": torch.randn(4)}, "embeddings"),
        ({"embeddings": torch.ones(4, 2, dtype=torch.int64)}, "embeddings"),
        ({"embeddings": torch.full((4, 2), math.nan)}, "embeddings"),
        ({"embeddings": torch.ones(0, 2), "labels": torch.ones(0, dtype=torch.int64)}, "embeddings"),
        ({"labels": torch.arange(3)}, "labels"),
        ({"centers": torch.ones(2, 3)}, "centers"),
        ({"centers": torch.full((2, 2), math.inf)}, "centers"),
        ({"center_labels": torch.tensor([0])}, "center_labels"),
        ({"center_labels": torch.tensor([0.0, 1.0])}, "center_labels"),
    ],
)
def test_bad_input_is_named(arguments, named):
    good = {"embeddings": torch.randn(4, 2), "labels": torch.tensor([0, 0, 1, 1]), "centers": torch.ones(2, 2),
            "center_labels": torch.tensor([0, 1])}
    with pytest.raises(LabError) as error:
        covering_radius(**{**good, **arguments})
    assert error.value.argument == named
    if named in ("embeddings", "labels"):
        with pytest.raises(LabError):
            covering_curve(*({**good, **arguments}[name] for name in ("embeddings", "labels")))


def test_a_class_without_centres_is_named():
    with pytest.raises(LabError, match="none for class 7"):
        covering_radius(torch.ones(2, 2), torch.tensor([0, 7]), torch.ones(1, 2), torch.tensor([0]))


# ---------------------------------------------------------------- mean of the curves


def test_mean_curve_of_classes_of_different_size():
    """Curves 2, 2, 1, 1, 0 (five on a line) and 3, 0 (two points, 3 apart): the small class counts as covered from k = 2 on."""
    embeddings = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [0.0], [3.0]])
    result = mean_covering_curve(embeddings, torch.tensor([7, 7, 7, 7, 7, -1, -1]))
    assert result.radii.tolist() == [2.5, 1, 0.5, 0.5, 0]
    assert result.classes.tolist() == [-1, 7]
    assert result.per_class.tolist() == pytest.approx([1.5, 1.2])
    assert result.mean == pytest.approx(1.35)


@given(labelled_grid)
@settings(max_examples=60, deadline=None)
def test_mean_curve_equals_the_definition(rows):
    points, labels = split(rows)
    result = mean_covering_curve(points, labels)
    curves = curve(points.tolist(), labels.tolist())
    longest = max(map(len, curves))
    expected = [sum(c[k] if k < len(c) else 0.0 for c in curves) / len(curves) for k in range(longest)]
    assert result.radii.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert result.mean == pytest.approx(sum(sum(c) / len(c) for c in curves) / len(curves), rel=1e-5, abs=1e-6)
    assert result.classes.tolist() == sorted(set(labels.tolist()))


def test_mean_curve_refuses_what_the_curves_refuse():
    with pytest.raises(LabError, match="labels"):
        mean_covering_curve(torch.ones(3, 2), torch.zeros(2, dtype=torch.int64))
