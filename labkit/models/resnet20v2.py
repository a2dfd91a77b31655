"""ResNet20 v2: the network of the CCP paper's MNIST study."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from labkit.models.checks import check_images, check_sizes


class PreActivationBlock(nn.Module):
    """Batch norm, ReLU, 3 x 3 convolution, twice; the input is added to the result (He et al. 2016, figure 4e)."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        changes_shape = stride != 1 or in_channels != out_channels
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False) if changes_shape else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x), inplace=True)
        skip = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(F.relu(self.norm2(self.conv1(active)), inplace=True))
        return out + skip


class ResNet20V2(nn.Module):
    """Pre-activation residual network, 3 stages of 3 blocks with 16, 32 and 64 channels, then one linear layer.

    Parameters
    ----------
    embedding_size : D, the width of the output; 2 draws the plane.
    in_channels : channels of the input; 1 for grey digits, 3 for colour.

    Shapes
    ------
    images (n, in_channels, h, w) with h, w >= 4 -> embeddings (n, embedding_size), not normalised.

    References
    ----------
    He, Zhang, Ren, Sun: Identity Mappings in Deep Residual Networks, 2016. Used with D = 2 on MNIST in
    "Deep Metric Learning with Chance Constraints", section "Proof of the concept".

    Examples
    --------
    >>> import torch
    >>> ResNet20V2(embedding_size=2)(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 2])
    """

    widths = (16, 32, 64)
    min_side = 4

    def __init__(self, embedding_size: int = 2, in_channels: int = 1) -> None:
        super().__init__()
        check_sizes(embedding_size=embedding_size, in_channels=in_channels)
        self.embedding_size, self.in_channels = embedding_size, in_channels
        self.stem = nn.Conv2d(in_channels, self.widths[0], 3, padding=1, bias=False)
        stages, previous = [], self.widths[0]
        for number, width in enumerate(self.widths):
            blocks = [PreActivationBlock(previous, width, stride=1 if number == 0 else 2)]
            blocks += [PreActivationBlock(width, width, stride=1) for _ in range(2)]
            stages.append(nn.Sequential(*blocks))
            previous = width
        self.stages = nn.ModuleList(stages)
        self.norm = nn.BatchNorm2d(previous)
        self.head = nn.Linear(previous, embedding_size)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(check_images(self, images))
        for stage in self.stages:
            x = stage(x)
        pooled = F.relu(self.norm(x), inplace=True).mean(dim=(2, 3))  # (n, 64)
        embeddings: Tensor = self.head(pooled)
        return embeddings
