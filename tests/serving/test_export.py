"""Exported models give what the model itself gives, carry what must be known, and are refused when they are not whole."""

import json

import onnxruntime
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import FunctionLoss
from labkit.serving import ExportedModel, WholeModel, export_model, load_exported, open_model
from labkit.serving.formats import SUFFIXES
from labkit.serving.model_card import normalized_rows
from labkit.training import Experiment, Trainer
from labkit.training.photographs import load_photos
from tests.serving.conftest import random_pictures

TINY_DIGITS = {"steps": 2, "evaluate_every": 2, "sample_size": 50, "data.source": "digits-8x8"}


def same(first, second):
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_exported_model_gives_the_same_embeddings_for_any_number_of_pictures(digits, model, tmp_path, suffix):
    path = export_model(model, tmp_path / f"model{suffix}")
    loaded = load_exported(path)
    assert isinstance(loaded, ExportedModel) and loaded.card == model.card and path.stat().st_size < 2e6
    assert [p.name for p in tmp_path.iterdir() if p.suffix in (suffix, ".partial", ".data")] == [path.name]
    for n in (1, 5, 33):
        pictures = random_pictures(model.card, n, seed=n)
        same(loaded(pictures), model(pictures))
    # and that is what the trainer makes of bytes
    images = digits.splits.test.images[:40]
    same(loaded(images.float() / 255), digits.embed(images))


def test_other_programs_open_the_files_without_labkit(model, tmp_path):
    pictures = random_pictures(model.card, 3)
    wanted = model(pictures)
    with pytest.warns(FutureWarning, match="deprecated"):
        script = torch.jit.load(export_model(model, tmp_path / "m.pt"))
    same(script(pictures), wanted)
    same(torch.export.load(export_model(model, tmp_path / "m.pt2")).module()(pictures), wanted)
    session = onnxruntime.InferenceSession(export_model(model, tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    (found,) = session.run(["embeddings"], {"pictures": pictures.numpy()})
    same(torch.from_numpy(found), wanted)
    facts = json.loads(session.get_modelmeta().custom_metadata_map["labkit"])
    assert facts["size"] == 28 and facts["channels"] == 1 and "divided by 255" in facts["input"]
    assert facts["experiment"]["name"] == "poc-ccp" and facts["normalize"] == "lipschitz" and len(facts["mean"]) == 1


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_a_model_on_photographs(experiment, tmp_path, suffix):
    """Frozen features: the exported file holds backbone and head."""
    trainer = Trainer(experiment(), directory=tmp_path / "run")
    trainer.run(progress=False)
    model = WholeModel.of_run(tmp_path / "run")
    card = model.card
    assert (card.size, card.side, card.channels, card.embedding_size) == (32, 36, 3, 4) and card.levels == 1
    assert card.mean == pytest.approx((0.485, 0.456, 0.406))
    loaded = load_exported(export_model(model, tmp_path / f"m{suffix}"))
    photos = load_photos(trainer.experiment).test.images[:]
    same(loaded(photos.float() / 255), trainer.embed(trainer.splits.test.images))
    assert WholeModel.of(trainer).card.weights == card.weights


def test_a_run_whose_whole_network_was_trained_needs_no_weights_from_elsewhere(experiment, tmp_path, monkeypatch):
    settings = {"network.name": "efficientnet-lite0", "network.weights": "package", "network.train": "all", "steps": 2}
    trainer = Trainer(experiment(**settings), directory=tmp_path / "run")
    trainer.run(progress=False)
    monkeypatch.setattr("labkit.models.weights._packaged", lambda: pytest.fail("the package's weights were opened"))
    model = open_model(tmp_path / "run")
    pictures = random_pictures(model.card, 2)
    with torch.no_grad():
        same(model(pictures), trainer.normalized(trainer.model.eval()(pictures)))


def test_a_run_s_folder_gives_the_card_that_its_trainer_gave(tmp_path):
    """Above all the classes trained on, where a run was judged by others."""
    settings = TINY_DIGITS | {"data.train_classes": 5, "data.classes_per_batch": 5}
    trainer = Trainer(Experiment.preset("poc-ccp", **settings), directory=tmp_path)
    trainer.run(progress=False)
    card = WholeModel.of(trainer).card
    assert card.trained_on == ("0", "1", "2", "3", "4") and WholeModel.of_run(tmp_path).card == card


@pytest.mark.parametrize(
    ("loss", "kind"), [("c2", "lipschitz"), ("ms", "l2"), ("soft_triple", "l2"), ("rll", "l2")]
)  # fmt: skip
def test_the_normalisation_is_the_loss_s(tmp_path, loss, kind):
    method = {"method": "proxy"} if loss == "soft_triple" else {}
    settings = TINY_DIGITS | method | {"loss.name": loss, "loss.options": {}}
    trainer = Trainer(Experiment.preset("poc-ccp", **settings), directory=tmp_path)
    trainer.run(progress=False)
    for model in (WholeModel.of(trainer), WholeModel.of_run(tmp_path)):
        assert model.card.normalize == kind
        same(model(trainer.splits.test.images[:9].float() / 255), trainer.embed(trainer.splits.test.images[:9]))


def test_several_levels_are_normalised_each_by_itself(tmp_path):
    levels = {"network.levels": "low+middle+high", "network.embedding_size": 3}
    settings = TINY_DIGITS | levels | {"method": "pairs", "loss.name": "rll", "loss.options": {}}
    trainer = Trainer(Experiment.preset("poc-ccp", **settings))
    trainer.run(progress=False)
    model = WholeModel.of(trainer)
    assert (model.card.levels, model.card.embedding_size) == (3, 9)
    images = trainer.splits.test.images[:6]
    for suffix in SUFFIXES:
        loaded = load_exported(export_model(model, tmp_path / f"m{suffix}"))
        same(loaded(images.float() / 255), trainer.embed(images))
        torch.testing.assert_close(loaded(images.float() / 255).view(6, 3, 3).norm(dim=2), torch.ones(6, 3))


def test_normalisations_against_the_package_s_own(model):
    x = torch.randn(7, 6) * torch.logspace(-3, 3, 7)[:, None]
    from labkit.geometry import normalize

    for kind in ("lipschitz", "l2"):
        torch.testing.assert_close(normalized_rows(x, kind), normalize(x, kind))
        torch.testing.assert_close(normalized_rows(x, kind, 2)[:, 3:], normalize(x[:, 3:], kind))
    assert normalized_rows(x, "none") is x
    assert torch.equal(normalized_rows(torch.zeros(1, 2), "l2"), torch.zeros(1, 2))


def test_a_loss_of_one_s_own_is_exported_from_python_only(tmp_path):
    own = FunctionLoss(lambda d, same, different: d[same].mean() - d[different].mean())
    trainer = Trainer(Experiment.preset("poc-ccp", **TINY_DIGITS), loss=own, directory=tmp_path / "run")
    trainer.run(progress=False)
    assert WholeModel.of(trainer).card.normalize == "lipschitz"
    with pytest.raises(LabError, match="WholeModel.of"):
        WholeModel.of_run(tmp_path / "run")
    trainer.normalized = lambda x: 2 * x
    with pytest.raises(LabError, match="normalisation"):
        WholeModel.of(trainer)


def test_unfinished_and_damaged_runs(tmp_path):
    trainer = Trainer(Experiment.preset("poc-ccp", **TINY_DIGITS | {"steps": 4}), directory=tmp_path)
    trainer.step(2)
    with pytest.raises(LabError, match="--resume"):
        WholeModel.of_run(tmp_path)
    trainer.run(progress=False)
    torch.save({"head.weight": torch.zeros(1)}, tmp_path / "model.pt")
    with pytest.raises(LabError, match="this experiment's network"):
        WholeModel.of_run(tmp_path)
    torch.save(trainer.model.state_dict(), tmp_path / "model.pt")
    weight = trainer.model.head.weight.detach().numpy().tobytes()
    for name in ("model.pt", "checkpoint.pt"):
        before = (tmp_path / name).read_bytes()
        damaged = bytearray(before)
        damaged[before.index(weight) + 3] ^= 0x40  # another number, which nothing would tell from the right one
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(LabError, match=rf"{name}: expected .*damaged"):
            WholeModel.of_run(tmp_path)
        (tmp_path / name).write_bytes(before)
    settings = json.loads((tmp_path / "experiment.json").read_text())
    settings["data"]["source"] = "mnist-5k"
    (tmp_path / "experiment.json").write_text(json.dumps(settings))
    torch.save(trainer.model.state_dict(), tmp_path / "model.pt")
    with pytest.raises(LabError, match="trained on"):
        WholeModel.of_run(tmp_path)


def test_a_model_is_a_copy(digits):
    model = WholeModel.of(digits)
    before = model(random_pictures(model.card, 2))
    with torch.no_grad():
        for value in digits.model.parameters():
            value.zero_()
    assert torch.equal(model(random_pictures(model.card, 2)), before) and not before.requires_grad
