"""Models and pictures small enough for a test of a second."""

import pytest
import torch

from labkit.serving import WholeModel
from labkit.training import Experiment, Trainer
from tests.datasets.pictures import make_folder

SMALL = {
    "steps": 3, "evaluate_every": 2, "stop_patience": 0, "sample_size": 20, "photos.size": 32, "photos.side": 36,
    "data.classes_per_batch": 3, "data.samples_per_class": 2, "network.weights": "none", "network.pooling": "average",
    "network.head": "pca", "network.train": "head", "network.name": "timm:mobilenetv3_small_050", "network.embedding_size": 4,
    "network.precision": "float32", "projections.pool_size": 4, "projections.proxies_per_class": 2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    """Eight classes of five pictures each."""
    return make_folder(tmp_path / "pictures", [f"c{i}" for i in range(8)], each=5)


@pytest.fixture
def experiment(folder):
    def make(preset="cub-c2-ccp-l", **changes):
        return Experiment.preset(preset, **(SMALL | {"data.source": str(folder)} | changes))

    return make


@pytest.fixture
def digits():
    """A trainer on scikit-learn's digits that has done three steps."""
    settings = {"steps": 3, "evaluate_every": 3, "sample_size": 50, "data.source": "digits-8x8"}
    trainer = Trainer(Experiment.preset("poc-ccp", **settings))
    trainer.run(progress=False)
    return trainer


@pytest.fixture
def model(digits):
    return WholeModel.of(digits)


def random_pictures(card, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, card.channels, card.size, card.size, generator=generator)
