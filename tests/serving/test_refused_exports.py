"""What cannot be exported or opened, and pictures that an exported model does not take."""

import pytest
import torch

from labkit.errors import LabError
from labkit.serving import ModelCard, WholeModel, export_model, load_exported, open_model
from labkit.serving.formats import SUFFIXES
from labkit.serving.seal import seal
from tests.serving.conftest import random_pictures


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
