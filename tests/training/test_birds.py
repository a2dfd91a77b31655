"""The recorded runs on bird photographs: rows, tuning, and what of a run is kept."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labkit.datasets.roots import recorded_folder
from labkit.training import Experiment, Problem, Recording, load_results
from labkit.training.recorded_sample import recorded_sides
from labkit.training.results import results_folder

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import birds

sys.path.remove(str(NOTEBOOKS))
SHIPPED = sorted(recorded_folder("recordings").glob("cub-lite0-*.npz"))


def test_all_rows_have_one_budget_and_their_own_key():
    rows = list(birds.rows())
    assert len({json.dumps(key) for key, _ in rows}) == len(rows) == 26
    trained = [e for key, e in rows if key["row"] != "pretrained"]
    assert len({(e.steps, e.evaluate_every, e.sample_size) for e in trained}) == 1
    assert len({e.data.classes_per_batch * e.data.samples_per_class for e in trained}) == 1
    assert {e.network for _, e in rows} == {rows[0][1].network} and {e.photos for _, e in rows} == {rows[0][1].photos}


def test_each_trained_row_is_tuned_alike_at_a_seed_of_its_own():
    tuned = list(birds.tune())
    by_row = {row: [e for key, e in tuned if key["row"] == row] for row in (*birds.PAIRED[1:], *birds.OTHERS)}
    assert sum(map(len, by_row.values())) == len(tuned)
    for candidates in by_row.values():
        assert [e.optimizer.learning_rate for e in candidates] == list(birds.RATES)
        assert {e.seed for e in candidates} == {birds.TUNING_SEED}
        assert all(e.optimizer.learning_rate * e.optimizer.proxy_multiplier == pytest.approx(2e-3) for e in candidates)
    assert birds.TUNING_SEED not in birds.SEEDS


def run(problem_ends, chosen, steps=(0, 10, 20, 30, 40)):
    """A recording whose embeddings say which snapshot they are."""
    embeddings = np.stack([np.full((4, 3), float(step)) for step in steps])
    problems, start = [], 0
    for index, end in enumerate(problem_ends):
        problems.append(Problem(index, start, end, steps.index(end), end, 0.5, np.ones((2, 1, 3)), np.ones((2, 1, 3))))
        start = end
    return Recording(
        {"name": "cub-lite0-x", "seed": 0}, np.array(steps), embeddings, np.array([0, 0, 1, 1]), np.ones((len(steps), 2, 1, 3)),
        metrics={"step": np.array(steps, dtype=float)}, problems=problems, final={"chosen_step": float(chosen)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "chosen", "kept"),
    [((40,), 20, [0, 20, 40]), ((20, 40), 20, [0, 20, 40]), ((10, 30, 40), 0, [0, 10, 30, 40]), ((40,), 40, [0, 40])],
)
def test_the_kept_snapshots_are_start_problem_ends_and_the_chosen_one(ends, chosen, kept):
    short = birds.shorten(run(ends, chosen))
    assert short.steps.tolist() == kept == short.embeddings[:, 0, 0].tolist() and short.proxies is None
    assert [short.steps[p.snapshot] for p in short.problems] == list(ends)
    assert short.problems[0].proxies is not None and len(short.metrics["step"]) == 5


def test_runs_of_other_seeds_are_shorter_still():
    whole = run((20, 40), 20)
    whole = replace(whole, embeddings=whole.embeddings + 1 / 2048)
    other = birds.shorten(replace(whole, experiment={**whole.experiment, "seed": 1}))
    assert other.problems[0].proxies is None and (other.embeddings * 1024 % 1 == 0).all()
    assert birds.shorten(whole).problems[0].proxies is not None and (birds.shorten(whole).embeddings[0] == 1 / 2048).all()


def test_recordings_of_digits_are_left_as_they_are():
    recording = run((40,), 20)
    recording.experiment["name"] = "mnist-2d-c2"
    assert birds.shorten(recording) is recording


@pytest.mark.parametrize("name", [n for n in ("cub_tune", "cub") if (results_folder() / f"{n}.json").is_file()])
def test_the_checkout_holds_rows_that_are_asked_for(name):
    found = json.loads((results_folder() / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    asked = list(birds.tune() if name == "cub_tune" else birds.rows())
    assert found and all((row["key"], Experiment.from_dict(row["experiment"])) in asked for row in found)
    assert load_results(name)["map_at_r"].between(0.2, 0.9).all()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_run_is_small_and_shows_test_pictures_without_photographs(path):
    recording = Recording.load(path)
    sides = recorded_sides(recording)
    assert len(sides.test) == 1000 and len(sides.train) == 500 and recording.thumbnails is None
    assert path.stat().st_size <= 2_000_000 and recording.steps[0] == 0
    assert recording.final["chosen_step"] in recording.steps


def test_shipped_runs_are_small_together():
    assert sum(path.stat().st_size for path in SHIPPED) <= 25_000_000
