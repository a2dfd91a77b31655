"""One run at a time in a folder: a lock that the operating system takes back when its process dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import sys
import threading
import time
import weakref
from pathlib import Path

from labkit.errors import LabError
from labkit.files import storage_error

NAME = ".lock"
_UNABLE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}  # file systems without locks
_held: weakref.WeakValueDictionary[str, FolderLock] = weakref.WeakValueDictionary()
_mutex = threading.RLock()  # a collection of garbage, and with it __del__, may come while this thread holds it


class FolderLock:
    """The right to write into a folder.

    A second process is refused. In the same process the newest trainer takes the folder over, as when a notebook's cell is
    run again; the older one finds out at its next `check`.

    Parameters
    ----------
    folder : made where it is not there. The lock is its file `.lock`, which names the process and stays behind.

    Raises
    ------
    LabError : another process holds it (the message names it), or the folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.process = folder, os.getpid()
        self._descriptor: int | None = None
        self._before: weakref.ref[FolderLock] | None = None  # who held it in this process
        self._key = os.path.realpath(folder)
        with _mutex:
            before = _held.get(self._key)
            if before is not None and before._descriptor is not None and before.process == self.process:
                self._descriptor, before._descriptor = before._descriptor, None
                self._before = weakref.ref(before)
            else:
                self._descriptor = self._open()
            _held[self._key] = self

    def check(self) -> None:
        """Refuse to go on where another trainer of this process has taken the folder over.

        Raises
        ------
        LabError : it has, or the lock was released.
        """
        if self._descriptor is None:
            hint = "Train on with the newer one, or give each a folder of its own."
            raise LabError(str(self.folder), "a folder that this run alone writes to", "a newer trainer writing there", hint)

    def release(self) -> None:
        """Let others in; harmless when repeated."""
        with _mutex:
            if self._descriptor is None:
                return
            if self.process == os.getpid():  # a forked child must not give away what its parent holds
                with contextlib.suppress(OSError):  # such as a disk that has gone
                    os.ftruncate(self._descriptor, 0)
                _unlock(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def give_back(self) -> None:
        """Undo: the folder is the older trainer's again, where it was taken over from one, else free."""
        with _mutex:
            before = None if self._before is None else self._before()
            if before is None or self._descriptor is None:
                self.release()
            else:
                before._descriptor, self._descriptor = self._descriptor, None
                _held[self._key] = before

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()

    def _open(self) -> int:
        path = self.folder / NAME
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise storage_error(self.folder, error) from error
        try:
            if not _lock(descriptor):
                said = os.read(descriptor, 300).decode(errors="replace").strip() or "another process"
                hint = "Wait for it, stop it, or choose another folder."
                raise LabError(str(self.folder), "a folder that no other run is writing to", said, hint)
            os.ftruncate(descriptor, 0)
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            os.write(descriptor, f"process {self.process} on {platform.node()}, since {since}\n".encode())
        except OSError as error:
            os.close(descriptor)
            raise storage_error(path, error) from error
        except LabError:
            os.close(descriptor)
            raise
        return descriptor


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 20  # a byte behind the text, so that others can read what it says

    def _lock(descriptor: int) -> bool:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        """Whether it is ours now; on a file system without locks it always is."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
        return True

    def _unlock(descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
