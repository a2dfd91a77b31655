"""Data sets on request: labkit downloads when it is asked to by name, and at no other time."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from labkit.datasets.download import download, sha256_of
from labkit.datasets.registry import Content, DataSet, RemoteFile, registry
from labkit.datasets.roots import data_root
from labkit.datasets.unpacking import unpack_archive
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.validation import check_choice

_CHUNK = 1 << 20


def fetch(name: str, root: Path | None = None, *, mirrors: Sequence[str] = (), progress: bool = True) -> Path:
    """Download a data set of the registry, unless all of it is already there and whole.

    An interrupted call goes on where it stopped when it is made again. Packed files are unpacked and then removed.
    An archive that lies under the data root already is checked and unpacked, not fetched.

    Parameters
    ----------
    name : an entry of registry.toml, e.g. "mnist".
    root : the data root; None for `data_root()`.
    mirrors : further places on the web to try first; what they send is kept only if every byte is right.
    progress : show a bar per file on stderr.

    Returns
    -------
    Path : the folder that holds the files.

    Raises
    ------
    LabError : an unknown name (the nearest is suggested), no mirror delivered or there is none (the message says what to
        put where), a part of the set is there and in the way, the disk is full or read-only.
    """
    entry = registry()[check_choice("name", name, registry())]
    wider = dataclasses.replace(entry, mirrors=(*mirrors, *entry.mirrors))
    return fetch_data_set(wider, root, progress=progress)


def fetch_data_set(data_set: DataSet, root: Path | None = None, *, progress: bool = True) -> Path:
    """As `fetch`, for an entry that need not be in the registry."""
    top = data_root() if root is None else Path(root)
    folder = top / data_set.folder
    if data_set.by_hand or any(file.holds for file in data_set.files):
        if not _all_there(data_set, top):
            fetch_archives(data_set, top, progress=progress)
            _check_complete(data_set, top)
        return folder
    for file in data_set.files:
        if not is_whole(folder / file.final.name, file.final):
            _fetch_file(data_set, file, folder, progress)
    return folder


def _all_there(data_set: DataSet, root: Path) -> bool:
    """Whether an image data set is under `root` with all its pictures.

    Raises
    ------
    LabError : a part of it is: what is missing is told, and nothing overwrites it.
    """
    from labkit.datasets.readers import READERS

    try:
        catalogue = READERS[data_set.name](root) if data_set.name in READERS else None
    except LabError:
        return False
    if catalogue is None:
        return False
    if catalogue.shortfall():
        raise LabError(
            str(catalogue.folder), "all of it, or nothing in the way", catalogue.shortfall(),
            f"It can be used as it is. {data_set.by_hand or 'To have all, move this folder away and run the command again.'}",
        )  # fmt: skip
    return True


def _check_complete(data_set: DataSet, root: Path) -> None:
    """Refuse to call a set whole that lacks something after its archives are unpacked, a file put there by hand say."""
    from labkit.datasets.readers import READERS

    if data_set.name in READERS:
        catalogue = READERS[data_set.name](root)
        if catalogue.shortfall():
            raise LabError(str(catalogue.folder), "all of the set", catalogue.shortfall(), data_set.by_hand)


def fetch_archives(data_set: DataSet, root: Path, *, progress: bool = True) -> list[str]:
    """Bring the archives of a set to the data root, unless they lie there already, check them and unpack them.

    An archive whose folder is there is done with. What was downloaded is removed once it is unpacked; an archive that
    somebody put there stays.

    Returns
    -------
    list of str : the names that the folder `data_set.into` has gained.

    Raises
    ------
    LabError : no mirror (the message says what to put where) or none that delivers, other bytes than expected, an archive
        that is damaged or refused.
    """
    place, gained = root / data_set.into, list[str]()
    wanted = [file for file in data_set.files if not (place / file.holds).exists()]
    absent = [file for file in wanted if not (place / file.name).is_file()]
    if data_set.files and not wanted:
        hint = "Move its folder away and run the command again."
        raise LabError(data_set.name, "a copy that can be read, or none", f"one under {place} that cannot", hint)
    if not wanted or any(not (data_set.mirrors and file.sha256) for file in absent):
        raise LabError(data_set.name, "a server that offers it", "none that is known", data_set.by_hand)
    for file in wanted:
        packed = place / file.name
        if file in absent:
            download([mirror.rstrip("/") + "/" + file.name for mirror in data_set.mirrors], packed, file, progress=progress)
        elif not _has_checksum(packed, file):
            raise LabError(str(packed), "the bytes that its owners published (checksum)", "others", "Get it again.")
        gained += unpack_archive(packed, place, progress=progress)
        if file in absent:
            packed.unlink()
    return gained


def _has_checksum(path: Path, file: RemoteFile) -> bool:
    if file.sha256:
        return sha256_of(path) == file.sha256
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == file.md5


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
