"""Networks: pictures in, embeddings out. None of them normalises; the loss does."""

from labkit.models.heads import MultiLevelHead
from labkit.models.initialise import build_seeded, initialise
from labkit.models.resnet20v2 import ResNet20V2
from labkit.models.small_net import SmallNet

__all__ = ["MultiLevelHead", "ResNet20V2", "SmallNet", "build_seeded", "initialise"]
