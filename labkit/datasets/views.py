"""Crops of photographs: the random ones of training and the one of evaluation, as the protocols state them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.validation import check_choice, check_number

DRAWS = 5  # uniform numbers behind one random view
LOW_ASPECT, HIGH_ASPECT = 3 / 4, 4 / 3


@dataclass(frozen=True)
class Views:
    """How a photograph becomes what the network sees.

    Parameters
    ----------
    size : pixels of each side that the network sees; 227 in the MLRC protocol.
    side : the shorter side that a picture is resized to first; None for 256 / 227 of `size`.
    square : resize both sides to `side` instead (Ranked List Loss).
    crop : "scaled", a crop of random size and aspect (3/4 ... 4/3), resized to `size`; or "plain", a crop of `size` at a
        random place.
    smallest : side of the smallest scaled crop, as a fraction of `side`; 40/256 in the protocol. The largest is 1.
    flip : the chance of a mirror image.

    Raises
    ------
    LabError : a number out of range, `side` below `size`.
    """

    size: int = 227
    side: int | None = None
    square: bool = False
    crop: str = "scaled"
    smallest: float = 40 / 256
    flip: float = 0.5

    def __post_init__(self) -> None:
        check_number("size", self.size, low=8, high=4096, whole=True)
        if self.side is not None:
            check_number("side", self.side, low=self.size, high=8192, whole=True)
        check_choice("crop", self.crop, ("scaled", "plain"))
        check_number("smallest", self.smallest, low=0, high=1, open_low=True)
        check_number("flip", self.flip, low=0, high=1)

    @property
    def resized(self) -> int:
        """The shorter side after the first resizing, in pixels."""
        return self.side if self.side is not None else round(self.size * 256 / 227)

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Random numbers for n views, (n, 5) in [0, 1): all the chance there is in them.

        They are drawn before the work is dealt out, so that it does not matter who does it, or when.
        """
        return torch.rand(n, DRAWS, generator=generator)

    def crop_box(self, height: int, width: int, draws: tuple[float, ...]) -> tuple[int, int, int, int]:
        """(top, left, height, width) of the random crop of a picture.

        A scaled crop has the area of a square whose side is uniform between `smallest` and 1 times the picture's shorter
        side; its aspect is uniform on a logarithmic scale; a side that would be longer than the picture's is cut.
        """
        if self.crop == "plain":
            high, wide = min(self.size, height), min(self.size, width)
        else:
            edge = min(height, width) * (self.smallest + (1 - self.smallest) * draws[0])
            aspect = math.exp(math.log(LOW_ASPECT) + (math.log(HIGH_ASPECT) - math.log(LOW_ASPECT)) * draws[1])
            wide = max(1, min(width, round(edge * math.sqrt(aspect))))
            high = max(1, min(height, round(edge / math.sqrt(aspect))))
        return int(draws[2] * (height - high + 1)), int(draws[3] * (width - wide + 1)), high, wide

    def random(self, picture: Tensor, draws: Tensor) -> Tensor:
        """uint8 (3, h, w) and its row of `draw` (5,) -> uint8 (3, size, size)."""
        from torchvision.transforms.v2 import functional as transforms

        numbers = tuple(draws.tolist())
        box = self.crop_box(picture.shape[1], picture.shape[2], numbers)
        view: Tensor = transforms.resized_crop(picture, *box, [self.size, self.size], antialias=True)
        return view.flip(2) if numbers[4] < self.flip else view

    def central(self, picture: Tensor) -> Tensor:
        """uint8 (3, h, w), resized already -> its centre, uint8 (3, size, size)."""
        from torchvision.transforms.v2 import functional as transforms

        view: Tensor = transforms.center_crop(picture, [self.size, self.size])
        return view
