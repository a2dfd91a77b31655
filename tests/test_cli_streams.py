"""What stands behind stdout: another encoding, a name that is no text, a full disk."""

import errno
import io
import os
import sys
import types

import pytest
import typer

from labkit.cli_streams import told_of_streams
from labkit.errors import LabError


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "cp437", "utf-8"])
def test_letters_that_the_encoding_lacks_are_written_as_their_code(monkeypatch, encoding):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    with told_of_streams():
        typer.echo("0 \u2026 1, \u732b, cl\udcff")  # an ellipsis, a cat, a byte that is no UTF-8 in a file's name
    assert written.getvalue() == "0 \u2026 1, \u732b, cl\udcff\n".encode(encoding, errors="backslashreplace")


def test_a_full_disk_is_told_as_such(monkeypatch):
    def full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(flush=full, fileno=full))
    with pytest.raises(LabError, match="standard output: expected room to write it; got No space"), told_of_streams():
        pass


def test_errors_of_other_files_are_left_as_they_are():
    for number in (errno.ENOSPC, errno.ENOENT):
        with pytest.raises(OSError, match="x.png"), told_of_streams():
            raise OSError(number, os.strerror(number), "x.png")
