"""Experiments on photographs, from the folder to the recording."""

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import retrieval_metrics
from labkit.training import Experiment, Trainer
from labkit.training.embedder import chunk_of
from labkit.training.photo_pictures import PhotoPictures
from labkit.training.photographs import start_from_pca
from labkit.training.presets_images import IMAGE_PRESETS, SETTINGS
from labkit.training.registry import load_splits
from tests.datasets.pictures import make_cub, make_in_shop
from tests.photographs import SMALL
from tests.recordings import same

pytestmark = pytest.mark.usefixtures("own_cache")


def experiment(photo_folder, name="cub-c2-ccp-l", **changes):
    return Experiment.preset(name, **(SMALL | {"data.source": str(photo_folder)} | changes))


def test_a_folder_is_trained_on_and_judged_by_classes_never_seen(photo_folder):
    trainer = Trainer(experiment(photo_folder))
    assert isinstance(trainer.pictures, PhotoPictures)
    recording = trainer.run(progress=False)
    splits = trainer.splits
    assert splits.train_classes == 3 and set(splits.test.labels.tolist()) == {4, 5, 6, 7}
    assert recording.thumbnails.shape == (20, 32, 32) and len(recording.problems) >= 2
    assert recording.proxies.shape[1:] == (3, 2, 8)
    embeddings = trainer.embed(splits.test.images)
    assert recording.final["map_at_r"] == pytest.approx(float(retrieval_metrics(embeddings, splits.test.labels)["map_at_r"]))
    assert {"seen_map_at_r", "nmi", "recall_at_8", "covering_curve_mean"} <= set(recording.final)


def test_the_same_seed_gives_the_same_recording_however_it_was_interrupted(photo_folder, tmp_path):
    whole = Trainer(experiment(photo_folder)).run(progress=False)
    same(whole, Trainer(experiment(photo_folder)).run(progress=False))
    first = Trainer(experiment(photo_folder), directory=tmp_path / "run")
    first.step(5)
    del first
    same(whole, Trainer(experiment(photo_folder), directory=tmp_path / "run", resume=True).run(progress=False))


@pytest.mark.parametrize("name", ["cub-c2", "cub-ms-xbm-s", "cub-c2-proxy", "cub-soft-triple", "cub-proxy-gml"])
def test_other_methods_on_photographs(photo_folder, name):
    extra = {"loss.options.ratio": 0.5} if name == "cub-proxy-gml" else {}
    extra |= {"projections.pool_size": 12, "optimizer.head_only_steps": 1} if "proxy-gml" in name or "soft" in name else {}
    recording = Trainer(experiment(photo_folder, name, **extra)).run(progress=False)
    assert 0 < recording.final["map_at_r"] <= 1 and np.isfinite(recording.metrics["loss"][1:]).all()


def test_anchor_samples_instead_of_proxies(photo_folder):
    recording = Trainer(experiment(photo_folder, method="samples")).run(progress=False)
    assert 0 < recording.final["map_at_r"] <= 1


def test_a_network_for_photographs_with_a_head_from_components(photo_folder):
    network = {"network.name": "timm:mobilenetv3_small_050", "network.head": "pca", "network.embedding_size": 4}
    trainer = Trainer(experiment(photo_folder, "cub-c2", **network, **{"network.precision": "float32"}))
    head = trainer.model.head
    torch.testing.assert_close(head.weight @ head.weight.T, torch.eye(4), atol=1e-4, rtol=0)
    norm = trainer.model.backbone.trunk.bn1
    before = norm.running_mean.clone()
    trainer.step(2)
    assert torch.equal(norm.running_mean, before), "batch norms are frozen"
    with pytest.raises(LabError, match="network.head"):
        start_from_pca(torch.nn.Linear(1, 1), trainer.splits, torch.device("cpu"))


@pytest.mark.parametrize("train", ["all", "head"])
def test_a_head_wider_than_there_are_pictures_is_refused_by_its_setting(photo_folder, train):
    network = {"network.name": "timm:mobilenetv3_small_050", "network.head": "pca", "network.train": train}
    network |= {"network.precision": "float32"}
    told = "network.embedding_size: expected fewer dimensions than the 15 .*; got 15. Set it to 14 at most"
    with pytest.raises(LabError, match=told) as refused:
        Trainer(experiment(photo_folder, "cub-c2", **network, **{"network.embedding_size": 15}))
    assert "network.head=random" in refused.value.hint
    narrow = experiment(photo_folder, "cub-c2", **network, **{"network.embedding_size": 14})
    assert Trainer(narrow).model.head.out_features == 14


def test_three_levels_of_bn_inception_with_a_ranked_list_loss_on_each(photo_folder):
    changes = {"network.name": "bn-inception", "network.levels": "low+middle+high"}
    changes |= {"photos.size": 64, "photos.side": 70, "steps": 2}
    trainer = Trainer(experiment(photo_folder, "cub-rll-lmh", **changes))
    recording = trainer.run(progress=False)
    assert recording.embeddings.shape[2] == 24 and np.isfinite(recording.metrics["loss"][1:]).all()
    trained = trainer.optimizer.param_groups
    assert [(group["name"], group["multiplier"]) for group in trained] == [("backbone", 1.0), ("head", 10.0)]


def test_photographs_of_others_are_not_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    make_cub(tmp_path, ids=(1, 30, 60, 99, 101, 150), each=4)
    with pytest.warns(UserWarning, match="not as published"):
        recording = Trainer(experiment("cub")).run(progress=False)
    assert recording.thumbnails is None and "a partial copy" in recording.environment["data"]
    assert recording.class_names[-2:] == ["Bird 101", "Bird 150"]


def test_queries_are_judged_against_their_gallery(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    make_in_shop(tmp_path)
    changes = {"photos.protocol": "conventional", "data.classes_per_batch": 2}
    with pytest.warns(UserWarning):
        trainer = Trainer(experiment("in-shop", "in-shop-c2-proxy", **changes))
    recording = trainer.run(progress=False)
    parts = trainer.splits.test, trainer.splits.gallery
    queries, gallery = (trainer.embed(part.images) for part in parts)
    wanted = retrieval_metrics(queries, parts[0].labels, gallery, parts[1].labels)
    assert recording.final["map_at_r"] == pytest.approx(float(wanted["map_at_r"]))


def test_photographs_go_through_the_network_in_small_portions():
    assert chunk_of(torch.empty(9, 1, 28, 28)) == 500 and chunk_of(torch.empty(9, 3, 227, 227)) == 39


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data.source": "birds"}, "a path such as"),
        ({"data.source": "./birds"}, "not there"),
        ({"data.train_classes": 3}, "for photographs"),
        ({"photos.fold": 4}, "photos.fold"),
        ({"photos.side": 20}, "photos.side"),
        ({"photos.protocol": "x"}, "protocol"),
        ({"network.name": "timm:nothing"}, "network.name"),
        ({"network.name": "small", "network.head": "pca"}, "for small"),
        ({"data.source": "mnist-5k", "network.name": "resnet50"}, "for digits"),
        ({"network.name": "resnet50", "network.levels": "high"}, "bn-inception"),
        ({"network.weights": "imagnet", "network.name": "resnet50"}, "not there"),
    ],
)
def test_settings_that_will_not_do(photo_folder, changes, words):
    with pytest.raises(LabError, match=words):
        Trainer(experiment(photo_folder, "cub-c2", **changes))


# ---------------------------------------------------------------- presets


def test_there_is_a_preset_for_every_row():
    names = set(Experiment.presets())
    for data in SETTINGS:
        for loss in ("c1", "c2", "ms", "triplet"):
            rows = {f"{data}-{loss}{v}" for v in ("", "-xbm-s", "-xbm-l", "-ccp-s", "-ccp-l", "-proxy")}
            assert rows <= names and {f"conventional-{t}-{row}" for row in rows for t in ("bn", "r50")} <= names
        assert {f"{data}-{row}" for row in ("soft-triple", "proxy-nca", "proxy-anchor", "rll-h", "rll-lmh", "proxy-gml")} <= names


def test_every_preset_is_called_by_its_name():
    for name, make in IMAGE_PRESETS.items():
        made = make()
        assert made.name == name and made.data.is_photos and made.network.is_for_photos


def test_presets_have_the_papers_numbers():
    """Read off the tables once more, by hand."""
    made = Experiment.preset("cub-c2-ccp-l")
    assert (made.loss.options, made.method) == ({"pos_margin": 0.0, "neg_margin": 0.3841}, "ccp")
    assert (made.projections.proxies_per_class, made.projections.pool_size, made.projections.pair_weight) == (8, 12, 0.1)
    assert (made.projections.projection_weight, made.projections.patience, made.evaluate_every) == (2e-4, 3, 25)
    assert (made.optimizer.learning_rate, made.optimizer.weight_decay) == (1e-5, 1e-4)
    assert (made.optimizer.beta1, made.optimizer.beta2) == (0.9, 0.99)
    assert (made.data.classes_per_batch, made.data.samples_per_class, made.network.embedding_size) == (8, 4, 128)
    assert Experiment.preset("sop-c1-ccp-s").projections.proxies_per_class == 1
    shop = Experiment.preset("in-shop-ms-ccp-l")
    assert (shop.projections.proxies_per_class, shop.projections.pool_size, shop.evaluate_every) == (4, 7, 250)
    assert shop.loss.options == {"alpha": 8.49, "beta": 57.38, "base": 0.41}
    memory = Experiment.preset("sop-c2-xbm-l").memory
    assert (memory.size, memory.warmup_steps) == (1400 * 32, 1000)
    soft = Experiment.preset("cars-soft-triple")
    assert soft.loss.options == {"la": 17.69, "gamma": 19.18, "weight_reg_weight": 0.0669, "margin": 0.3588}
    assert (soft.data.classes_per_batch, soft.data.samples_per_class, soft.optimizer.proxy_multiplier) == (32, 1, 100.0)
    assert (soft.optimizer.head_only_steps, soft.projections.proxies_per_class) == (189, 10)
    wide = Experiment.preset("conventional-r50-cub-c2-ccp-l")
    assert (wide.network.embedding_size, wide.network.pooling, wide.photos.protocol) == (512, "average+max", "conventional")
    assert wide.data.classes_per_batch * wide.data.samples_per_class == 96
    lists = Experiment.preset("sop-rll-lmh")
    assert (lists.steps, lists.optimizer.learning_rate) == (16_000, 1e-2)
    assert (lists.optimizer.weight_decay, lists.optimizer.momentum) == (1e-5, 0.9)
    assert (lists.data.classes_per_batch, lists.data.samples_per_class, lists.network.levels) == (60, 3, "low+middle+high")
    assert lists.photos.square and lists.photos.crop == "plain" and lists.optimizer.head_multiplier == 10
    gml = Experiment.preset("cub-proxy-gml")
    assert (gml.steps, gml.optimizer.step_size, gml.optimizer.learning_rate) == (50 * 184, 20 * 184, 1e-4)
    assert gml.optimizer.learning_rate * gml.optimizer.proxy_multiplier == pytest.approx(3e-2)
    assert (gml.loss.options, gml.projections.proxies_per_class) == ({"ratio": 0.05, "proxy_weight": 0.3}, 12)


def test_the_digits_are_loaded_as_before():
    assert load_splits(Experiment.preset("poc-ccp", **{"data.source": "digits-8x8"})).name == "digits-8x8"
