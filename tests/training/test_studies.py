"""The recorded studies: every row can be trained, and what the checkout holds are the rows that are asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from labkit.panels.playground_presets import live_experiment
from labkit.training import Experiment, Recording, load_results
from labkit.training.results import results_folder
from labkit.training.shipped import shipped_folder

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import studies

sys.path.remove(str(NOTEBOOKS))
NAMES = ("rll", "soft_triple", "proxy_gml")


def rows(name):
    return list(getattr(studies, name)())


@pytest.mark.parametrize("name", NAMES)
def test_each_row_has_a_key_of_its_own_and_every_seed(name):
    keys = [key for key, _ in rows(name)]
    assert len({json.dumps(key) for key in keys}) == len(keys)
    without = [json.dumps({k: v for k, v in key.items() if k != "seed"}) for key in keys]
    assert all(without.count(each) == 3 for each in without)


@pytest.mark.parametrize("name", NAMES)
def test_one_setting_varies_at_a_time(name):
    """The value that all share is one and the same experiment under every setting."""
    shared = {"rll": ("temperature", 10.0, "margin", 0.4), "soft_triple": ("tau", 0.0, "gamma", 0.1)}
    first, a, second, b = shared.get(name, ("proxies", 12, "ratio", 0.4))
    found = {(key["varied"], key["value"]): experiment for key, experiment in rows(name) if key["seed"] == 1}
    assert found[first, a] == found[second, b]
    assert sum(experiment == found[first, a] for experiment in found.values()) >= 2


def quick(experiment):
    """The same in a few steps on small pictures."""
    return experiment.replace(steps=2, evaluate_every=2, sample_size=60, **{"data.source": "digits-8x8"})


KINDS = [
    ("rll", {"varied": "levels", "value": "low+middle+high"}),
    *(("rll", {"varied": "peer", "value": peer, "rate": 0.003}) for peer in studies.PEERS),
    ("soft_triple", {"varied": "printed", "value": "SOP, 1/γ"}),
    ("soft_triple", {"varied": "modes", "value": 10, "width": 2}),
    ("proxy_gml", {"varied": "proxies", "value": 1}),
]


@pytest.mark.parametrize(("name", "wanted"), KINDS, ids=lambda part: part if isinstance(part, str) else part["value"])
def test_unusual_rows_train(name, wanted):
    experiment = next(e for key, e in rows(name) if key == {**wanted, "seed": 0})
    trainer = studies.trainer(quick(experiment))
    recording = trainer.run(progress=False)
    figures = studies.more_figures(trainer, recording)
    assert 0 < recording.final["map_at_r"] <= 1
    assert ("MinedLoss" in str(recording.events)) == (wanted["varied"] == "peer")
    assert ("distinct_centers" in figures) == (name != "rll")
    if wanted["varied"] == "modes":
        assert recording.class_names == ["0/1", "2/3", "4/5", "6/7", "8/9"]
        assert 0 < figures["digit_map_at_r"] < 1


@pytest.mark.parametrize("name", [n for n in NAMES if (results_folder() / f"{n}.json").is_file()])
def test_the_checkout_holds_the_rows_that_are_asked_for(name):
    found = json.loads((results_folder() / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["key"], Experiment.from_dict(row["experiment"])) for row in found] == rows(name)
    assert load_results(name)["map_at_r"].between(0.1, 1).all()
    assert all("MNIST (mnist), 70,000" in row["data"] for row in found)


def test_branches_differ_in_the_places_of_the_proxies_alone(monkeypatch):
    """In a short run on small pictures: what each branch says of its proxies, re-computed from the others'."""
    small = quick(live_experiment("collapse")).replace(steps=100, evaluate_every=10)
    monkeypatch.setattr(studies, "live_experiment", lambda preset, seed: small.replace(seed=seed))
    monkeypatch.setattr(studies, "BRANCH_AT", 20)
    monkeypatch.setattr(studies, "BRANCH_LOOKS", (20, 30))
    found = {row["key"]["branch"]: row["figures"] for row in studies.branches(3)}
    alone, pressed, onto, point, back = (found[branch] for branch in studies.BRANCHES)
    assert len({one["map_at_r_20"] for one in found.values()}) == 1 < len({one["map_at_r_30"] for one in found.values()})
    assert (onto["spread"], onto["between"]) == (alone["spread"], alone["between"])
    assert (back["spread"], back["between"]) == (pressed["spread"], pressed["between"])
    assert point["spread"] == 0 < point["between"] == pressed["between"] and point["proxy_spread_30"] < 1e-6
    assert pressed["away"] < alone["away"] and onto["away"] < back["away"]


def test_what_proxies_are_like_seen_from_the_samples():
    samples, labels = torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
    beside = torch.tensor([[[1.0, 0.0], [1.0, 0.2]], [[-1.0, 0.0], [-1.0, 0.2]]])  # a class on each side
    found = studies.layout(beside, samples, labels)
    assert (found["spread"], found["between"]) == pytest.approx((0.2, 2.0))
    assert found["away"] == pytest.approx((1 + 1.04**0.5) / 2, abs=1e-4) and found["same_way"] < -0.9
    assert studies.layout(beside + torch.tensor([100.0, 0.0]), samples, labels)["same_way"] > 0.999


def test_the_recorded_branches_are_the_shipped_run_and_its_alternatives():
    found = json.loads((results_folder() / "branches.json").read_text(encoding="utf-8"))["rows"]
    seeds = sorted({row["key"]["seed"] for row in found})
    assert 1 in seeds and [row["key"]["branch"] for row in found] == list(studies.BRANCHES) * len(seeds)
    assert all(Experiment.from_dict(r["experiment"]) == live_experiment("collapse", seed=r["key"]["seed"]) for r in found)
    table = load_results("branches").set_index(["branch", "seed"])
    for branch, way in (("left alone", "alone"), ("Next problem", "respread")):
        metrics = Recording.load(shipped_folder() / "live" / f"collapse-{way}-seed1.npz").metrics
        for step in studies.BRANCH_LOOKS:
            recorded = metrics["map_at_r"][metrics["step"] == step][0]
            assert table.loc[branch, 1][f"map_at_r_{step}"] == pytest.approx(recorded, abs=1e-5)
