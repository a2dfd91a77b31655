"""MNIST as its archive unpacks (`MNIST/raw/`, the layout of torchvision.datasets.MNIST), read where it lies."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labkit.datasets.fetching import gzip_pieces
from labkit.datasets.images import ImageSet
from labkit.datasets.registry import Content, DataSet, registry
from labkit.errors import LabError
from labkit.files import storage_error

_UNSIGNED_BYTES = 0x08  # the idx format's code for the only element type that MNIST uses


def mnist_is_there(root: Path, data_set: DataSet | None = None) -> bool:
    """Whether all four files lie under `root`, plain or as .gz. Says nothing about their content."""
    data_set = data_set or registry()["mnist"]
    return all(_locate(root / data_set.folder, file.final) is not None for file in data_set.files)


def read_mnist(root: Path, data_set: DataSet | None = None) -> tuple[ImageSet, ImageSet]:
    """Read the training set and the test set, and check every file against the registry's checksum.

    Parameters
    ----------
    root : the data root, holding `MNIST/raw/`.
    data_set : another entry than the registry's "mnist": four files in its order (training images and labels, test
        images and labels).

    Returns
    -------
    (train, test) : ImageSet each, images uint8 (n, 1, 28, 28).

    Raises
    ------
    LabError : a file is absent, cut off, or not the one it should be; the message names it.
    """
    data_set = data_set or registry()["mnist"]
    folder = root / data_set.folder
    arrays = [_read_checked(folder, file.final) for file in data_set.files]
    return _pair(folder, *arrays[:2]), _pair(folder, *arrays[2:])


def _locate(folder: Path, content: Content) -> Path | None:
    """The plain file or its .gz, whichever is there."""
    candidates = folder / content.name, folder / f"{content.name}.gz"
    return next((path for path in candidates if path.is_file()), None)


def _read_checked(folder: Path, content: Content) -> Tensor:
    path = _locate(folder, content)
    if path is None:
        hint = "Get it with `labkit data get mnist`, or set LABKIT_DATA to the folder that holds MNIST/raw."
        raise LabError(str(folder / content.name), "a file of MNIST", "no such file", hint)
    data = _read_bytes(path)
    # First, since it can tell what is wrong, where a checksum only tells that something is.
    array = _parse_idx(path, data)
    if hashlib.sha256(data).hexdigest() != content.sha256:
        hint = "Remove it and run `labkit data get mnist`."
        raise LabError(str(path), f"MNIST's {content.name}", "other content (checksum differs)", hint)
    return array


def _read_bytes(path: Path) -> bytes:
    try:
        return b"".join(gzip_pieces(path)) if path.suffix == ".gz" else path.read_bytes()
    except OSError as error:
        raise storage_error(path, error) from error


def _parse_idx(path: Path, data: bytes) -> Tensor:
    """The uint8 tensor, in memory of its own, that an idx file of unsigned bytes holds; LabError where it is no such file.

    The format: two zero bytes, the element type, the number of dimensions, each dimension as a big-endian 32-bit
    number, the data.
    """
    hint = "The file is damaged or was not downloaded to its end: remove it and fetch it again."
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTES or not 1 <= data[3] <= 8:
        raise LabError(
            str(path), "an idx file of bytes, beginning 00 00 08", f"the bytes {data[:4].hex(' ') or 'none'}", hint
        )
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise LabError(str(path), f"an idx header of {start} bytes", f"{len(data)} bytes", hint)
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", count=data[3], offset=4))
    if len(data) != start + math.prod(shape):
        raise LabError(
            str(path),
            f"{start + math.prod(shape):,} bytes for the shape {shape} of its header",
            f"{len(data):,} bytes",
            hint,
        )
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy())


def _pair(folder: Path, images: Tensor, labels: Tensor) -> ImageSet:
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        shapes = f"shapes {tuple(images.shape)} and {tuple(labels.shape)}"
        raise LabError(str(folder), "images (n, height, width) and as many labels (n,)", shapes)
    return ImageSet(images[:, None], labels.long())
