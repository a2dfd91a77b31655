"""Models and pictures small enough for a test of a second."""

import pytest
import torch

from labkit.serving import WholeModel
from labkit.training import Experiment, Trainer
from tests.photographs import FROZEN


@pytest.fixture
def experiment(photo_folder):
    """A head of one's own on a frozen network, for three steps."""

    def make(preset="cub-c2-ccp-l", **changes):
        return Experiment.preset(preset, **(FROZEN | {"steps": 3, "data.source": str(photo_folder)} | changes))

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
