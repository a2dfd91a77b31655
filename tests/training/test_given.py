"""What a trainer or a live session is given wrongly is told by name, and never ends the session's thread unseen."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from pytorch_metric_learning import losses
from torch import nn

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss
from labkit.training import Experiment, Trainer, way_back
from labkit.training.session import LiveSession
from tests.training.conftest import at_once, tiny


class Odd(nn.Module):
    """A loss that gives what `answer` makes of a loss and the embeddings."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
        return self.answer(embeddings.square().sum(), embeddings)


ANSWERS = {
    "nothing": lambda loss, x: None,
    "a float": lambda loss, x: 3.0,
    "a row": lambda loss, x: x.sum(dim=1),
    "one in a list": lambda loss, x: loss.view(1),
    "complex": lambda loss, x: torch.complex(loss, loss),
    "cut off": lambda loss, x: loss.detach(),
    "constant": lambda loss, x: torch.tensor(3),
}


@pytest.mark.parametrize("preset", ["mnist-2d-ccp", "mnist-2d-pairs"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_loss_that_gives_what_cannot_be_trained_with(answer, preset, digits):
    trainer = Trainer(tiny(preset), splits=digits, loss=Odd(ANSWERS[answer]))
    with pytest.raises(LabError, match="Odd: expected .*step 1"):
        trainer.step()
    session = LiveSession(tiny(preset), splits=digits, loss=Odd(ANSWERS[answer]), threaded=False)
    session.step()
    with pytest.raises(LabError, match="Odd: expected"):
        session.join()
    assert session.state == "failed"


@pytest.mark.parametrize("loss", [3, lambda x, y: x.sum(), ContrastiveLoss, nn.Module()])
def test_what_is_no_loss(loss, digits):
    with pytest.raises(LabError, match="loss: expected"):
        Trainer(tiny(), splits=digits, loss=loss)


@pytest.mark.parametrize("experiment", [None, 3, "mnist-2d-ccp", {}])
def test_what_is_no_experiment(experiment, digits):
    with pytest.raises(LabError, match="experiment: expected an Experiment"):
        Trainer(experiment, splits=digits)
    with pytest.raises(LabError, match="experiment: expected an Experiment"):
        LiveSession(experiment, threaded=False)
    if experiment is not None:
        with pytest.raises(LabError, match="experiment: expected an Experiment"):
            LiveSession(tiny(), threaded=False).reset(experiment)


def test_what_are_no_splits():
    with pytest.raises(LabError, match="splits: expected Splits"):
        Trainer(tiny(), splits=(1, 2))


def test_odd_arguments_of_a_session(digits):
    session = LiveSession(tiny(), splits=digits, threaded=False)
    for call, named in (
        (lambda: session.set(None, 1), "setting"),
        (lambda: session.set(3, 1), "setting"),
        (lambda: session.run_pending("3"), "steps"),
        (lambda: session.run_pending(1.5), "steps"),
        (lambda: session.stop("x"), "timeout"),
        (lambda: session.stop(float("nan")), "timeout"),
        (lambda: session.reset(build=3), "build"),
        (lambda: LiveSession(tiny(), build=3), "build"),
        (lambda: session.reset(build=lambda: 5), "build"),
        (lambda: LiveSession(tiny(), build=lambda: 5), "build"),
        (lambda: LiveSession(tiny(), build=lambda experiment, *, splits: 5), "build"),
        (lambda: LiveSession(tiny(), name=[]), "name"),
        (lambda: LiveSession(tiny(), splits=5), "splits"),
        (lambda: LiveSession(tiny(), loss=ContrastiveLoss), "loss"),
        (lambda: LiveSession(tiny(), threaded="no"), "threaded"),
        (lambda: session.join(-1), "timeout"),
        (lambda: session.join("x"), "timeout"),
        (lambda: session.settle("x"), "timeout"),
        (lambda: session.settle(float("nan")), "timeout"),
    ):
        with pytest.raises(LabError, match=f"{named}: expected"):
            call()
    session.reset(build=lambda experiment: None)
    with pytest.raises(LabError, match="build: expected"):
        session.join()


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_a_loss_that_ends_its_thread_fails_the_run(end, digits):
    def leave(loss, x):
        raise end

    with LiveSession(tiny(), splits=digits, loss=Odd(leave)) as session:
        session.step()
        assert session.settle(30)
        with pytest.raises(RuntimeError, match=end.__name__):
            session.join(30)
        assert session.state == "failed" and session.snapshot.can_go_back
        session.go_back()
        assert session.join(30).state == "paused"


def test_questions_and_stops_from_several_threads_all_return(digits):
    session = LiveSession(Experiment.preset("poc-ccp", **{**tiny().to_dict(), "steps": 4000}), splits=digits)
    session.prepare()

    def busy(turn: int) -> None:
        for at in range(12):
            (session.recording, lambda: session.stop(5), session.start)[(turn + at) % 3]()

    at_once([partial(busy, turn) for turn in range(4)])
    assert session.stop(30)


def two(embeddings, labels):
    return embeddings.square().sum()


def one(embeddings):
    return embeddings.square().sum()


def no_references(embeddings, labels, indices_tuple=None):
    return embeddings.square().sum()


def wants_more(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None, *, margin):
    return embeddings.square().sum()


def late(call):
    return type("Late", (nn.Module,), {"forward": staticmethod(call)})()


@pytest.mark.parametrize("call", [one, two, no_references, wants_more])
def test_a_loss_that_cannot_be_called_as_it_will_be_is_told_before_anything_is_trained(call, digits):
    with pytest.raises(LabError, match=r"Late: expected something to be called as Late\(embeddings, labels"):
        Trainer(tiny("mnist-2d-ccp"), splits=digits, loss=late(call))
    if call in (one, wants_more):
        with pytest.raises(LabError, match="Late: expected something to be called as"):
            Trainer(tiny("mnist-2d-pairs"), splits=digits, loss=late(call))
    else:
        Trainer(tiny("mnist-2d-pairs"), splits=digits, loss=late(call)).step()


def test_a_module_whose_super_was_never_called(digits):
    class Bare(nn.Module):
        def __init__(self):
            pass

        def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
            return embeddings.sum()

    with pytest.raises(LabError, match=r"loss: expected a module that has been set up.*super\(\).__init__\(\)"):
        Trainer(tiny(), splits=digits, loss=Bare())


@pytest.mark.parametrize("preset", ["mnist-2d-ccp", "mnist-2d-pairs"])
def test_a_loss_that_calls_backward_itself(preset, digits):
    def used_up(loss, x):
        loss.backward()
        return loss

    with pytest.raises(LabError, match="Odd: expected a loss on which nobody has called backward.*at step 1"):
        Trainer(tiny(preset), splits=digits, loss=Odd(used_up)).step()


@pytest.mark.parametrize("preset", ["mnist-2d-ccp", "mnist-2d-pairs"])
def test_a_loss_with_a_gradient_that_does_not_come_from_the_embeddings(preset, digits):
    free = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(LabError, match="Odd: expected a loss computed from the embeddings.*at step 1"):
        Trainer(tiny(preset), splits=digits, loss=Odd(lambda loss, x: free * 2)).step()


def test_a_loss_that_is_0_at_first_is_looked_at_when_it_is_not(digits):
    """No pair of a batch may be close enough: then a loss may well be a 0 that depends on nothing."""
    calls: list[int] = []

    def zero_at_first(loss, x, later):
        calls.append(1)
        return torch.zeros((), requires_grad=True) if len(calls) < 3 else later(loss)

    trainer = Trainer(tiny("mnist-2d-pairs"), splits=digits, loss=Odd(lambda loss, x: zero_at_first(loss, x, lambda loss: loss)))
    trainer.step(3)
    assert trainer.steps_done == 3
    calls.clear()
    cut = Odd(lambda loss, x: zero_at_first(loss, x, lambda loss: torch.ones((), requires_grad=True)))
    trainer = Trainer(tiny("mnist-2d-pairs"), splits=digits, loss=cut)
    trainer.step(2)
    with pytest.raises(LabError, match="Odd: expected a loss computed from the embeddings"):
        trainer.step()


def test_a_network_of_which_nothing_learns_is_asked_for_nothing(digits):
    """Then only the proxies learn, which is a run as well."""
    trainer = Trainer(tiny("mnist-2d-soft-triple", **{"projections.pool_size": 16}), splits=digits)
    trainer.model.requires_grad_(False)
    frozen = way_back.WayBack(trainer.scaler, trainer.model, trainer.loss)
    frozen(trainer.loss.weight.square().sum())
    assert trainer.loss.weight.grad is not None


@pytest.mark.parametrize("at", [1, 3, 7])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_named_at_its_step_before_it_has_changed_a_weight(bad, at, digits):
    calls: list[int] = []

    def breaks(loss, x):
        calls.append(1)
        return loss * (bad if len(calls) == at else 1e-3)

    trainer = Trainer(tiny("mnist-2d-pairs"), splits=digits, loss=Odd(breaks))
    trainer.step(at - 1)
    calls[:] = [1] * (at - 1)  # evaluations ask the loss as well
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    with pytest.raises(LabError, match=rf"^loss \(Odd\): expected a finite number; got {bad}, at step {at}"):
        trainer.step()
    assert all(torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))


def test_a_live_loss_that_turns_nan_names_the_setting_that_was_moved_last(digits):
    loss = Odd(lambda loss, x: loss * loss_scale[0])
    loss_scale = [1e-3]

    def build(experiment):
        return Trainer(experiment, splits=digits, loss=loss)

    session = LiveSession(tiny("mnist-2d-pairs"), splits=digits, build=build, threaded=False)
    session.step(3)
    session.run_pending()
    session.set("optimizer.learning_rate", 5e-4)
    session.step(1)
    session.run_pending()
    loss_scale[0] = float("nan")
    session.step(1)
    session.run_pending()
    told = r"^loss \(Odd\): expected a finite number; got nan, at step 5\..*Moved last: learning rate .* at step 3"
    with pytest.raises(LabError, match=told):
        session.join()


@pytest.mark.parametrize("method", ["pairs", "proxy"])
def test_samples_are_judged_in_the_space_in_which_the_loss_compares_them(method):
    """pytorch-metric-learning's distances normalise onto the sphere unless told otherwise, with proxies and without."""
    trainer = Trainer(tiny(method=method), loss=losses.TripletMarginLoss(0.2))
    torch.testing.assert_close(trainer.normalized(torch.tensor([[0.3, 0.4]])), torch.tensor([[0.6, 0.8]]))
