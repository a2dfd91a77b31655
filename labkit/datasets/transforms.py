"""Pictures made ready for a network, and slightly changed on the way while training."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from labkit.validation import check_choice


class Standardize:
    """Bytes to floats with zero mean and unit variance per channel, as measured on the training pictures.

    Parameters
    ----------
    images : (n, c, h, w) bytes to measure.
    """

    def __init__(self, images: Tensor) -> None:
        wide = images.double() if len(images) <= 10_000 else images[:: len(images) // 10_000].double()
        self.mean = (wide.mean(dim=(0, 2, 3), keepdim=True) / 255).float()
        self.std = (wide.std(dim=(0, 2, 3), keepdim=True) / 255).float().clamp_min(1e-3)

    def __call__(self, images: Tensor) -> Tensor:
        """(n, c, h, w) bytes -> floats of the same shape, on the pictures' device."""
        return (images.float() / 255 - self.mean.to(images.device)) / self.std.to(images.device)


def augment(images: Tensor, how: str, generator: torch.Generator) -> Tensor:
    """Change each picture a little, at random.

    Parameters
    ----------
    images : (n, c, h, w) floats; the top left pixel of each channel counts as background.
    how : "none"; "shift", by up to 2 of 28 pixels each way; "affine", that together with a turn by up to 10 degrees,
        a scale in 0.9 ... 1.1 and a shear of up to 0.2 (bilinear).
    generator : a CPU generator, the only source of chance.
    """
    check_choice("how", how, ("none", "shift", "affine"))
    if how == "none":
        return images
    return _shift(images, generator) if how == "shift" else _affine(images, generator)


def _shift(images: Tensor, generator: torch.Generator) -> Tensor:
    n, channels, height, width = images.shape
    reach = max(1, round(min(height, width) / 14))
    padded = F.pad(images, (reach, reach, reach, reach), mode="replicate")
    offsets = torch.randint(0, 2 * reach + 1, (2, n), generator=generator).to(images.device)
    rows = offsets[0][:, None] + torch.arange(height, device=images.device)  # (n, h)
    columns = offsets[1][:, None] + torch.arange(width, device=images.device)  # (n, w)
    each = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[:, None, None]
    return padded[each, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _affine(images: Tensor, generator: torch.Generator) -> Tensor:
    n = len(images)
    turn, scale, shear, right, down = (2 * torch.rand(5, n, generator=generator) - 1).unbind(0)
    angle, size = turn * math.radians(10), 1 + 0.1 * scale
    matrix = torch.zeros(n, 2, 3)
    matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 0, 2] = size * angle.cos(), 0.2 * shear - angle.sin(), right / 7
    matrix[:, 1, 0], matrix[:, 1, 1], matrix[:, 1, 2] = angle.sin(), size * angle.cos(), down / 7
    background = images[:, :, :1, :1]  # grid_sample pads with 0, so that the background is moved to 0 and back
    grid = F.affine_grid(matrix.to(images), list(images.shape), align_corners=False)
    return F.grid_sample(images - background, grid, align_corners=False) + background
