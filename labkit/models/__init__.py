"""Networks: pictures in, embeddings out. None of them normalises; the loss does."""

from labkit.models.backbones import Backbone, PhotoNet, build_photo_net
from labkit.models.heads import MultiLevelHead
from labkit.models.initialise import build_seeded, initialise
from labkit.models.resnet20v2 import ResNet20V2
from labkit.models.small_net import SmallNet
from labkit.models.weights import head_from_pca, weights_digest

__all__ = [
    "Backbone",
    "MultiLevelHead",
    "PhotoNet",
    "ResNet20V2",
    "SmallNet",
    "build_photo_net",
    "build_seeded",
    "head_from_pca",
    "initialise",
    "weights_digest",
]
