"""Code that repeats a run: it is run here, and gives the run again."""

import pytest

from labkit.losses import ContrastiveLoss
from labkit.training import Experiment, Trainer
from labkit.training.as_code import as_code
from labkit.training.controls import change
from tests.recordings import same
from tests.training.conftest import tiny


def run(code, **names):
    exec(code, names)  # noqa: S102 - that it runs is what is tested
    return names


@pytest.mark.parametrize("name", Experiment.presets())
def test_the_code_of_every_preset_makes_that_experiment(name):
    experiment = Experiment.preset(name, seed=3)
    code = as_code(experiment, [], 0).replace("recording = replay", "unused = lambda *_, **__: None  # ")
    assert run(code)["experiment"] == experiment


def test_the_code_of_an_infinite_setting_makes_it_again():
    experiment = Experiment.preset("mnist-2d-soft-triple-proxy", **{"loss.options.gamma": float("inf")})
    assert run(as_code(experiment, [], 0).partition("recording =")[0])["experiment"] == experiment


def test_the_code_repeats_a_run_whose_controls_were_moved(digits):
    trainer = Trainer(tiny(seed=2), splits=digits)
    trainer.recording()
    trainer.step(7)
    change(trainer, "optimizer.learning_rate", 1e-3)
    change(trainer, "projections.selection", "random")
    trainer.step(8)
    begun = trainer.experiment.replace(**{"optimizer.learning_rate": 3e-3, "projections.selection": "k_center"})
    code = as_code(begun, trainer.recorder.events, 15)
    assert "seed=2" in code and code.count("'setting'") == 2
    same(run(code)["recording"], trainer.recording())


def test_a_loss_of_ones_own_is_named(digits):
    class Mine(ContrastiveLoss):
        pass

    trainer = Trainer(tiny(), splits=digits, loss=Mine(neg_margin=0.6))
    trainer.recording()
    trainer.step(6)
    code = as_code(trainer.experiment, trainer.recorder.events, 6, loss="Mine(neg_margin=0.6)")
    same(run(code, Mine=Mine)["recording"], trainer.recording())


def test_what_has_no_expression_is_to_be_filled_in(digits):
    trainer = Trainer(tiny(), splits=digits)
    trainer.step(6)
    code = as_code(trainer.experiment, [], 6, to_fill_in={"splits": "the digits"})
    assert "    splits=...,  # the digits\n" in code
    same(run(code.replace("...", "digits"), digits=digits)["recording"], trainer.recording())
