"""Files of decoded pictures: pixels one after the other, to be mapped, then what is known of each, with a sum to check it by.

What is checked when. On opening: the end mark, the facts (zip carries a sum of them), and that the pictures lie one after the
other and fill the file, so that no byte can be missing or moved. Pixels themselves are not read then, which for gigabytes
would take minutes: each picture has a CRC-32, compared the first time that the picture is read by a process. That reads no
byte that is not read anyway, costs about a millisecond a megabyte, and costs later epochs nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from labkit.datasets.decoding import Decoded

Looked = tuple[str, str, Decoded | None]  # what is wrong or "", digest of the file, the picture or None
_END = struct.Struct("<Q8s")
_MARK = b"labkit-1"


@dataclass
class Shard:
    """An opened file of m pictures.

    pixels : uint8, mapped. sizes : int64 (m, 2), height and width. offsets : int64 (m,). sums : uint32 (m,), CRC-32 of each
    picture's pixels. problems, kinds, digests : m texts as in `PictureStore`.
    """

    path: Path
    pixels: NDArray[np.uint8]
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sums: NDArray[np.uint32]
    problems: NDArray[np.str_]
    kinds: NDArray[np.str_]
    digests: NDArray[np.str_]
    _whole: NDArray[np.bool_] = field(init=False)  # which pictures have been compared with their sums

    def __post_init__(self) -> None:
        self._whole = np.zeros(len(self.sums), dtype=np.bool_)

    def picture(self, place: int) -> NDArray[np.uint8] | None:
        """uint8 (h, w, 3) in the mapped memory; None where the bytes are not those that were written."""
        pixels = self._at(place)
        if not self._whole[place]:
            if zlib.crc32(pixels.data) != self.sums[place]:
                return None
            self._whole[place] = True
        return pixels

    def mend(self, place: int, pixels: NDArray[np.uint8]) -> bool:
        """Put a picture that was damaged back in its place; whether `pixels` are those that were written there."""
        flat = np.ascontiguousarray(pixels)
        if flat.shape[:2] != tuple(self.sizes[place]) or zlib.crc32(flat.data) != self.sums[place]:
            return False
        with contextlib.suppress(OSError), open(self.path, "r+b") as file:  # a cache that may only be read stays as it is
            file.seek(int(self.offsets[place]))
            file.write(flat.data)
        self._at(place)[:] = flat
        return True

    def _at(self, place: int) -> NDArray[np.uint8]:
        (height, width), offset = self.sizes[place], self.offsets[place]
        return self.pixels[offset : offset + height * width * 3].reshape(height, width, 3)


def write_shard(file: BinaryIO, looked: Iterable[Looked], keep_pixels: bool) -> None:
    """Write the pictures in the order they come, and what is known of them."""
    sizes, offsets, sums, problems, kinds, digests = [], [], [], [], [], []
    for problem, digest, decoded in looked:
        pixels = np.ascontiguousarray(decoded.pixels) if decoded is not None else np.zeros((0, 0, 3), np.uint8)
        sizes.append(pixels.shape[:2])
        offsets.append(file.tell())
        sums.append(zlib.crc32(pixels.data))
        problems.append(problem)
        digests.append(digest)
        kinds.append(decoded.kind if decoded is not None else "")
        if keep_pixels:
            file.write(pixels.data)
    # A mapped file may not be empty, and one of bad pictures alone would be.
    file.write(b"\0")
    facts = io.BytesIO()
    np.savez_compressed(
        facts, sizes=np.array(sizes, dtype=np.int64), offsets=np.array(offsets, dtype=np.int64),
        sums=np.array(sums, dtype=np.uint32), problems=np.array(problems, dtype=np.str_),
        kinds=np.array(kinds, dtype=np.str_), digests=np.array(digests, dtype=np.str_),
    )  # fmt: skip
    file.write(facts.getvalue())
    file.write(_END.pack(len(facts.getvalue()), _MARK))


def open_shard(path: Path, count: int, keep_pixels: bool) -> Shard | None:
    """A file of `count` pictures; None where it is not there, or damaged, or without sums, and to be built again."""
    try:
        with open(path, "rb") as file:
            file.seek(-_END.size, os.SEEK_END)
            end = file.tell()
            length, mark = _END.unpack(file.read(_END.size))
            if mark != _MARK or length > end:
                return None
            file.seek(end - length)
            with np.load(io.BytesIO(file.read(length)), allow_pickle=False) as archive:
                facts = dict(archive)
        # "c": changes would stay in memory. `mend` makes some, and torch wants memory that may be written to.
        shard = Shard(path, np.memmap(path, dtype=np.uint8, mode="c", shape=(end - length,)), **facts)
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, struct.error):
        return None
    lengths = shard.sizes.prod(axis=1) * 3 * keep_pixels
    ends = np.cumsum(lengths)
    whole = len(ends) == count and len(shard.pixels) == ends[-1] + 1 and np.array_equal(shard.offsets, ends - lengths)
    return shard if whole else None
