"""Small pictures of samples: as braille text for hover labels in any notebook, as one PNG sheet for the report."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError

# Bit of each dot in a braille cell of 4 rows and 2 columns (Unicode block U+2800).
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def grey_images(name: str, images: Any, n: int) -> NDArray[np.uint8]:
    """(n, h, w) uint8 pictures out of (n, h, w) or (n, 1, h, w); arrays and tensors alike.

    Raises
    ------
    LabError : another shape, another count or another dtype.
    """
    array = np.asarray(images.cpu() if hasattr(images, "cpu") else images)
    if array.ndim == 4 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 3 or len(array) != n or array.dtype != np.uint8:
        raise LabError(
            name, f"{n} grey pictures, uint8 of shape ({n}, h, w)", f"dtype {array.dtype}, shape {array.shape}"
        )
    return array


def braille(images: NDArray[np.uint8]) -> list[str]:
    """Each (h, w) picture as lines of braille characters joined by <br>, every dot a pixel that is brighter than the
    picture's mid-grey.

    A 28 x 28 digit becomes at most 7 lines of 14 characters. Empty cells hold the dotless braille character, which is
    as wide as the others; those after a line's last dot, and lines without any dot above and below the picture, are
    left out to save bytes.
    """
    n, height, width = images.shape
    threshold = images.reshape(n, -1).max(axis=1, initial=0)[:, None, None] / 2
    lit = np.zeros((n, -(-height // 4) * 4, -(-width // 2) * 2), dtype=bool)
    lit[:, :height, :width] = images > threshold
    cells = lit.reshape(n, lit.shape[1] // 4, 4, lit.shape[2] // 2, 2)
    codes = 0x2800 + np.einsum("nrdcw,dw->nrc", cells, _DOTS)
    return ["<br>".join(_lines(picture)) for picture in codes]


def _lines(codes: NDArray[np.int64]) -> list[str]:
    lines = ["".join(map(chr, line)).rstrip("\u2800") for line in codes]
    written = [i for i, line in enumerate(lines) if line]
    return [line or "\u2800" for line in lines[written[0] : written[-1] + 1]] if written else ["\u2800"]


def sprite_sheet(images: NDArray[np.uint8], columns: int = 64) -> bytes:
    """All (n, h, w) pictures in one PNG of 16 grey levels; picture i lies at (i // columns, i % columns)."""
    n, height, width = images.shape
    rows = -(-n // columns)
    padded = np.zeros((rows * columns, height, width), dtype=np.uint8)
    padded[:n] = images
    sheet = padded.reshape(rows, columns, height, width).swapaxes(1, 2).reshape(rows * height, columns * width)
    return _png(sheet)


def any_images(name: str, images: Any, n: int) -> NDArray[np.uint8]:
    """(n, h, w) grey or (n, h, w, 3) colour uint8 pictures out of these, (n, 1, h, w) or (n, 3, h, w); also tensors.

    Raises
    ------
    LabError : another shape, another count or another dtype.
    """
    array = np.asarray(images.cpu() if hasattr(images, "cpu") else images)
    if array.ndim == 4 and array.shape[1] == 3 and array.shape[3] != 3:
        array = np.moveaxis(array, 1, 3)
    if array.ndim == 4 and array.shape[3] == 3 and len(array) == n and array.dtype == np.uint8:
        return array
    return grey_images(name, array, n)


def picture_png(image: NDArray[np.uint8]) -> bytes:
    """One grey (h, w) or colour (h, w, 3) picture as PNG with 8 bits a channel."""
    height, width = image.shape[:2]
    return _file(width, height, 8, 0 if image.ndim == 2 else 2, image.reshape(height, -1))


def _png(grey: NDArray[np.uint8]) -> bytes:
    """A grey (h, w) array as PNG with 4 bits a pixel."""
    height, width = grey.shape
    nibbles = np.zeros((height, width + width % 2), dtype=np.uint8)
    nibbles[:, :width] = (grey.astype(np.uint16) * 15 + 127) // 255
    return _file(width, height, 4, 0, ((nibbles[:, 0::2] << 4) | nibbles[:, 1::2]).astype(np.uint8))


def _file(width: int, height: int, bits: int, colour: int, packed: NDArray[np.uint8]) -> bytes:
    """A PNG of packed lines (height, bytes); written here so that plots need no imaging library."""
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), packed], axis=1)  # each starts with filter type 0

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )
