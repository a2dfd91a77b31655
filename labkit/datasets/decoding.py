"""One picture file to bytes of one size, whatever it is; what cannot be shown is told in words."""

from __future__ import annotations

import io
import math
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 8  # pixels of the shorter side below which a picture shows nothing
LONGEST = 16  # times the shorter side
MOST_PIXELS = 80_000_000

_GREY = {"1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"}


class BadPicture(Exception):
    """A file that cannot be used as a picture; the message says why."""


@dataclass(frozen=True)
class Decoded:
    """pixels : uint8 (h, w, 3), RGB. kind : "" for a colour picture, else "grey" or "CMYK", as the file had it."""

    pixels: NDArray[np.uint8]
    kind: str


def picture_bytes(path: Path) -> bytes:
    """The bytes of a picture file.

    Raises
    ------
    BadPicture : nothing there, not to be read, or no file: a pipe would be waited for, a device read without end.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadPicture("a folder" if path.is_dir() else "no regular file")
        return path.read_bytes()
    except OSError as error:
        raise BadPicture(error.strerror or type(error).__name__) from error


def decode(data: bytes, side: int, square: bool = False) -> Decoded:
    """Decode a picture file and resize it (bilinear, with antialiasing).

    Grey, palette, CMYK and 16-bit pictures become RGB; what is transparent lies on white; the first picture of an
    animation counts; a camera's note on which side is up is obeyed. In grey pictures of more than 8 bits white is 65535, or 255
    where no number is larger; in one of floats it is 1 where no number is larger.

    Parameters
    ----------
    data : the file's bytes.
    side : the shorter side afterwards, in pixels; `square` makes both sides that long.

    Raises
    ------
    BadPicture : no picture, damaged or cut off, a side below 8 pixels, one side 16 times the other or longer, more than 80
        million pixels, NaN or numbers beyond 0 … 65535.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
            _check_size(width, height)
            picture.draft(None, (2 * side, 2 * side))  # a JPEG of thousands of pixels need not be decoded in full
            upright = ImageOps.exif_transpose(picture)
            kind = "grey" if picture.mode in _GREY else "CMYK" if picture.mode == "CMYK" else ""
            colour = _colour(upright)
            width, height = colour.size
            shorter = min(width, height)
            size = (side, side) if square else (side * width // shorter, side * height // shorter)
            if colour.size != size:
                colour = colour.resize(size, Image.Resampling.BILINEAR)
            return Decoded(np.asarray(colour), kind)
    except BadPicture:
        raise
    except Image.DecompressionBombError as error:
        raise BadPicture(f"more than {MOST_PIXELS / 1e6:.0f} million pixels") from error
    except Exception as error:  # Pillow's readers raise anything on a damaged file: OSError, SyntaxError, struct.error …
        said = re.sub(r" ?<_io\.BytesIO object at \w+>", "", str(error))  # where in memory it lay tells nobody anything
        raise BadPicture(said or type(error).__name__) from error


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise BadPicture(f"{width:,} x {height:,}, more than {MOST_PIXELS / 1e6:.0f} million pixels")
    if min(width, height) < SMALLEST:
        raise BadPicture(f"{width:,} x {height:,} pixels, a side below {SMALLEST}")
    if max(width, height) >= LONGEST * min(width, height):
        raise BadPicture(f"{width:,} x {height:,} pixels, one side {LONGEST} times the other or longer")


def _colour(picture: Any) -> Any:
    """Any Pillow image as RGB."""
    from PIL import Image

    if picture.mode == "F" or picture.mode.startswith("I"):  # 16 or 32 bits of grey: convert() would cut at 255
        values = np.asarray(picture, dtype=np.float64)
        low, high = float(values.min()), float(values.max())
        if not math.isfinite(low) or not math.isfinite(high):
            raise BadPicture("NaN or infinite numbers in it")
        if low < 0 or high > 65535:
            raise BadPicture(f"numbers from {low:g} to {high:g} in it, of which none may be below 0 or above 65535")
        top = 1.0 if picture.mode == "F" and high <= 1 else 255.0 if high <= 255 else 65535.0
        picture = Image.fromarray((values.clip(0, top) * (255 / top)).round().astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        picture = Image.alpha_composite(white, layer)
    return picture if picture.mode == "RGB" else picture.convert("RGB")
