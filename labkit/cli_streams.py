"""What the program prints, whatever stands behind stdout and stderr: a terminal of another encoding, a full disk."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator

from labkit.files import storage_error


@contextlib.contextmanager
def told_of_streams() -> Iterator[None]:
    """Print anything inside: letters that an encoding lacks are written as their code, as \\u2026.

    Raises
    ------
    LabError : the disk behind stdout is full.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, where it can be told, and not when Python ends
    except OSError as error:
        # Errors of other files have names, and are told where these are written.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or error.filename is not None:
            raise
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:  # Python would try once more at its end
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        raise storage_error("standard output", error) from error
