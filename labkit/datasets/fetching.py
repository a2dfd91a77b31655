"""Data sets on request: labkit downloads when it is asked to by name, and at no other time."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from labkit.datasets.download import download, sha256_of
from labkit.datasets.registry import Content, DataSet, RemoteFile, registry
from labkit.datasets.roots import data_root
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.validation import check_choice

_CHUNK = 1 << 20


def fetch(name: str, root: Path | None = None, *, progress: bool = True) -> Path:
    """Download a data set of the registry, unless all of it is already there and whole.

    An interrupted call goes on where it stopped when it is made again. Packed files are unpacked and then removed.

    Parameters
    ----------
    name : an entry of registry.toml, e.g. "mnist".
    root : the data root; None for `data_root()`.
    progress : show a bar per file on stderr.

    Returns
    -------
    Path : the folder that holds the files.

    Raises
    ------
    LabError : an unknown name (the nearest is suggested), no mirror delivered, the disk is full or read-only.
    """
    return fetch_data_set(registry()[check_choice("name", name, registry())], root, progress=progress)


def fetch_data_set(data_set: DataSet, root: Path | None = None, *, progress: bool = True) -> Path:
    """As `fetch`, for an entry that need not be in the registry."""
    folder = (data_root() if root is None else Path(root)) / data_set.folder
    for file in data_set.files:
        if not is_whole(folder / file.final.name, file.final):
            _fetch_file(data_set, file, folder, progress)
    return folder


def is_whole(path: Path, content: Content) -> bool:
    """Whether `path` is there with the right size and checksum."""
    return path.is_file() and path.stat().st_size == content.size and sha256_of(path) == content.sha256


def _fetch_file(data_set: DataSet, file: RemoteFile, folder: Path, progress: bool) -> None:
    packed = folder / file.name
    if file.unpacked is None or not is_whole(packed, file):
        download([mirror.rstrip("/") + "/" + file.name for mirror in data_set.mirrors], packed, file, progress=progress)
    if file.unpacked is not None:
        unpack(packed, folder / file.unpacked.name, file.unpacked)
        packed.unlink(missing_ok=True)


def unpack(packed: Path, target: Path, content: Content) -> Path:
    """Unpack a .gz into a file of known content beside it; stops at the first byte too many.

    Raises
    ------
    LabError : the archive is damaged, or holds something other than `content`.
    """

    def copy(out: BinaryIO) -> None:
        digest, written = hashlib.sha256(), 0
        for piece in gzip_pieces(packed):
            written += len(piece)
            if written > content.size:
                raise LabError(str(packed), f"{content.size:,} bytes once unpacked", "more")
            digest.update(piece)
            out.write(piece)
        if written != content.size or digest.hexdigest() != content.sha256:
            raise LabError(str(packed), f"the {content.size:,} bytes of {content.name}", f"{written:,} other bytes")

    return write_atomically(target, copy)


def gzip_pieces(packed: Path) -> Iterator[bytes]:
    """What a .gz holds, piece by piece.

    Raises
    ------
    LabError : the archive is damaged or cut off.
    """
    try:
        with gzip.open(packed, "rb") as source:
            while piece := source.read(_CHUNK):
                yield piece
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise LabError(str(packed), "a whole .gz archive", str(error), "Remove it and fetch it again.") from error
