"""The animation: every frame is one snapshot, and problems are marked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots import animation, embedding_map, problem_gallery
from labkit.training.recording import Recording
from tests.plots.recordings import make_recording


def test_every_frame_holds_the_positions_of_its_snapshot(ccp: Recording) -> None:
    fig = animation(ccp)
    assert len(fig.frames) == len(ccp.steps)
    for at, frame in enumerate(fig.frames):
        for c in range(10):
            drawn = np.stack([frame.data[c].x, frame.data[c].y], axis=1)
            assert np.allclose(drawn, ccp.embeddings[at][ccp.labels == c], atol=5.1e-4)
        squares = np.stack([frame.data[10].x, frame.data[10].y], axis=1)
        assert np.allclose(squares, ccp.proxies[at].reshape(-1, 2), atol=5.1e-4)


def test_rings_are_there_only_where_a_problem_closes(ccp: Recording) -> None:
    closing = {p.snapshot: p.next_proxies for p in ccp.problems if p.next_proxies is not None}
    assert len(closing) == 3
    for at, frame in enumerate(animation(ccp).frames):
        rings = np.stack([frame.data[11].x, frame.data[11].y], axis=1)
        if at in closing:
            assert np.allclose(rings, closing[at].reshape(-1, 2), atol=5.1e-4)
        else:
            assert np.isnan(rings).all() and len(rings) == 40


def test_classes_that_were_never_trained_on_have_no_squares(ccp: Recording) -> None:
    """Six classes have proxies; the recorded samples are of all ten."""
    following = [None if p.next_proxies is None else p.next_proxies[:6] for p in ccp.problems]
    problems = [replace(p, proxies=p.proxies[:6], next_proxies=f) for p, f in zip(ccp.problems, following, strict=True)]
    disjoint = replace(ccp, proxies=ccp.proxies[:, :6], problems=problems)
    fig, whole = animation(disjoint), animation(ccp)
    for at, frame in enumerate(fig.frames):
        squares = np.stack([frame.data[10].x, frame.data[10].y], axis=1).reshape(10, 4, 2)
        assert np.allclose(squares[:6], ccp.proxies[at][:6], atol=5.1e-4) and np.isnan(squares[6:]).all()
        assert np.array_equal(frame.data[9].x, whole.frames[at].data[9].x), "samples are drawn as ever"
    assert np.isfinite(fig.layout.xaxis.range).all()
    assert len(problem_gallery(disjoint).data) == len(problem_gallery(ccp).data)


def test_frames_carry_positions_and_nothing_else(ccp: Recording) -> None:
    for trace in animation(ccp).frames[3].data:
        assert set(trace.to_plotly_json()) == {"type", "x", "y"}


def test_the_scrubber_names_problem_step_and_score(ccp: Recording) -> None:
    fig = animation(ccp)
    steps = fig.layout.sliders[0].steps
    assert steps[0].label == "problem 1, step 0, MAP@R 0.600"
    assert steps[4].label == "problem 1, step 400, MAP@R 0.688"  # the step at which a problem ends is its own
    assert steps[5].label.startswith("problem 2, step 500")
    assert [s.args[0][0] for s in steps] == [frame.name for frame in fig.frames]
    assert [a.text for a in fig.layout.annotations] == [f"{i}▾" for i in (1, 2, 3, 4)]


def test_the_figure_stands_at_any_recorded_step_and_the_scrubber_with_it(ccp: Recording) -> None:
    first, fig = animation(ccp), animation(ccp, at=400)
    assert first.layout.sliders[0].active == 0 and np.array_equal(first.data[3].x, first.frames[0].data[3].x)
    place = list(ccp.steps).index(400)
    assert fig.layout.sliders[0].active == place > 0
    for trace, moved in zip(fig.data, fig.frames[place].data, strict=True):
        assert np.array_equal(trace.x, moved.x, equal_nan=True) and np.array_equal(trace.y, moved.y, equal_nan=True)
    assert not np.array_equal(fig.data[3].x, fig.frames[0].data[3].x)
    assert len(fig.frames) == len(first.frames) and fig.data[3].name == first.data[3].name
    assert fig.layout.xaxis.range == first.layout.xaxis.range, "the axes are the whole film's"


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (410, "at: expected a recorded step, from 0 to 1600; got 410. The nearest is 400."),
        (-1, "at: expected a whole number in"),
        (400.0, "at: expected a whole number.*Write 400"),
        (True, "at: expected a whole number"),
        ("400", "at: expected a whole number"),
    ],
)
def test_a_step_that_was_not_recorded_is_refused(at: Any, message: str, ccp: Recording) -> None:
    with pytest.raises(LabError, match=message):
        animation(ccp, at=at)


def test_only_marks_that_the_film_has_are_explained(ccp: Recording) -> None:
    def told(recording: Recording) -> str:
        return str(animation(recording).layout.meta["subtitle"])

    assert told(ccp).startswith("squares are proxies; n▾") and "rings" in told(ccp)
    last = [replace(p, next_proxies=None) for p in ccp.problems]
    assert "rings" not in told(replace(ccp, problems=last)) and "n▾" in told(replace(ccp, problems=last))
    assert told(replace(ccp, problems=[])) == "squares are proxies"
    assert told(replace(ccp, proxies=None, problems=[])) == ""


def test_a_full_recording_stays_small() -> None:
    recording = make_recording(4, per_class=300, snapshots=50)
    assert len(animation(recording, thumbnails=False).to_json()) < 3_200_000
    assert len(animation(recording, sample=600, thumbnails=False).to_json()) < 900_000


def test_a_run_without_proxies_or_problems_plays(ccp: Recording) -> None:
    bare = replace(ccp, proxies=None, problems=[], metrics={}, thumbnails=None)
    fig = animation(bare)
    assert len(fig.frames) == len(ccp.steps)
    assert fig.layout.sliders[0].steps[2].label == "problem 1, step 200"
    assert "Not evaluated yet" in fig.layout.title.text


def test_one_snapshot_is_enough(ccp: Recording) -> None:
    first = replace(ccp, steps=ccp.steps[:1], embeddings=ccp.embeddings[:1], proxies=ccp.proxies[:1], problems=[])
    assert len(animation(first).frames) == 1


def test_all_frames_of_many_dimensions_share_one_plane() -> None:
    recording = make_recording(2, dimensions=5)
    fig = animation(recording)
    last = embedding_map(recording.embeddings[-1], recording.labels)
    assert np.allclose(fig.frames[-1].data[3].x, last.data[3].x, atol=1e-3)
    # Were the plane another one per frame, no single affine map would fit both.
    a, b = recording.embeddings[0], recording.embeddings[-1]
    xy = [np.zeros((len(a), 2)), np.zeros((len(a), 2))]
    for part, frame in zip(xy, (fig.frames[0], fig.frames[-1]), strict=True):
        for c in range(10):
            part[recording.labels == c] = np.stack([frame.data[c].x, frame.data[c].y], axis=1)
    stacked, drawn = np.concatenate([a, b]), np.concatenate(xy)
    design = np.c_[stacked, np.ones(len(stacked))]
    solution = np.linalg.lstsq(design, drawn, rcond=None)[0]
    assert np.abs(design @ solution - drawn).max() < 2e-3


def test_arrays_that_disagree_are_refused(ccp: Recording) -> None:
    with pytest.raises(LabError, match=r"recording: expected .* got steps of shape \(16,\) where \(17,\)"):
        animation(replace(ccp, steps=ccp.steps[:-1]))
    with pytest.raises(LabError, match="recording: expected .* got labels of shape"):
        animation(replace(ccp, labels=ccp.labels[:-1]))


@pytest.mark.parametrize("recording", [{}, None, {"a": 1}, "run.npz"])
@pytest.mark.parametrize("draw", [animation, problem_gallery])
def test_what_is_no_recording_is_refused(draw: Any, recording: Any) -> None:
    with pytest.raises(LabError, match="recording: expected a Recording"):
        draw(recording)


@pytest.mark.parametrize(
    ("draw", "change"),
    [
        (animation, {"width": -620}),
        (animation, {"sample": -3}),
        (animation, {"milliseconds": -1}),
        (problem_gallery, {"width": -330}),
        (problem_gallery, {"sample": 0}),
        (problem_gallery, {"most": 0}),
        (problem_gallery, {"columns": 1.5}),
        (problem_gallery, {"columns": -1}),
    ],
)
def test_settings_out_of_their_range_are_refused(draw: Any, change: dict[str, Any], ccp: Recording) -> None:
    with pytest.raises(LabError, match=f"{next(iter(change))}: expected"):
        draw(ccp, **change)


def test_a_few_samples_of_many_classes_still_show_each_class() -> None:
    """Its number has to be placed somewhere."""
    fig = animation(make_recording(1, classes=30, snapshots=3), sample=10)
    assert all(len(trace.x) == 1 for trace in fig.data[:30])
