"""What a trainer or a live session is given wrongly is told by name, and never ends the session's thread unseen."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch import nn

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss
from labkit.training import Experiment, Trainer
from labkit.training.session import LiveSession
from tests.training.conftest import tiny


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
        (lambda: LiveSession(tiny(), name=[]), "name"),
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
    wrong: list[BaseException] = []

    def busy(turn: int) -> None:
        try:
            for at in range(12):
                (session.recording, lambda: session.stop(5), session.start)[(turn + at) % 3]()
        except BaseException as error:  # noqa: BLE001 - raised below
            wrong.append(error)

    threads = [threading.Thread(target=busy, args=(turn,), daemon=True) for turn in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not wrong and not any(thread.is_alive() for thread in threads)
    assert session.stop(30)
