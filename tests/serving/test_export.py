"""Exported models give what the model itself gives, carry what must be known, and are refused when they are not whole."""

import json

import onnxruntime
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import FunctionLoss
from labkit.serving import ExportedModel, ModelCard, WholeModel, export_model, load_exported, open_model
from labkit.serving.formats import SUFFIXES
from labkit.serving.model_card import normalized_rows
from labkit.serving.seal import seal
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


def test_pictures_that_a_model_does_not_take(model, tmp_path):
    loaded = load_exported(export_model(model, tmp_path / "m.pt2"))
    good = random_pictures(model.card, 2)
    for pictures, words in (
        (good[0], "n, 1, 28, 28"), (good[:, :, :20], "28"), (good.repeat(1, 3, 1, 1), "28"), (good[:0], "shape"),
        ((good * 255).byte(), "255"), (good * 255, "Divide bytes by 255"), (good - 1, "numbers from"),
        (good * torch.nan, "finite"), (good.numpy(), "tensor"), (None, "None"),
    ):  # fmt: skip
        with pytest.raises(LabError, match=words):
            loaded(pictures)


def test_what_cannot_be_exported_or_opened(model, tmp_path, monkeypatch):
    with pytest.raises(LabError, match="ending"):
        export_model(model, tmp_path / "model.h5")
    with pytest.raises(LabError, match="WholeModel"):
        export_model(torch.nn.Linear(2, 2), tmp_path / "m.pt")
    with pytest.raises(LabError, match="nothing there"):
        load_exported(tmp_path / "m.pt")
    with pytest.raises(LabError, match="nothing there"):
        open_model(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match="experiment.json"):
        open_model(tmp_path / "empty")
    with pytest.raises(LabError, match="written"):
        export_model(model, "/proc/m.pt")
    real = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name in ("onnx", "onnxruntime") else real(name, *a))
    with pytest.raises(LabError, match=r'pip install "labkit\[onnx\]"'):
        export_model(model, tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(seal(b"x", ".onnx"))
    with pytest.raises(LabError, match=r'pip install "labkit\[onnx\]"'):
        load_exported(tmp_path / "m.onnx")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files(model, tmp_path, suffix):
    path = export_model(model, tmp_path / f"m{suffix}")
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], b"not a model", b""):
        path.write_bytes(damaged)
        with pytest.raises(LabError, match="labkit export"):
            load_exported(path)


def test_a_model_of_another_program_has_neither_digest_nor_card(tmp_path):
    path = tmp_path / "m.pt"
    with pytest.warns(FutureWarning):
        torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.rand(1, 2)), path)
    with pytest.raises(LabError, match="another or older program. Export the model again"):
        load_exported(path)
    path.write_bytes(seal(path.read_bytes(), ".pt"))
    with pytest.raises(LabError, match="card"):
        load_exported(path)


class Carded(torch.nn.Module):
    card = 5


@pytest.mark.parametrize("path", [None, 5, b"m.pt", "m\0.pt", "m" * 300 + ".pt"], ids=repr)
def test_what_is_no_path(model, path):
    calls = (
        lambda: export_model(model, path),
        lambda: load_exported(path),
        lambda: open_model(path),
        lambda: WholeModel.of_run(path),
    )
    for call in calls:
        with pytest.raises(LabError, match="a path|a name that a file can have"):
            call()


def test_what_is_no_model(model, tmp_path):
    calls = (
        lambda: export_model(Carded(), tmp_path / "m.pt"),
        lambda: export_model(None, tmp_path / "m.pt"),
        lambda: WholeModel.of("run"),
    )
    for call in calls:
        with pytest.raises(LabError, match="WholeModel|Trainer"):
            call()
    loaded = load_exported(export_model(model, tmp_path / "m.pt"))
    good = random_pictures(model.card, 2)
    odd = ((good.to_sparse(), "dense"), (good.to("meta"), "meta"), (good.to(torch.float8_e4m3fn), "16, 32 or 64"))
    for pictures, words in odd:
        with pytest.raises(LabError, match=words):
            loaded(pictures)


def test_cards(model):
    card = model.card
    assert ModelCard.from_json(card.to_json(), "x") == card
    newer = card.to_json().replace('"format": 1', '"format": 9')
    wordy = card.to_json().replace('"size": 28', '"size": "big"')
    for text in ("{}", "[]", "", "null", newer, wordy):
        with pytest.raises(LabError):
            ModelCard.from_json(text, "file.pt2")
    with pytest.raises(LabError, match="divisor"):
        ModelCard("a", "b", 1, 28, 28, False, 4, "l2", (0.0,), (1.0,), "", levels=3)


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
