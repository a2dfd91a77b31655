"""Experiments: validated, frozen, and the same after a trip through JSON."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.training import Experiment
from labkit.training.sections import Loss, Optimizer


@pytest.mark.parametrize("name", Experiment.presets())
def test_every_preset_builds_and_survives_json(name):
    experiment = Experiment.preset(name)
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert experiment.name == name


def test_presets_cover_each_method_and_each_pair_loss():
    found = {(Experiment.preset(n).method, Experiment.preset(n).loss.name) for n in Experiment.presets()}
    wanted = {(m, loss) for m in ("ccp", "proxy", "samples") for loss in ("c1", "c2", "triplet", "ms")}
    assert wanted <= found


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Experiment().seed = 3


@pytest.mark.parametrize("name", ["mnist-2d-ccp", "mnist-2d-c2", "cub-c2"])
def test_options_that_are_changed_afterwards_change_no_other_experiment(name):
    before = Experiment.preset(name).to_dict()
    Experiment.preset(name).loss.options["neg_margin"] = 0.123
    assert Experiment.preset(name).to_dict() == before
    mine = {"neg_margin": 0.6}
    experiment = Experiment(loss=Loss("c2", mine))
    mine["neg_margin"] = 0.123
    assert experiment.loss.options == {"neg_margin": 0.6}


def test_a_section_given_as_a_dictionary_is_that_dictionary_and_defaults():
    changed = Experiment.preset("poc-ccp").replace(optimizer={"weight_decay": 0.0})
    assert changed.optimizer == Optimizer(weight_decay=0.0) != Experiment.preset("poc-ccp").optimizer


def test_changes_reach_sections_and_loss_options():
    changed = Experiment().replace(
        seed=4, **{"optimizer.learning_rate": 1e-3, "projections.patience": 7, "loss.options.neg_margin": 0.7}
    )
    assert (changed.seed, changed.optimizer.learning_rate, changed.projections.patience) == (4, 1e-3, 7)
    assert changed.loss.options["neg_margin"] == 0.7
    assert changed.replace(**{"loss.options.pos_margin": 0.1}).loss.options["neg_margin"] == 0.7


@given(
    st.integers(0, 2**31 - 1), st.integers(1, 10**6), st.floats(1e-9, 10), st.sampled_from(["k_center", "random"])
)
def test_json_keeps_every_value(seed, steps, rate, selection):
    experiment = Experiment().replace(
        seed=seed, steps=steps, **{"optimizer.learning_rate": rate, "projections.selection": selection}
    )
    assert Experiment.from_json(experiment.to_json()) == experiment


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"projections.projection_weight": -1.0}, "projections.projection_weight: expected a finite number in"),
        ({"projections.pool_size": 0}, "projections.pool_size"),
        ({"projections.pool_size": 2}, "at least proxies_per_class = 4"),
        ({"projections.patiense": 3}, "Did you mean 'projections.patience'"),
        ({"sed": 3}, "Did you mean 'seed'"),
        ({"loss.options.neg_margn": 0.5}, "Did you mean 'loss.options.neg_margin'"),
        ({"loss.name": "c3"}, "loss.name: expected one of"),
        ({"steps": 0}, "steps"),
        ({"steps": "many"}, "steps: expected a value of type int; got 'many'"),
        ({"steps": 1.5}, "steps: expected a value of type int"),
        ({"seed": True}, "seed"),
        ({"optimizer.learning_rate": float("nan")}, "optimizer.learning_rate"),
        ({"seed.x": 1}, "since it has no parts"),
        ({"network": "small"}, "network"),
        ({"loss.options.neg_margin": "abc"}, "neg_margin: expected a number; got 'abc'"),
        ({"loss.options.neg_margin": -1}, "neg_margin"),
        ({"loss.options.neg_margin": [1]}, "loss.options.neg_margin: expected a number, a word"),
        ({"loss.options.normalize": "l3"}, "normalize"),
        ({"loss.options.anchor": "prxy"}, "Did you mean 'proxy'"),
        ({"loss": 5, "loss.options.neg_margin": 1}, "loss: expected a section"),
        ({"loss.options": 5, "loss.options.neg_margin": 1}, "loss.options"),
        ({"network.embedding_size": 10**11}, "network.embedding_size"),
        ({"projections.pool_size": 10**11}, "projections.pool_size"),
        ({"optimizer.learning_rate": 1e300}, "optimizer.learning_rate"),
        ({"network": {"nome": "small"}}, "Did you mean 'network.name'"),
    ],
)
def test_bad_settings_are_named_with_the_nearest_right_one(changes, message):
    with pytest.raises(LabError, match=message):
        Experiment().replace(**changes)


def test_unknown_presets_and_broken_json_are_named():
    with pytest.raises(LabError, match="Did you mean 'mnist-2d-ccp'"):
        Experiment.preset("mnist-2d-cpp")
    with pytest.raises(LabError, match="JSON as to_json writes it"):
        Experiment.from_json("{")
    for name in (["poc-ccp"], None, {}):
        with pytest.raises(LabError, match="preset: expected one of"):
            Experiment.preset(name)
    for text in (b"\xff\xfe", "[" * 100_000, None, 5):
        with pytest.raises(LabError, match="JSON as to_json writes it"):
            Experiment.from_json(text)
    for settings in ([], {1: 2}):
        with pytest.raises(LabError, match="a dictionary of settings by name"):
            Experiment.from_dict(settings)
    assert hash(Experiment()) == hash(Experiment())
    with pytest.raises(LabError, match="a JSON object"):
        Experiment.from_json("[1]")
