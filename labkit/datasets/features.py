"""What a frozen network makes of a set of pictures, computed once and kept: heads then train in seconds."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from labkit.datasets.images import ImageSet
from labkit.datasets.photos import PhotoSet
from labkit.datasets.roots import cache_root
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.threads import give_way
from labkit.validation import describe

_END = struct.Struct("<8sI")  # behind the array, where NumPy does not look: a mark, and the CRC-32 of all before it
_MARK = b"labkit-f"


@torch.no_grad()
def frozen_features(
    network: Callable[[Tensor], Tensor],
    pictures: ImageSet | PhotoSet,
    key: str,
    *,
    folder: Path | None = None,
    chunk: int = 100,
    progress: bool = False,
) -> Tensor:
    """Features of the central views by a network that does not change.

    A file ends in a sum of its bytes, which is compared whenever the file is opened, and a damaged one computed again. The
    heads that are trained on it read all of it anyway, and it has a hundredth of the pictures' bytes (CUB's 11,788 by 2,048
    features: 97 MB, a tenth of a second).

    Parameters
    ----------
    network : bytes (m, 3, h, w) -> features (m, F); the caller scales the bytes and puts the network into eval mode.
    pictures : n of them. key : names the network's weights and all that is done to the bytes, e.g. `weights_digest(net)`.
    folder : where to keep them; None for one under `cache_root()`. chunk : pictures at once.

    Returns
    -------
    float32 (n, F), mapped from the file: to be read only.

    Raises
    ------
    LabError : the network gives something else, NaN or infinity; the disk is full.
    """
    name = hashlib.sha256(f"labkit-features-1 {key} {identity_of(pictures)}".encode()).hexdigest()[:32]
    path = (folder or cache_root() / "features") / f"{name}.npy"
    found = _open(path, len(pictures))
    if found is not None:
        return found
    n, images = len(pictures), pictures.images

    def write(file: BinaryIO) -> None:
        from tqdm import tqdm

        sums = _Summing(file)
        for start in tqdm(range(0, n, chunk), desc="features", disable=not progress):
            give_way()
            features = network(images[start : start + chunk])
            if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != min(chunk, n - start):
                raise LabError("network", f"features ({min(chunk, n - start)}, F)", describe(features))
            values = features.float().cpu().numpy()
            if not np.isfinite(values).all():
                got = f"NaN or infinity among pictures {start} to {start + len(values) - 1}"
                raise LabError("network", "finite features", got)
            if start == 0:
                header = {"descr": "<f4", "fortran_order": False, "shape": (n, values.shape[1])}
                np.lib.format.write_array_header_1_0(sums, header)
            sums.write(values.astype("<f4").tobytes())
        file.write(_END.pack(_MARK, sums.sum))

    write_atomically(path, write)
    computed = _open(path, n)
    if computed is None:
        raise LabError(str(path), "the features that were just written", "something else", "Is the disk in order?")
    return computed


def identity_of(pictures: ImageSet | PhotoSet) -> str:
    """Changes whenever a picture, their order, or how they are cut to size does."""
    if isinstance(pictures, PhotoSet):
        return pictures.identity
    content = pictures.images.contiguous().numpy()
    return hashlib.sha256(repr(content.shape).encode() + content.tobytes()).hexdigest()


class _Summing:
    """A file to be written to, with the CRC-32 of what was."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.sum = file, 0

    def write(self, data: bytes) -> int:
        self.sum = zlib.crc32(data, self.sum)
        return self._file.write(data)


def _open(path: Path, n: int) -> Tensor | None:
    """The mapped features (n, F); None where there are none, or damaged ones, or some without a sum."""
    with contextlib.suppress(OSError, ValueError, EOFError):
        content = np.memmap(path, dtype=np.uint8, mode="r")
        if content[-_END.size :].tobytes() != _END.pack(_MARK, zlib.crc32(content[: -_END.size].data)):
            return None
        array = np.load(path, mmap_mode="c", allow_pickle=False)
        if array.ndim == 2 and len(array) == n and array.dtype == np.float32:
            return torch.from_numpy(array)
    return None
