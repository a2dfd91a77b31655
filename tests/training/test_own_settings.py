"""What surrounds a run (autocast, a default dtype, no gradients) changes nothing in it unseen, and is as it was afterwards."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch

from labkit.errors import LabError
from labkit.losses import SoftTripleLoss
from labkit.training import Trainer
from labkit.training.fitting import fit_proxies
from labkit.training.own_settings import own_settings
from labkit.training.session import LiveSession
from tests.recordings import same
from tests.training.conftest import tiny

CPU = torch.device("cpu")


@contextmanager
def default_dtype(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def autocast():
    with torch.autocast("cpu", torch.bfloat16):
        yield
        assert torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled()
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16


AROUND = {
    "autocast": autocast,
    "float64": lambda: default_dtype(torch.float64),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
}
FEW = {"steps": 6, "evaluate_every": 3, "projections.patience": 1}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("poc-ccp", {"projections.projection_weight": 0.1}),
        ("poc-samples", {"network.precision": "bfloat16"}),
        ("poc-proxy", {"loss.name": "soft_triple", "projections.start": "random"}),
    ],
)
def test_a_run_is_the_same_whatever_is_around_it(digits, preset, changes, around):
    experiment = tiny(preset, **{**FEW, **changes})
    alone = Trainer(experiment, splits=digits).run(progress=False)
    with AROUND[around]():
        within = Trainer(experiment, splits=digits).run(progress=False)
    same(alone, within)
    assert alone.environment == within.environment


@pytest.mark.parametrize("around", AROUND)
def test_so_is_a_session_and_one_that_is_resumed(digits, tmp_path, around):
    experiment = tiny("poc-ccp", **FEW)
    alone = Trainer(experiment, splits=digits).run(progress=False)
    with AROUND[around]():
        session = LiveSession(experiment, splits=digits, threaded=False)
        session.step(2)
        session.run_pending()
        session.start()
        live = session.join()
        part = Trainer(experiment, splits=digits, directory=tmp_path)
        part.step(3)
        resumed = Trainer(experiment, splits=digits, directory=tmp_path, resume=True).run(progress=False)
        embedded = part.embed(part.sample.images)
    same(alone, session.recording())
    same(alone, resumed)
    assert live.live.embeddings.dtype.itemsize <= 4 and embedded.dtype == torch.float32


def test_a_step_without_gradients_says_so(digits):
    trainer = Trainer(tiny(**FEW), splits=digits)
    with torch.no_grad(), pytest.raises(LabError, match=r"step: expected gradients.*within torch\.no_grad"):
        trainer.step()
    with torch.inference_mode():
        with pytest.raises(LabError, match=r"Trainer: expected work outside of torch\.inference_mode"):
            trainer.run(progress=False)
        with pytest.raises(LabError, match="inference_mode"):
            trainer.recording()
        assert trainer.embed(trainer.sample.images).shape == (60, 2)
    same(trainer.run(progress=False), Trainer(tiny(**FEW), splits=digits).run(progress=False))
    with torch.inference_mode(), pytest.raises(LabError, match="inference_mode"):
        trainer.next_problem()


def test_a_trainer_is_not_built_in_inference_mode_and_leaves_no_folder(digits, tmp_path):
    with torch.inference_mode(), pytest.raises(LabError, match="inference_mode"):
        Trainer(tiny(**FEW), splits=digits, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with torch.no_grad():
        assert Trainer(tiny(**FEW), splits=digits).embed(digits.test.images[:5]).shape == (5, 2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_proxies_are_not_fitted_without_gradients(mode):
    loss = SoftTripleLoss(2, 2, centers_per_class=1)
    with mode(), pytest.raises(LabError, match="fit_proxies: expected gradients"):
        fit_proxies(loss, torch.eye(2), torch.tensor([0, 1]), steps=1)


def test_the_last_one_out_puts_the_default_dtype_back():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with own_settings(CPU):
            inside.set()
            leave.wait(20)

    with default_dtype(torch.float64):
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(20)
        with own_settings(CPU):
            assert torch.get_default_dtype() == torch.float32
        assert torch.get_default_dtype() == torch.float32  # the other is inside
        leave.set()
        thread.join(20)
        assert torch.get_default_dtype() == torch.float64
        with pytest.raises(KeyError), own_settings(CPU):
            raise KeyError
        assert torch.get_default_dtype() == torch.float64
    with own_settings(CPU):
        torch.set_default_dtype(torch.float16)  # as a callback may
    assert torch.get_default_dtype() == torch.float16
    torch.set_default_dtype(torch.float32)
    with own_settings(CPU):
        assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_dtype() == torch.float32


def test_no_weights_stay_as_they_were_in_the_cache_of_an_autocast_around(digits):
    experiment = tiny("poc-ccp", **FEW, **{"network.precision": "bfloat16"})
    alone = Trainer(experiment, splits=digits)
    alone.step(3)
    with torch.autocast("cpu", torch.bfloat16):
        within = Trainer(experiment, splits=digits)
        within.model.eval()(within.sample.images[:2].float())  # leaves its weights there in half precision
        within.step(3)
    for mine, theirs in zip(alone.model.parameters(), within.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
