"""What every network checks about the pictures it is given."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from labkit.errors import LabError
from labkit.validation import check_number, describe


class TakesImages(Protocol):
    """A network with a fixed number of input channels and a smallest picture it can pool."""

    in_channels: int
    min_side: int


def check_sizes(**sizes: int) -> None:
    """Refuse sizes that are not whole numbers of at least 1."""
    for name, value in sizes.items():
        check_number(name, value, low=1, whole=True)


def check_images(model: TakesImages, images: Tensor) -> Tensor:
    """Return `images` if they are floating, (n, in_channels, h, w), and large enough for `model`.

    Raises
    ------
    LabError : another number of dimensions or channels, too small, empty, or integers.
    """
    wanted = f"images (n, {model.in_channels}, h, w) with h, w >= {model.min_side}"
    if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[1] != model.in_channels:
        raise LabError("images", wanted, describe(images))
    if images.shape[0] == 0 or min(images.shape[2:]) < model.min_side:
        raise LabError("images", wanted, describe(images))
    if not images.is_floating_point():
        raise LabError("images", "a floating dtype", describe(images), "Scale bytes with .float() / 255.")
    return images
