"""A long run's recording stays within its room, and is the same however the run was interrupted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.training import Recording, Trainer
from labkit.training.recorder import Recorder
from tests.recordings import same
from tests.training.conftest import tiny


def recorder(room: int | None, scores: list[float]) -> Recorder:
    """One snapshot of 8 numbers (16 bytes) and one evaluation a score; a problem ends at the sixth."""
    made = Recorder()
    made.room = room
    for step, score in enumerate(scores):
        made.snapshot(step, torch.full((4, 2), float(step)), None)
        made.evaluation({"step": step, "map_at_r": score, "problem": float(step > 5)})
        if step == 5:
            made.close_problem(None, None)
    return made


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([(1, 3), (2, 2), (30, 2), (20, 128)]),
    st.floats(-40, 30),
    st.one_of(st.just(0.0), st.floats(-8, 8)),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_a_snapshot_moves_no_sample_by_more_than_a_thousandth_of_their_spread(seed, shape, size, ratio, dtype):
    """Heaps of all sizes, 10**size, at all places, 10**ratio sizes from 0."""
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    points = (10.0**size * (noise + (10.0**ratio if ratio else 0.0))).to(dtype).float()
    made = Recorder()
    made.snapshot(0, points.to(dtype), None)
    (kept,) = made.embeddings
    exact = points.double()
    spread = (exact - exact.mean(0)).square().sum(1).mean().sqrt()
    assert (kept.double() - exact).norm(dim=1).max() <= 1e-3 * spread
    made.snapshot(1, kept, None)
    assert made.embeddings[1].dtype == kept.dtype and torch.equal(made.embeddings[1], kept)
    assert kept.dtype == torch.float16 or torch.equal(kept, points)


@pytest.mark.parametrize(("points", "kind"), [(lambda x: x, torch.float16), (lambda x: 0.5 + 1e-4 * x, torch.float32)])
def test_only_a_heap_is_kept_in_single_precision(points, kind):
    made = Recorder()
    made.snapshot(0, points(torch.randn(200, 2, generator=torch.Generator().manual_seed(0))), None)
    assert made.embeddings[0].dtype == kind


def test_a_run_s_recording_is_what_its_file_gives(digits, tmp_path):
    recording = Trainer(tiny(steps=5), splits=digits).run(progress=False)
    same(recording, Recording.load(recording.save(tmp_path / "r.npz")))


def test_snapshots_within_their_room_all_stay():
    assert recorder(16 * 20, [0.0] * 20).steps == list(range(20))
    assert recorder(None, [0.0] * 400).steps == list(range(400))


def test_what_something_refers_to_stays_and_the_rest_thins_to_its_room():
    scores = [0.0] * 40
    scores[3], scores[13] = 0.5, 0.9  # the best of either problem, at odd places
    made = recorder(16 * 16, scores)
    assert len(made.steps) <= 16 and made.steps == sorted(set(made.steps))
    assert {0, 3, 5, 13, 39} <= set(made.steps)
    assert [float(e[0, 0]) for e in made.embeddings] == made.steps
    (problem,) = made.problems
    assert made.steps[problem["snapshot"]] == problem["end"] == 5
    assert made.metrics["step"] == list(range(40))


def test_a_thinned_run_is_the_same_after_an_interruption(digits, tmp_path):
    experiment = tiny()

    def begin(**where):
        trainer = Trainer(experiment, splits=digits, **where)
        trainer.recorder.room = 3 * trainer.sample.labels.numel() * 2 * 2  # less than the snapshots of a run
        return trainer

    whole = begin()
    recording = whole.run(progress=False)
    plain = Trainer(experiment, splits=digits).run(progress=False)
    assert len(recording.steps) < len(plain.steps)
    np.testing.assert_array_equal(recording.metrics["map_at_r"], plain.metrics["map_at_r"])
    kept = np.flatnonzero(np.isin(plain.steps, recording.steps))
    np.testing.assert_array_equal(recording.embeddings, plain.embeddings[kept])
    np.testing.assert_array_equal(recording.proxies, plain.proxies[kept])
    assert [recording.steps[p.snapshot] for p in recording.problems] == [p.end for p in recording.problems]

    first = begin(directory=tmp_path / "run")
    first.step(experiment.steps // 2)
    again = begin(directory=tmp_path / "run", resume=True)
    same(recording, again.run(progress=False))
