"""The conventional protocol: nothing validates, so that a run takes all its steps and its last weights are judged."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import retrieval_metrics
from labkit.training import Experiment, Trainer
from labkit.training.presets_images import IMAGE_PRESETS
from labkit.training.presets_tables import SETTINGS
from tests.photographs import SMALL
from tests.training.conftest import tiny

STILL = SMALL | {
    "steps": 8, "stop_patience": 1, "seed": 0, "optimizer.learning_rate": 1e-30, "optimizer.weight_decay": 0.0,
}  # fmt: skip


def experiment(photo_folder, name="conventional-bn-cub-c2-ccp-l", **changes):
    return Experiment.preset(name, **(STILL | {"data.source": str(photo_folder)} | changes))


def test_the_last_weights_are_judged_after_all_steps_and_problems_still_end(photo_folder):
    """At a rate of next to nothing no figure ever improves: patience would have ended the run at its second evaluation."""
    trainer = Trainer(experiment(photo_folder))
    recording = trainer.run(progress=False)
    assert trainer.steps_done == 8 and recording.final["chosen_step"] == 8
    assert [problem.end for problem in recording.problems] == [4, 8], "CCP's patience looks at training pictures"
    kept = Trainer(experiment(photo_folder, choose="best"))
    assert kept.run(progress=False).final["chosen_step"] == 2 and kept.steps_done == 4


def test_the_weights_are_the_last_and_a_resumed_run_has_them_too(photo_folder, tmp_path):
    changes = {"optimizer.learning_rate": 0.01}
    live = Trainer(experiment(photo_folder, **changes))
    seen = []
    live.callbacks.append(lambda trainer, _: seen.append({k: v.clone() for k, v in trainer.model.state_dict().items()}))
    whole = live.run(progress=False)
    assert not torch.equal(seen[-1]["head.weight"], seen[0]["head.weight"])
    assert all(torch.equal(value, seen[-1][name]) for name, value in live.model.state_dict().items())
    test = live.splits.test
    assert whole.final["map_at_r"] == pytest.approx(float(retrieval_metrics(live.embed(test.images), test.labels)["map_at_r"]))
    Trainer(experiment(photo_folder, **changes), directory=tmp_path / "run").step(5)
    resumed = Trainer(experiment(photo_folder, **changes), directory=tmp_path / "run", resume=True).run(progress=False)
    np.testing.assert_array_equal(resumed.embeddings, whole.embeddings)
    assert resumed.final == whole.final


def test_a_run_without_best_weights_is_resumed_from_what_an_older_labkit_left(digits):
    """Of the best model a checkpoint holds what it always held."""
    trainer = Trainer(tiny(steps=10), splits=digits)
    trainer.step(5)
    assert set(trainer.state_dict()["best"]) == {"score", "step", "waited", "weights", "references"}


def test_by_default_it_is_as_the_protocol_has_it_and_older_settings_load():
    for name in ("cub-c2", "cub-lite0-rll-h", "poc-ccp", "mnist-2d-ccp"):
        assert Experiment.preset(name).by_validation
    for name in ("conventional-bn-cub-c2", "cub-rll-h", "sop-proxy-gml"):
        made = Experiment.preset(name)
        assert not made.by_validation and made.stop_patience == 0
        assert made.replace(**{"photos.protocol": "mlrc"}).by_validation and made.replace(choose="best").by_validation
        settings = json.loads(made.to_json())
        del settings["choose"]
        assert Experiment.from_dict(settings) == made
    assert not Experiment.preset("cub-c2", choose="last").by_validation
    with pytest.raises(LabError, match="choose: expected one of"):
        Experiment.preset("cub-c2", choose="worst")


def test_what_is_counted_in_batches_or_epochs_is_counted_in_the_batches_of_the_run():
    bn, r50 = (Experiment.preset(f"conventional-{trunk}-cub-c2-xbm-s") for trunk in ("bn", "r50"))
    assert (bn.memory.size, r50.memory.size) == (3 * 128, 3 * 96)
    assert Experiment.preset("conventional-bn-sop-c1-xbm-l").memory.size == 1400 * 128
    for data, settings in SETTINGS.items():
        for loss in ("soft-triple", "soft-triple-s", "proxy-nca", "proxy-anchor"):
            for trunk, batch in (("bn", 128), ("r50", 96)):
                made = Experiment.preset(f"conventional-{trunk}-{data}-{loss}")
                assert made.optimizer.head_only_steps == math.ceil(settings.pictures / batch)
                assert made.data.classes_per_batch * made.data.samples_per_class == batch
    assert Experiment.preset("conventional-bn-cub-c2-ccp-l").optimizer.head_only_steps == 0
    assert Experiment.preset("conventional-bn-cub-c2").steps * 128 == Experiment.preset("cub-c2").steps * 32


def test_a_batch_has_no_more_classes_than_there_are_to_train_on():
    for name, make in IMAGE_PRESETS.items():
        made = make()
        there = SETTINGS[made.data.source].classes
        there = there if made.photos.protocol == "conventional" else there * 3 // 4
        assert made.data.classes_per_batch <= there, name


def test_soft_triple_with_one_centre_and_with_its_many():
    one, many = Experiment.preset("cars-soft-triple-s"), Experiment.preset("cars-soft-triple")
    assert (one.projections.proxies_per_class, many.projections.proxies_per_class) == (1, 10)
    assert one.loss == many.loss and one.optimizer == many.optimizer
