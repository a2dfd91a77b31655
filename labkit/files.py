"""Files that are either whole or absent: every recording, report, checkpoint and data file is written through here."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from labkit.errors import LabError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


def storage_error(path: str | os.PathLike[str], error: OSError, *, reading: bool = False) -> LabError:
    """Turn what the operating system said about `path` into a LabError that says what to do about it.

    reading : whether nothing was to be written there.

    Returns
    -------
    LabError : to be raised by the caller (`raise storage_error(path, error) from error`).
    """
    said = f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, type(error).__name__)})"
    if error.errno in _FULL:
        return LabError(str(path), "room to write it", said, "Free some space, or write to another disk.")
    if error.errno in _FORBIDDEN and reading:
        return LabError(str(path), "a file or folder that may be read", said, "Change its permissions, or those of its folder.")
    if error.errno in _FORBIDDEN:
        return LabError(
            str(path), "a place that may be written to", said, "Choose another folder, or make it writable."
        )
    return LabError(str(path), "a file that can be written or read", said)


def write_atomically(path: str | os.PathLike[str], writer: Callable[[BinaryIO], object]) -> Path:
    """Write a file so that at any moment either the old version or the whole new one is there, never a part.

    `writer` gets a binary file (seekable) under a temporary name in the same folder; when it returns, the bytes are
    forced to the disk and the file takes its real name in one step. Whatever goes wrong before that, an interruption
    included, the temporary file is removed and an older file of that name is untouched. Missing folders are made. A
    symbolic link keeps pointing to its target.

    Parameters
    ----------
    path : where the file is to lie.
    writer : called once with the open file, e.g. `lambda file: np.savez_compressed(file, **arrays)`.

    Returns
    -------
    Path : `path`.

    Raises
    ------
    LabError : the disk is full, read-only, or the folder cannot be made or written to; something lies at `path` that
        is no regular file (a folder, a device, a pipe); a name that no file can have.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_atomically(Path(folder) / "a.txt", lambda file: file.write(b"whole")).read_bytes()
    b'whole'
    """
    try:
        target = Path(os.path.realpath(path))
    except (TypeError, ValueError) as error:
        raise LabError("path", "the name of a file", repr(path)[:80]) from error
    try:
        _check_replaceable(path)
        with _temporary_sibling(target) as temporary:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
            with os.fdopen(descriptor, "w+b") as file:
                writer(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        _sync_folder(target.parent)
    except LabError:
        raise
    except Exception as error:
        # A library may wrap what the operating system said (torch.save does), so the chain is searched.
        cause = _os_error_behind(error)
        if cause is None:
            raise
        raise storage_error(path, cause) from error
    return Path(path)


def _check_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuse what may not give way to a file: os.replace would put one in the place of /dev/null itself."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
        raise LabError(str(path), "a regular file, or nothing there yet", kind, "Choose the name of a file.")


@contextlib.contextmanager
def _temporary_sibling(target: Path) -> Iterator[Path]:
    """Yield an unused name beside `target`; no file of that name is left afterwards."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Cut, so that a long name plus the suffix stays under the 255 bytes that file systems allow.
    temporary = target.with_name(f".{target.name[:50]}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _os_error_behind(error: BaseException) -> OSError | None:
    """The first OSError in the chain of causes and contexts that begins with `error`."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, OSError):
            return current
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return None
