"""Every loss through the trainer: alone, with projections, with a memory, at several levels, on classes never seen."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import CrossBatchMemory, MultiLevelLoss, SparseCentersRegularizer
from labkit.metrics import nmi, retrieval_metrics
from labkit.training import Experiment, Trainer
from labkit.training.registry import LOSSES, build_loss, loss_options, owns_its_proxies
from tests.recordings import same

OWNERS = [name for name in LOSSES if owns_its_proxies(name)]
PAIRS = [name for name in LOSSES if not owns_its_proxies(name)]
SMALL = {
    "steps": 10, "evaluate_every": 5, "sample_size": 60, "data.source": "digits-8x8", "data.samples_per_class": 4,
    "projections.patience": 1, "optimizer.warmup_steps": 2,
}  # fmt: skip


def unseen(loss: str, way: str = "", **changes) -> Experiment:
    name = f"mnist-unseen-{loss.replace('_', '-')}{way}"
    return Experiment.preset(name, **{**SMALL, "projections.pool_size": 16, **changes})


@pytest.mark.parametrize("name", LOSSES)
def test_alone_on_the_plane(name, digits):
    experiment = Experiment.preset(f"mnist-2d-{name.replace('_', '-')}", **{**SMALL, "projections.pool_size": 16})
    trainer = Trainer(experiment, splits=digits)
    before = [p.detach().clone() for p in trainer.loss.parameters()]
    recording = trainer.run(progress=False)
    assert isinstance(trainer.loss, LOSSES[name])
    assert recording.embeddings.shape[2] == 2 and np.isfinite(recording.embeddings).all()
    assert len(before) == (name in OWNERS)
    assert all(not torch.equal(a, b) for a, b in zip(before, trainer.loss.parameters(), strict=True))


@pytest.mark.parametrize("name", LOSSES)
def test_ccp_starts_from_samples_and_goes_on_to_new_problems(name, digits):
    standing_still = {"steps": 6, "evaluate_every": 1, "optimizer.learning_rate": 1e-12, "optimizer.proxy_multiplier": 1e10}
    trainer = Trainer(unseen(name, "-ccp", **standing_still), splits=digits.disjoint(5))
    recording = trainer.run(progress=False)
    assert len(recording.problems) > 1
    assert recording.proxies.shape[1] == 5
    chosen = recording.problems[0].next_proxies
    assert not np.allclose(chosen, recording.problems[0].proxies)
    if name in OWNERS:  # the loss's own weight is what is re-initialised
        assert trainer.loss.weight is trainer.projections.proxy_parameter


@pytest.mark.parametrize("name", OWNERS)
def test_random_proxies_are_those_that_the_loss_draws(name, digits):
    trainer = Trainer(unseen(name), splits=digits.disjoint(5))
    drawn = trainer.loss.weight.detach().clone()
    first = trainer.recording().proxies[0].reshape(len(drawn), -1)
    np.testing.assert_allclose(first, torch.nn.functional.normalize(drawn).numpy(), atol=1e-6)
    other = Trainer(unseen(name, seed=1), splits=digits.disjoint(5))
    assert not torch.equal(other.loss.weight, drawn)


@pytest.mark.parametrize("way", ["", "-xbm", "-ccp"])
@pytest.mark.parametrize("name", ["c2", "proxy_gml"])
def test_a_resumed_run_ends_with_the_same_recording(name, way, digits, tmp_path):
    if name in OWNERS and way == "-xbm":
        way = ""
    changes = {"memory.size": 100, "memory.warmup_steps": 2} if way == "-xbm" else {}
    experiment, splits = unseen(name, way, **changes), digits.disjoint(5)
    whole = Trainer(experiment, splits=splits).run(progress=False)
    Trainer(experiment, splits=splits, directory=tmp_path / "run").step(7)
    resumed = Trainer(experiment, splits=splits, directory=tmp_path / "run", resume=True)
    assert resumed.steps_done == 5
    same(whole, resumed.run(progress=False))


def test_a_memory_is_given_the_rows_of_the_training_set(digits):
    trainer = Trainer(unseen("c2", "-xbm", **{"memory.size": 1000, "memory.warmup_steps": 0}), splits=digits.disjoint(5))
    trainer.step(3)
    assert isinstance(trainer.loss, CrossBatchMemory)
    memory, labels, ids = trainer.loss.memory.contents(like=torch.zeros(1))
    assert len(memory) == 3 * 5 * 4
    assert torch.equal(trainer.splits.train.labels[ids], labels)


def test_judged_on_classes_never_seen(digits):
    splits = digits.disjoint(5)
    assert splits.train_classes == 5
    assert set(splits.train.labels.tolist()) == set(splits.held_out.labels.tolist()) == set(range(5))
    assert set(splits.test.labels.tolist()) == set(range(5, 10)) and set(splits.seen.labels.tolist()) == set(range(5))
    trainer = Trainer(unseen("c2"), splits=splits)
    recording = trainer.run(progress=False)
    test, seen = trainer.embed(splits.test.images), trainer.embed(splits.seen.images)
    expected = {
        "map_at_r": retrieval_metrics(test, splits.test.labels)["map_at_r"],
        "seen_map_at_r": retrieval_metrics(seen, splits.seen.labels)["map_at_r"],
        "nmi": nmi(test, splits.test.labels),
    }
    assert {name: recording.final[name] for name in expected} == pytest.approx(expected)
    half = recording.labels < 5
    assert half.sum() == 30 and len(half) == 60
    sample = torch.from_numpy(recording.embeddings[-1])
    labels = torch.from_numpy(recording.labels)
    for name, rows in (("seen_map_at_r", half), ("unseen_map_at_r", ~half)):
        alone = retrieval_metrics(sample[rows], labels[rows])["map_at_r"]
        assert recording.metrics[name][-1] == pytest.approx(alone, abs=0.01)  # the recorded embeddings are float16


def test_the_proxies_cover_only_the_classes_that_have_some(digits):
    recording = Trainer(unseen("proxy_anchor"), splits=digits.disjoint(5)).run(progress=False)
    seen = recording.labels < 5
    distances = np.linalg.norm(recording.embeddings[-1][:, None] - recording.proxies[-1][None, :, 0], axis=2)
    own = [distances[recording.labels == c, c].mean() for c in range(5)]
    assert recording.metrics["covering_mean"][-1] == pytest.approx(np.mean(own), abs=1e-2)
    assert seen.any() and not seen.all()


@pytest.mark.parametrize("classes", [1, 9, 2.5])
def test_too_few_classes_on_a_side(classes, digits):
    with pytest.raises(LabError, match="train_classes"):
        digits.disjoint(classes)


@pytest.mark.parametrize("network", ["small", "resnet20v2"])
@pytest.mark.parametrize("levels", ["low", "low+middle+high"])
def test_levels(network, levels, digits):
    changes = {"network.levels": levels, "network.name": network, "network.embedding_size": 8, "steps": 2}
    trainer = Trainer(unseen("rll", **changes), splits=digits.disjoint(5))
    width = 8 * len(levels.split("+"))
    assert trainer.run(progress=False).embeddings.shape[2] == width
    assert isinstance(trainer.loss, MultiLevelLoss) == (width > 8)
    head = next(group for group in trainer.optimizer.param_groups if group["name"] == "head")
    assert {tuple(p.shape) for p in head["params"] if p.ndim == 1} == {(8,)}
    in_head = {id(p) for p in head["params"]}
    assert in_head == {id(p) for p in trainer.model.heads.parameters()}


def test_soft_triple_takes_its_regulariser_by_weight():
    loss = build_loss(unseen("soft_triple", **{"loss.options": {"weight_reg_weight": 0.2}}), 5)
    assert isinstance(loss.weight_regularizer, SparseCentersRegularizer) and loss.weight_reg_weight == 0.2
    assert build_loss(unseen("soft_triple", **{"loss.options": {}}), 5).weight_regularizer is None


@pytest.mark.parametrize("name", OWNERS)
def test_the_number_of_proxies_is_no_other_option(name):
    changes = {"loss.name": name, "loss.options": {}, "projections.proxies_per_class": 3}
    loss = build_loss(Experiment.preset("mnist-2d-ccp", **changes), 50)  # of fewer ProxyGML's own ratio is refused
    assert loss.weight.shape == (150, 2)
    defaults = {key: p.default for key, p in inspect.signature(type(loss)).parameters.items() if key in loss_options(name)}
    assert {key: getattr(loss, key) for key in defaults} == defaults
    for key in {"margin", "temperature"} & set(defaults):
        assert getattr(build_loss(unseen(name, **{"loss.options": {key: 0.25}}), 5), key) == 0.25


@pytest.mark.parametrize("method", ["ccp", "proxy", "samples"])
def test_several_levels_with_proxies(method, digits):
    changes = {"network.levels": "low+middle+high", "network.embedding_size": 4, "steps": 2, "method": method}
    trainer = Trainer(unseen("ms", **changes), splits=digits.disjoint(5))
    recording = trainer.run(progress=False)
    assert recording.proxies.shape[3] == 12 and np.isfinite(recording.proxies).all()
    levels = recording.embeddings.reshape(-1, 3, 4)  # each level is normalised by its own loss
    np.testing.assert_allclose(np.linalg.norm(levels, axis=2), 1, atol=2e-3)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"loss.name": "soft_triple", "method": "pairs"}, "method"),
        ({"loss.name": "soft_triple", "method": "samples"}, "method"),
        ({"loss.name": "proxy_anchor", "method": "ccp", "projections.pair_weight": 0.1}, "pair_weight"),
        ({"loss.name": "c2", "method": "ccp", "projections.start": "random"}, "start"),
        ({"loss.name": "c2", "method": "ccp", "memory.size": 10}, "memory"),
        ({"loss.name": "proxy_nca", "method": "ccp", "network.levels": "low+middle+high"}, "loss.name"),
        ({"loss.name": "proxy_gml", "method": "ccp", "loss.options": {"ratio": 1.5}}, "ratio"),
        ({"loss.name": "soft_triple", "method": "ccp", "loss.options": {"num_classes": 3}}, "num_classes"),
        ({"loss.name": "soft_tripel", "method": "ccp"}, "soft_triple"),
        ({"loss.name": "rll", "method": "pairs", "loss.options": {"temperature": -1}}, "temperature"),
        ({"optimizer.name": "adamw"}, "optimizer.name"),
        ({"optimizer.step_size": 0}, "step_size"),
        ({"optimizer.head_only_steps": -1}, "head_only_steps"),
        ({"memory.size": -1}, "memory.size"),
        ({"memory.size": 10**12, "method": "pairs"}, "memory.size"),
        ({"data.samples_per_class": 10**6}, "at most 100,000 pictures"),
        ({"optimizer.weight_decay": 1e300}, "weight_decay"),
        ({"optimizer.head_multiplier": 1e300}, "head_multiplier"),
        ({"optimizer.proxy_multiplier": 1e29, "optimizer.learning_rate": 1e3}, "proxy_multiplier"),
        ({"network.levels": "lowest"}, "network.levels"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(changes, named):
    with pytest.raises(LabError, match=named):
        Experiment.preset("mnist-2d-ccp", **{"loss.options": {}, **changes})


def test_a_ratio_too_small_for_the_classes_is_refused_before_the_first_step(digits):
    changes = {"data.source": "digits-8x8", "loss.name": "proxy_gml", "loss.options": {"ratio": 0.05}}
    experiment = Experiment.preset("mnist-2d-ccp", **changes)  # of 1000 classes it would do
    with pytest.raises(LabError, match="ratio: expected above 1 / num_classes = 0.1"):
        Trainer(experiment, splits=digits)


def test_options_that_json_cannot_hold_are_none():
    for name in LOSSES:
        assert not {"weight_init_func", "num_classes", "options"} & set(loss_options(name))
        assert "normalize" in loss_options(name)
