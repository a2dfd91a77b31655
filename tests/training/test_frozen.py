"""A head on features that are computed once: the same as the whole network, trained in a moment, resumed, exported."""

import numpy as np
import pytest
import torch

from labkit.datasets import load_digits
from labkit.errors import LabError
from labkit.models import PhotoNet
from labkit.training import Experiment, Trainer
from labkit.training.frozen import FeatureSet, FrozenNet, frozen_splits
from labkit.training.photographs import load_photos
from tests.photographs import FROZEN


@pytest.fixture
def make(photo_folder):
    def make(**changes):
        return Experiment.preset("cub-c2-ccp-l", **(FROZEN | {"data.source": str(photo_folder)} | changes))

    return make


def test_features_are_those_of_the_whole_network(make):
    trainer = Trainer(make())
    assert isinstance(trainer.model, FrozenNet) and isinstance(trainer.splits.train, FeatureSet)
    assert [name for name, _ in trainer.model.named_parameters()] == ["head.weight", "head.bias"]
    photos = load_photos(trainer.experiment)
    whole = trainer.model.whole().eval()
    assert isinstance(whole, PhotoNet)
    with torch.no_grad():
        wanted = trainer.normalized(whole(photos.test.images[:].float() / 255))
    torch.testing.assert_close(trainer.embed(trainer.splits.test.images), wanted, rtol=1e-4, atol=1e-5)
    seen = trainer.splits.seen
    with torch.no_grad():
        torch.testing.assert_close(
            seen.images.flatten(1), whole.backbone(photos.seen.images[:].float() / 255), rtol=1e-4, atol=1e-5
        )
    assert torch.equal(seen.labels, photos.seen.labels)
    # principal components of the training pictures: their embeddings have mean zero
    start = trainer.model(trainer.splits.train.images)
    torch.testing.assert_close(start.mean(0), torch.zeros(4), rtol=0, atol=1e-3)


def test_only_the_head_is_trained_and_a_resumed_run_ends_alike(make, tmp_path):
    trainer = Trainer(make())
    backbone = {name: value.clone() for name, value in trainer.model.whole().backbone.state_dict().items()}
    head = trainer.model.head.weight.clone()
    recording = trainer.run(progress=False)
    assert all(torch.equal(value, backbone[name]) for name, value in trainer.model.whole().backbone.state_dict().items())
    assert not torch.equal(trainer.model.head.weight, head) or trainer.best.step == 0
    assert recording.thumbnails is None and recording.proxies.shape[1:] == (3, 2, 4)
    first = Trainer(make(), directory=tmp_path / "run")
    first.step(3)
    again = Trainer(make(), directory=tmp_path / "run", resume=True).run(progress=False)
    np.testing.assert_array_equal(again.embeddings, recording.embeddings)
    assert again.final == recording.final


def test_the_backbone_runs_once_for_each_picture(make, monkeypatch):
    seen = []
    plain = PhotoNet.__init__

    def watched(self, backbone, size=128):
        backbone.register_forward_hook(lambda m, inputs, out: seen.append(len(out)))
        plain(self, backbone, size)

    monkeypatch.setattr(PhotoNet, "__init__", watched)
    Trainer(make()).run(progress=False)
    first = sum(seen)
    Trainer(make(seed=4)).run(progress=False)
    seeded = sum(seen) - first
    Trainer(make(**{"loss.options.neg_margin": 0.2})).run(progress=False)
    assert first == seeded > 0 and sum(seen) == first + seeded, "other settings use the features of the first run"


def test_what_is_refused(make):
    with pytest.raises(LabError, match="several levels"):
        make(**{"network.name": "bn-inception", "network.levels": "high", "network.head": "random"})
    with pytest.raises(LabError, match="for small"):
        make(**{"network.name": "small", "network.head": "random"})
    with pytest.raises(LabError, match="photographs on disk"):
        frozen_splits(make(), load_digits("digits-8x8"), torch.device("cpu"))
