"""The chosen settings are those that the recorded tuning runs, scored on held-out pictures, put first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labkit.training import Experiment
from labkit.training.presets_losses import CANDIDATES, CHOSEN, RATES, candidate
from labkit.training.registry import LOSSES

TUNING = json.loads((Path(__file__).parents[2] / "data" / "results" / "tune.json").read_text())["rows"]


def test_every_loss_had_the_same_budget():
    counts = {(task, loss): 0 for task in CANDIDATES for loss in LOSSES}
    for row in TUNING:
        counts[row["key"]["task"], row["key"]["loss"]] += 1
    assert set(counts.values()) == {2 * len(RATES)}
    steps = {(row["key"]["task"], row["experiment"]["steps"]) for row in TUNING}
    assert len(steps) == 2


@pytest.mark.parametrize("task", CANDIDATES)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_best_on_held_out_pictures_was_chosen(task, loss):
    rows = [row for row in TUNING if (row["key"]["task"], row["key"]["loss"]) == (task, loss)]
    best = max(rows, key=lambda row: row["figures"]["held_out_map_at_r"])["key"]
    assert (best["which"], best["rate"]) == CHOSEN[task][loss]


def test_the_recorded_runs_are_those_of_the_candidates():
    for row in TUNING:
        key = row["key"]
        mine = candidate(key["task"], key["loss"], key["which"], key["rate"]).replace(seed=key["seed"])
        assert Experiment.from_dict(row["experiment"]) == mine


def test_presets_take_what_was_chosen():
    for task, losses in CHOSEN.items():
        for loss, (which, rate) in losses.items():
            experiment = Experiment.preset(f"mnist-{task}-{loss.replace('_', '-')}")
            assert experiment.optimizer.learning_rate == rate
            assert experiment.loss.options == CANDIDATES[task][loss][which]
