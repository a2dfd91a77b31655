"""Maps of many classes from moment to moment, and who stands out in them."""

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import class_figures, inter_class_distance, mean_covering_curve, retrieval_metrics
from labkit.plots import problem_maps
from labkit.plots.moments import chosen_snapshot, moments_of
from labkit.plots.standing_out import SYMBOLS, choose_classes, looks
from tests.plots.recordings import make_recording


@pytest.fixture(scope="module")
def many():
    """(3, 120, 6) embeddings of twelve classes, 100 to 111, that draw together."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(100, 112), 10)
    centers = np.repeat(rng.normal(size=(12, 6)), 10, axis=0)
    noise = rng.normal(size=(120, 6))
    return np.stack([centers + width * noise for width in (1.0, 0.5, 0.2)]), labels


def markers(fig):
    return [t for t in fig.data if t.mode == "markers"]


def test_over_each_map_stand_the_figures_of_the_whole_embedding(many):
    x, y = many
    fig = problem_maps(x, y, ["before", "(a)", "(b.1) <i>"], method="pca")
    heads = [a.text for a in fig.layout.annotations]
    assert len(heads) == 3 and heads[2].startswith("<b>(b.1) &lt;i&gt;</b>")
    for head, at in zip(heads, x, strict=True):
        wanted = retrieval_metrics(at, y)["map_at_r"], mean_covering_curve(at, y).mean, inter_class_distance(at, y)
        assert head.endswith(f"MAP@R {wanted[0]:.3f}, curve {wanted[1]:.2f}, E‖x − x⁻‖ {wanted[2]:.2f}")
    assert "“before” to “(b.1)" in fig.layout.meta["title"]


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_every_sample_is_drawn_once_in_each_map(many, method):
    x, y = many
    fig = problem_maps(x, y, list("abc"), method=method, stand_out=[105, 111], class_names=[f"n{c}" for c in range(112)])
    drawn = markers(fig)
    assert [t.name for t in drawn] == ["other classes", "n105", "n111"] * 3
    assert sum(len(t.x) for t in drawn) == 3 * 120 and [len(t.x) for t in drawn[:3]] == [100, 10, 10]
    assert [t.showlegend for t in drawn] == [True] * 3 + [False] * 6
    looks_of = {(t.marker.color, t.marker.symbol) for t in drawn}
    assert len(looks_of) == 3
    ranges = {(fig.layout[f"xaxis{i}"].range, fig.layout[f"yaxis{i}"].range) for i in ("", "2", "3")}
    assert len(ranges) == 1  # one scale: a sample can be followed
    (left, right), (bottom, top) = ranges.pop()
    for trace in drawn:
        assert left < np.min(trace.x) and np.max(trace.x) < right and bottom < np.min(trace.y) and np.max(trace.y) < top


def test_fewer_samples_on_request(many):
    x, y = many
    fig = problem_maps(x, y, list("abc"), method="pca", sample=36, columns=2)
    assert sum(len(t.x) for t in markers(fig)) == 3 * 36


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": ["a"]}, "heads"), ({"heads": "abc"}, "heads"), ({"stand_out": [3]}, "stand_out"),
        ({"stand_out": list(range(100, 109))}, "at most 8"), ({"method": "lda"}, "method"), ({"columns": 0}, "columns"),
        ({"width": 3}, "width"), ({"labels": np.zeros(120, int)}, "two classes|retrieve"),
        ({"labels": np.zeros(7, int)}, "labels"),
    ],
)  # fmt: skip
def test_what_will_not_do_is_named(many, options, words):
    given = {"heads": list("abc"), "labels": many[1], "method": "pca"} | options
    with pytest.raises(LabError, match=words):
        problem_maps(many[0], given.pop("labels"), given.pop("heads"), **given)


def test_more_snapshots_than_a_layout_holds(many):
    with pytest.raises(LabError, match="at most 5"):
        problem_maps(np.repeat(many[0], 2, axis=0), many[1], list("abcdef"))


# ---------------------------------------------------------------- moments


def test_moments_are_the_start_the_problems_and_the_chosen_model():
    recording = make_recording(4)
    found = moments_of(recording, 9)
    assert [m.name for m in found] == ["before", *(f"end of problem {i}" for i in range(1, 5))]
    assert [m.step for m in found] == [0, *(p.end for p in recording.problems)]
    assert [m.chosen for m in found] == [False] * 5 and chosen_snapshot(recording) == len(recording.steps) - 1
    recording.final["chosen_step"] = recording.steps[6]
    assert chosen_snapshot(recording) == 6 and [m.snapshot for m in moments_of(recording) if m.chosen] == [6]
    assert [m.title for m in moments_of(recording, 9)][2] == f"chosen, step {recording.steps[6]:,}"
    recording.final["chosen_step"] = recording.problems[1].end
    assert [m.name for m in moments_of(recording, 9)][2] == "end of problem 2, chosen"


def test_few_moments_keep_the_ends_and_the_chosen_one():
    recording = make_recording(8)
    recording.final["chosen_step"] = recording.problems[1].end
    names = [m.name for m in moments_of(recording, 4)]
    assert len(names) == 4 and names[0] == "before" and names[-1] == "end of problem 8"
    assert names[1:3] == ["end of problem 1", "end of problem 2, chosen"]
    steps = [m.step for m in moments_of(recording, 4)]
    assert steps == sorted(set(steps))
    assert [m.name for m in moments_of(recording, 3)] == ["before", "end of problem 2, chosen", "end of problem 8"]
    evenly = [m.name for m in moments_of(recording, 5)]
    assert len(evenly) == 5 and evenly[3] in ("end of problem 4", "end of problem 5")
    recording.final["chosen_step"] = recording.problems[-1].end
    assert [m.name for m in moments_of(recording, 3)] == ["before", "end of problem 1", "end of problem 8, chosen"]


def test_a_problem_that_others_follow_is_counted_though_the_run_goes_on():
    recording = make_recording(4)
    recording.problems[1:] = []
    assert [m.name for m in moments_of(recording)] == ["before", "end of problem 1", "end"]


def test_a_run_of_one_problem_has_no_numbers():
    recording = make_recording(1)
    recording.experiment["method"] = "pairs"
    assert [m.name for m in moments_of(recording)] == ["before", "end"]
    with pytest.raises(LabError, match="most"):
        moments_of(recording, 2)


# ---------------------------------------------------------------- who stands out


def test_the_worst_stand_out_with_what_they_are_taken_for_then_the_best():
    # Each pair of classes on a line: 0 and 1 mixed, 2 and 3 less so, 4 to 11 apart.
    places = [0.0, 0.1, 10.0, 10.9, *range(40, 200, 20)]
    points = torch.tensor([[p + 0.2 * j] for p in places for j in range(5)], dtype=torch.float64)
    figures = class_figures(points, torch.arange(12).repeat_interleave(5))
    order = np.argsort(figures.map_at_r.numpy(), kind="stable")
    assert set(order[:4].tolist()) == {0, 1, 2, 3}
    assert set(choose_classes(figures, 8)[:4]) == {0, 1, 2, 3} and len(set(choose_classes(figures))) == 8
    assert choose_classes(figures, 1) == [int(order[0])]
    with pytest.raises(LabError, match="most"):
        choose_classes(figures, 9)


def test_looks_differ_in_colour_and_in_shape():
    found = looks(list(range(8)), np.arange(8), ["<b>a", "b"])
    assert len({s.color for s in found}) == len({s.symbol for s in found}) == len({s.dash for s in found}) == len(SYMBOLS) == 8
    assert [s.name for s in found][:3] == ["&lt;b&gt;a", "b", "2"]
    assert looks(None, np.arange(9), None) == [] and len(looks(None, np.arange(3), None)) == 3
