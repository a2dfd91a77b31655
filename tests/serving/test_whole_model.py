"""A whole model takes what the same model from a file takes, and refuses what that refuses."""

import os

import pytest
import torch

from labkit.errors import LabError
from labkit.serving import ImageIndex, WholeModel, export_model, open_model, read_pictures
from labkit.serving.formats import ExportedModel
from labkit.training import Experiment, Trainer
from tests.datasets.pictures import picture
from tests.serving.conftest import random_pictures


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One as it is in memory, and as it is in a file."""
    settings = {"steps": 1, "evaluate_every": 1, "sample_size": 20, "data.source": "digits-8x8"}
    whole = WholeModel.of(Trainer(Experiment.preset("poc-ccp", **settings)))
    return whole, open_model(export_model(whole, tmp_path_factory.mktemp("exported") / "m.pt2"))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * torch.nan, lambda x: x * torch.inf, lambda x: x * 255, lambda x: x - 0.5, lambda x: x.byte(),
        lambda x: x[:, :, :8, :8], lambda x: x.repeat(1, 3, 1, 1), lambda x: x[0], lambda x: x[:0], lambda x: x.numpy(),
        lambda x: None,
    ],
)  # fmt: skip
def test_what_is_no_picture_is_refused_by_both(models, change):
    for model in models:
        with pytest.raises(LabError, match="^pictures"):
            model(change(random_pictures(model.card, 2)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_floats_are_taken_by_both(models, dtype):
    whole, exported = models
    assert isinstance(exported, ExportedModel)
    pictures = random_pictures(whole.card, 2).to(dtype)
    torch.testing.assert_close(whole(pictures), exported(pictures), rtol=1e-4, atol=1e-5)
    assert whole(pictures).dtype == torch.float32


def test_a_place_for_an_index_that_leads_back_to_itself_is_refused_before_pictures_are_embedded(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for place in (tmp_path / "loop", tmp_path / "loop" / "inside"):
        with pytest.raises(LabError, match="ELOOP"):
            ImageIndex.check_place(place)


def test_what_is_no_file_is_neither_waited_for_nor_read(models, tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    picture(tmp_path / "whole.png")
    for path, why in ((tmp_path / "pipe.png", "no regular file"), ("/dev/zero", "no regular file"), (tmp_path, "a folder")):
        with pytest.raises(LabError, match=f"1 that cannot: .*{why}"):
            read_pictures([tmp_path / "whole.png", path], models[0].card)
