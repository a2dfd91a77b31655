"""Thumbnails: braille dots against the pixels they stand for, the PNG sheet against an independent decoder."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labkit.errors import LabError
from labkit.plots.thumbnails import braille, grey_images, sprite_sheet

# Dots 1 … 8 of a braille cell: (row, column), bit number = dot - 1.
PLACES = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]


def dots(text: str) -> set[tuple[int, int]]:
    """Every dot of a braille picture as (row, column)."""
    found = set()
    for line_number, line in enumerate(text.split("<br>")):
        for cell_number, cell in enumerate(line):
            bits = ord(cell) - 0x2800
            assert 0 <= bits < 256
            found |= {
                (4 * line_number + r, 2 * cell_number + c) for bit, (r, c) in enumerate(PLACES) if bits >> bit & 1
            }
    return found


@given(st.integers(1, 13), st.integers(1, 13), st.integers(0, 2**32 - 1))
def test_braille_shows_the_bright_pixels(height: int, width: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 2, (height, width), dtype=np.uint8) * 200
    bright = {(int(r), int(c)) for r, c in np.argwhere(image > 100)}
    skipped = 4 * (min((r for r, _ in bright), default=0) // 4)  # empty lines above are left out
    assert dots(braille(image[None])[0]) == {(r - skipped, c) for r, c in bright}


def test_braille_of_an_empty_picture_is_one_empty_cell() -> None:
    assert braille(np.zeros((2, 28, 28), dtype=np.uint8)) == ["\u2800"] * 2


def test_braille_threshold_is_half_of_the_brightest_pixel() -> None:
    image = np.zeros((1, 4, 2), dtype=np.uint8)
    image[0, 0] = [60, 31]
    image[0, 1] = [30, 0]
    assert dots(braille(image)[0]) == {(0, 0), (0, 1)}


@pytest.mark.parametrize(("n", "height", "width"), [(5, 28, 28), (7, 5, 3), (1, 1, 1)])
def test_sprite_sheet_holds_every_picture_in_its_place(n: int, height: int, width: int) -> None:
    images = np.random.default_rng(n).integers(0, 256, (n, height, width), dtype=np.uint8)
    sheet = np.array(Image.open(io.BytesIO(sprite_sheet(images, columns=3))).convert("L"))
    assert sheet.shape == (-(-n // 3) * height, 3 * width)
    for i, image in enumerate(images):
        row, column = i // 3, i % 3
        found = sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]
        assert np.abs(found.astype(int) - image).max() <= 9  # 16 levels of grey


def test_thumbnails_of_another_shape_are_refused() -> None:
    with pytest.raises(LabError, match="thumbnails: expected 3 grey pictures"):
        grey_images("thumbnails", np.zeros((2, 4, 4), dtype=np.uint8), 3)
    with pytest.raises(LabError, match="dtype float64"):
        grey_images("thumbnails", np.zeros((3, 4, 4)), 3)


def test_a_channel_of_one_and_a_tensor_are_welcome() -> None:
    assert grey_images("thumbnails", torch.zeros(3, 1, 4, 5, dtype=torch.uint8), 3).shape == (3, 4, 5)
