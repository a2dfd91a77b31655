"""Settings moved while a run goes on: what may move, what a refused value leaves behind, and exact repetition."""

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss
from labkit.training import Experiment, Trainer
from labkit.training.controls import acts, change, hot_options, next_problem, replay, value_of
from tests.recordings import same
from tests.training.conftest import tiny

MOVES = {
    "optimizer.learning_rate": 1e-4,
    "projections.projection_weight": 0.1,
    "projections.patience": 2,
    "projections.pool_size": 12,
    "projections.selection": "random",
    "loss.options.neg_margin": 0.8,
    "loss.options.pos_margin": 0.1,
}


def begun(digits, loss=None, **changes):
    trainer = Trainer(tiny(**changes), splits=digits, loss=loss)
    trainer.recording()
    return trainer


@pytest.mark.parametrize(("setting", "value"), MOVES.items())
def test_a_moved_control_is_in_force_and_on_record(digits, setting, value):
    trainer = begun(digits)
    trainer.step(7)
    assert value_of(trainer, setting) != value
    event = change(trainer, setting, value)
    assert value_of(trainer, setting) == value
    assert (event["step"], event["setting"], event["value"]) == (7, setting, value)
    assert trainer.recording().events[-1] == event
    assert change(trainer, setting, value) is None and len(trainer.recording().events) == 1


@pytest.mark.parametrize(("setting", "value"), MOVES.items())
def test_the_run_with_the_same_events_gives_the_same_recording(digits, setting, value):
    def run(moved):
        trainer = begun(digits, steps=40)
        trainer.step(13)
        if moved:
            change(trainer, setting, value)
        trainer.step(27)
        return trainer.recording()

    moved, plain = run(True), run(False)
    same(replay(Experiment.from_dict(moved.experiment), moved.events, 40, splits=digits), moved)
    # and the control does something: the recordings part after it, not before
    before = moved.steps <= 13
    np.testing.assert_array_equal(moved.embeddings[before], plain.embeddings[before])
    assert not np.array_equal(moved.embeddings[-1], plain.embeddings[-1])


def test_the_learning_rate_acts_at_the_next_step(digits):
    trainer = begun(digits, **{"optimizer.schedule": "constant", "optimizer.warmup_steps": 0})
    trainer.step(3)
    change(trainer, "optimizer.learning_rate", 1e-5)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(3e-3)
    trainer.step(1)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(1e-5)


def test_selection_and_pool_size_act_when_the_proxies_start_anew(digits, monkeypatch):
    trainer = begun(digits, steps=100)
    asked = []
    draw = trainer.pictures.pool
    monkeypatch.setattr(trainer.pictures, "pool", lambda size: asked.append(size) or draw(size))
    change(trainer, "projections.pool_size", 12)
    while not trainer.recorder.problems:
        assert asked == []
        trainer.step(1)
    assert asked == [12]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("projections.proxies_per_class", 2, "one that acts at once"),
        ("seed", 3, "one that acts at once"),
        ("optimizer.learning_rate", -1.0, r"optimizer.learning_rate: expected a finite number in \(0"),
        ("optimizer.learning_rate", float("nan"), "finite"),
        ("projections.pool_size", 2, "at least proxies_per_class = 4"),
        ("projections.selection", "farthest", "one of 'k_center', 'random'"),
        ("loss.options.neg_margin", -0.1, "neg_margin"),
        ("loss.options.neg_margin", "wide", "number"),
        ("loss.options.margin", 0.3, "Did you mean"),
        ("loss.options.normalize", "l2", "one of"),
    ],
)
def test_a_refused_value_changes_nothing(digits, setting, value, message):
    trainer = begun(digits)
    before = trainer.experiment, hot_options(trainer.loss), dict(vars(trainer.projections))
    with pytest.raises(LabError, match=message):
        change(trainer, setting, value)
    assert before == (trainer.experiment, hot_options(trainer.loss), dict(vars(trainer.projections)))
    assert trainer.recording().events == []


def test_what_only_the_built_loss_refuses_changes_nothing_either(digits):
    """A ratio that connects a sample to no other class: how many classes there are, the experiment does not know."""
    trainer = begun(digits, preset="mnist-2d-proxy-gml-proxy", **{"network.name": "small", "projections.pool_size": 16})
    before = trainer.experiment, hot_options(trainer.loss)
    with pytest.raises(LabError, match="ratio"):
        change(trainer, "loss.options.ratio", 0.05)
    assert (trainer.experiment, hot_options(trainer.loss)) == before
    assert trainer.recording().events == []


def test_what_a_method_does_not_have_is_named(digits):
    with pytest.raises(LabError, match="a method that ends problems"):
        change(Trainer(tiny("poc-proxy"), splits=digits), "projections.patience", 2)
    with pytest.raises(LabError, match="a method with proxies"):
        change(Trainer(tiny("poc-pairs"), splits=digits), "projections.projection_weight", 0.1)


def test_margins_of_a_loss_of_ones_own_move_too(digits):
    class Mine(ContrastiveLoss):
        def __init__(self):
            super().__init__(neg_margin=0.6)
            self.push = 1.0
            self._hidden = 2.0

    trainer = begun(digits, loss=Mine())
    assert hot_options(trainer.loss) == {"pos_margin": 0.0, "neg_margin": 0.6, "push": 1.0}
    change(trainer, "loss.options.push", 3)
    trainer.step(5)
    change(trainer, "loss.options.neg_margin", 0.7)
    trainer.step(10)
    assert trainer.loss.push == 3.0
    with pytest.raises(LabError, match="neg_margin"):
        change(trainer, "loss.options.neg_margin", -1.0)
    recording = trainer.recording()
    same(replay(Experiment.from_dict(recording.experiment), recording.events, 15, splits=digits, loss=Mine()), recording)


def test_whole_numbers_of_a_loss_that_decide_on_shapes_do_not_move():
    class Centres(torch.nn.Module):
        def __init__(self, centres=10, scale=20, margin=0.1):
            super().__init__()
            self.centres, self.scale, self.margin, self.on = centres, scale, margin, True

    assert hot_options(Centres()) == {"margin": 0.1}
    assert hot_options(ContrastiveLoss(pos_margin=0)) == {"pos_margin": 0.0, "neg_margin": 0.5}


def test_every_setting_says_when_it_acts():
    assert acts("projections.projection_weight") == "at the next step, from the second problem on"
    assert acts("loss.options.neg_margin") == "at the next step"


@pytest.mark.parametrize("at", [0, 3, 5, 12])
def test_the_next_problem_by_hand_is_repeated_exactly(digits, at):
    def run():
        trainer = Trainer(tiny("poc-proxy"), splits=digits)
        trainer.recording()
        trainer.step(at)
        ended = next_problem(trainer)
        trainer.step(14)
        return ended, trainer.recording()

    ended, recording = run()
    assert ended == (at > 0)
    assert [p.end for p in recording.problems] == ([at] if at else [])
    if at:
        problem = recording.problems[0]
        assert recording.steps[problem.snapshot] == at
        assert not np.allclose(recording.proxies[problem.snapshot], problem.next_proxies)
        assert (np.diff(recording.metrics["step"]) > 0).all()
    same(replay(Experiment.from_dict(recording.experiment), recording.events, at + 14, splits=digits), recording)


def test_the_next_problem_by_hand_is_as_if_patience_had_run_out(digits):
    """Ended by hand where patience would have ended it, a run is the same."""
    patient = Trainer(tiny(steps=200), splits=digits)
    patient.recording()
    while not patient.recorder.problems:
        patient.step(1)
    end = patient.steps_done
    patient.step(20)
    by_hand = Trainer(tiny(steps=200, **{"projections.patience": 50}), splits=digits)
    by_hand.recording()
    by_hand.step(end)
    assert next_problem(by_hand) and not next_problem(by_hand)
    by_hand.step(20)
    upto = patient.recording().steps <= end + 5
    np.testing.assert_array_equal(by_hand.recording().embeddings[: upto.sum()], patient.recording().embeddings[upto])
