"""Networks and graphs that are not what their cards say, and cards that say what cannot be."""

import dataclasses
import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from labkit.errors import LabError
from labkit.serving import ModelCard, load_exported
from labkit.serving.seal import seal
from tests.serving.scripts import CARD_2, script


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x, x


class Scalar(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.sum()


class Wide(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:, :5]


class OneRow(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:1, :2]


class NaN(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:, :2] * float("nan")


class Whole(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:, :2].int()


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:, :2].half()


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:, :2].double()


class OtherShape(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.matmul(x.flatten(1), torch.ones(3, 3))


class NoInput(torch.nn.Module):
    def forward(self):
        return torch.ones(2, 2)


class Right(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.flatten(1)[:, :2]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("module", [Two, Scalar, Wide, OneRow, NaN, Whole, Half, Double, OtherShape, NoInput])
def test_a_network_that_is_not_what_its_card_says(tmp_path, module):
    with pytest.raises(LabError, match="as its card says"):
        load_exported(script(module(), tmp_path / "m.pt"))
    pictures = torch.rand(4, 1, 8, 8)
    assert torch.equal(load_exported(script(Right(), tmp_path / "m.pt"))(pictures), pictures.flatten(1)[:, :2])


def flattening(path, shape=(None, 1, 8, 8), takes="pictures", gives="embeddings", width=64):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ((takes, shape), (gives, (None, 64)))]
    graph = helper.make_graph([helper.make_node("Flatten", [takes], [gives])], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    entry = model.metadata_props.add()
    entry.key, entry.value = "labkit", dataclasses.replace(CARD_2, embedding_size=width).to_json()
    path.write_bytes(seal(model.SerializeToString(), ".onnx"))
    return path


def test_an_onnx_graph_that_is_not_what_its_card_says(tmp_path):
    path = tmp_path / "m.onnx"
    assert load_exported(flattening(path))(torch.rand(2, 1, 8, 8)).shape == (2, 64)
    onnx.checker.check_model(onnx.load(path))
    for change, words in (
        ({"takes": "x"}, "'x'"), ({"gives": "y"}, "'y'"), ({"shape": (1, 1, 8, 8)}, "as its card says"),
        ({"shape": (None, 3, 8, 8)}, "as its card says"), ({"width": 7}, "as its card says"),
    ):  # fmt: skip
        with pytest.raises(LabError, match=words):
            load_exported(flattening(path, **change))


def test_an_onnx_graph_with_its_weights_in_another_file(tmp_path):
    (tmp_path / "secret").write_bytes(np.zeros(128, np.float32).tobytes())
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64, 2], data_location=TensorProto.EXTERNAL)
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "secret"
    takes = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, (None, 1, 8, 8))
    gives = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, (None, 2))
    nodes = [helper.make_node("Flatten", ["pictures"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["embeddings"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [takes], [gives], [weights]))
    (tmp_path / "m.onnx").write_bytes(seal(model.SerializeToString(), ".onnx"))
    with pytest.raises(LabError, match="another file"):
        load_exported(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "change",
    [
        {"mean": "a"}, {"mean": [0.0, 0.0]}, {"mean": [None]}, {"mean": None}, {"std": [0.0]}, {"std": [-1.0]}, {"std": ["1"]},
        {"trained_on": "abc"}, {"trained_on": [1]}, {"experiment": 5}, {"format": True}, {"format": 1.0},
        {"embedding_size": 2**62}, {"weights": 5}, {"levels": 2.0},
    ],
    ids=str,
)  # fmt: skip
def test_edited_cards(change):
    facts = json.loads(CARD_2.to_json())
    assert ModelCard.from_json(json.dumps(facts), "m") == CARD_2
    with pytest.raises(LabError):
        ModelCard.from_json(json.dumps(facts | change), "m")
