"""The recorded studies: every row can be trained, and what the checkout holds are the rows that are asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from labkit.training import Experiment, load_results
from labkit.training.results import results_folder

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
