"""Archives of many files, unpacked beside each other and nowhere else."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from labkit.errors import LabError
from labkit.files import storage_error

_DAMAGED = (
    tarfile.TarError, gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError,
    RuntimeError, NotImplementedError,  # a zip with a password, an unknown compression
)  # fmt: skip
_PIECE = 1 << 20


def unpack_archive(archive: Path, folder: Path, *, progress: bool = False) -> list[str]:
    """Unpack a .tgz, .tar or .zip into `folder`: everything, or nothing.

    The files go to a hidden folder first and take their places when all are there. Only plain files and folders are
    taken: a member with an absolute path or one that climbs out, a colon in its name, a link, a device, or an archive with a
    password is refused before anything is in place, and so is one without a name. What lies in `folder` already is never
    overwritten.

    Returns
    -------
    list of str : the names that `folder` has gained, sorted.

    Raises
    ------
    LabError : a member as above (named), a damaged archive, names that exist already, no space left.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
        try:
            for name, source in _bar(_members(archive), archive.name, progress):
                _write(archive, hidden, name, source)
            names = sorted(path.name for path in hidden.iterdir())
            taken = [name for name in names if (folder / name).exists()]
            if taken:
                raise LabError(str(folder), f"no {taken[0]} yet", "one that is there", "Move it away; nothing is overwritten.")
            for name in names:
                os.replace(hidden / name, folder / name)
            return names
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
    except _DAMAGED as error:
        raise LabError(str(archive), "a whole archive without a password", f"{type(error).__name__}: {error}") from error
    except OSError as error:
        raise storage_error(folder, error) from error


def _write(archive: Path, hidden: Path, name: str, source: IO[bytes] | None) -> None:
    """Put one member under `hidden`; `source` is None for a folder."""
    place = hidden / _inside(archive, name)
    if source is None:
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with source, open(place, "xb") as file:
        shutil.copyfileobj(source, file, _PIECE)


def _inside(archive: Path, name: str) -> PurePosixPath:
    """A member's path, if it stays below the folder it is unpacked to."""
    path = PurePosixPath(name.replace("\\", "/"))
    # Windows reads D:x as x on another drive, and x:y as a part of the file x that no folder shows.
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name:
        raise LabError(str(archive), "members that stay inside the archive's folder", repr(name))
    return path


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Name and opened content of each member, None for a folder."""
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive)
        return
    with tarfile.open(archive, "r:*") as file:
        for member in file:
            if not (member.isreg() or member.isdir()):
                kind = "a link" if member.issym() or member.islnk() else "a device or pipe"
                raise LabError(str(archive), "plain files and folders only", f"{kind}, {member.name!r}")
            yield member.name, file.extractfile(member) if member.isreg() else None
        while file.fileobj is not None and file.fileobj.read(_PIECE):
            pass  # to the end, where the checksum of a compressed file stands


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            if not member.filename:  # zipfile's own look at its last letter would fail
                raise LabError(str(archive), "a name for every member", "an empty one")
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise LabError(str(archive), "plain files and folders only", f"a link or device, {member.filename!r}")
            yield member.filename, None if member.is_dir() else file.open(member)


def _bar(members: Iterator[Any], name: str, progress: bool) -> Iterator[Any]:
    from tqdm import tqdm

    yield from tqdm(members, desc=f"unpacking {name}", unit=" files", disable=not progress)
