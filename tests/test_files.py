"""A file is whole or absent, whatever happens while it is written."""

import errno
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.files import write_atomically


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_writes_bytes_and_makes_folders(tmp_path):
    path = tmp_path / "new" / "folder" / "a.bin"
    assert write_atomically(path, lambda file: file.write(b"abc")) == path
    assert path.read_bytes() == b"abc"
    assert names(path.parent) == ["a.bin"]


def test_new_file_gets_the_usual_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    atomic = write_atomically(tmp_path / "atomic", lambda file: None)
    assert atomic.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("failure", [RuntimeError("in the writer"), KeyboardInterrupt()])
def test_a_failing_writer_leaves_the_old_file_alone(tmp_path, failure):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def writer(file):
        file.write(b"half of the n")
        raise failure

    with pytest.raises(type(failure)):
        write_atomically(path, writer)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_the_old_file_stays_readable_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def writer(file):
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"

    write_atomically(path, writer)
    assert path.read_bytes() == b"new"


def test_a_link_keeps_pointing_to_its_target(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_name_of_255_bytes_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    write_atomically(path, lambda file: file.write(b"x"))
    assert names(tmp_path) == [path.name]


def test_numpy_and_torch_writers(tmp_path):
    write_atomically(tmp_path / "a.npz", lambda file: np.savez_compressed(file, x=np.arange(3)))
    write_atomically(tmp_path / "a.pt", lambda file: torch.save({"x": torch.arange(3)}, file))
    assert np.load(tmp_path / "a.npz")["x"].tolist() == [0, 1, 2]
    assert torch.load(tmp_path / "a.pt", weights_only=True)["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "room to write"), (errno.EROFS, "may be written to"), (errno.EACCES, "may be written to")],
)
def test_what_the_system_refuses_becomes_a_lab_error(tmp_path, monkeypatch, code, words):
    def refuse(*args):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("labkit.files.os.fsync", refuse)
    with pytest.raises(LabError, match=words) as caught:
        write_atomically(tmp_path / "a.bin", lambda file: file.write(b"abc"))
    assert str(tmp_path / "a.bin") in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert names(tmp_path) == []


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LabError):
        write_atomically(tmp_path / "file" / "a.bin", lambda file: None)


WRITERS = {
    "plain": "lambda file: file.write(b'x' * 200_000)",
    "numpy": "lambda file: np.savez(file, x=np.zeros(50_000))",
    "torch": "lambda file: torch.save(torch.zeros(50_000), file)",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_running_out_of_room_for_real(tmp_path, writer):
    """A process that may write no file above 100 kB meets the system's own refusal, inside each library's writer."""
    program = f"""
import pathlib, resource, signal, sys
import numpy as np, torch
from labkit.errors import LabError
from labkit.files import write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
path = pathlib.Path(sys.argv[1])
try:
    write_atomically(path, {WRITERS[writer]})
except LabError as error:
    print("refused:", error)
"""
    (tmp_path / "a.bin").write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.bin")], check=False, capture_output=True, text=True
    )
    assert done.stdout.startswith("refused:") and "room to write" in done.stdout, done.stderr
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def link_to(path):
    link = path.with_name("link")
    link.symlink_to(path)
    return link


@pytest.mark.parametrize("through", [lambda path: path, link_to])
def test_a_pipe_is_not_replaced_by_a_file(tmp_path, through):
    """Nor is a device: root's `--out /dev/null` must not put a file in its place."""
    os.mkfifo(tmp_path / "pipe")
    target = through(tmp_path / "pipe")
    before = names(tmp_path)
    with pytest.raises(LabError, match="expected a regular file, or nothing there yet; got a pipe"):
        write_atomically(target, lambda file: pytest.fail("the writer was called"))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and names(tmp_path) == before


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(LabError, match="got a folder"):
        write_atomically(tmp_path, lambda file: pytest.fail("the writer was called"))


def test_a_link_to_nothing_yet_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"new"
