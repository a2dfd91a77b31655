"""Folders and files that may not be read are named: left out in silence, they would make other classes and halves."""

import errno
import os
from pathlib import Path

import pytest

from labkit.datasets import read_catalogue, read_embeddings
from labkit.datasets.folder import every_picture, read_folder
from labkit.errors import LabError
from labkit.serving import open_model
from tests.command import program
from tests.datasets.pictures import make_folder


@pytest.fixture
def forbidden(monkeypatch):
    """Makes folders and files forbidden, also to a user to whom no mode is a hindrance."""
    names = set()

    def denied(real):
        def look(path=".", *args, **kwargs):
            if Path(os.fspath(path)).name in names:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
            return real(path, *args, **kwargs)

        return look

    monkeypatch.setattr(os, "scandir", denied(os.scandir))
    monkeypatch.setattr(os, "listdir", denied(os.listdir))
    monkeypatch.setattr(Path, "stat", denied(Path.stat))
    return names


@pytest.mark.parametrize("name", ["cat", "deep", "0.png"])
@pytest.mark.parametrize("read", [read_catalogue, every_picture])
def test_a_folder_of_pictures(tmp_path, forbidden, name, read):
    folder = make_folder(tmp_path / "set", ["ant", "bee", "cat/deep"], each=1)
    forbidden.add(name)
    with pytest.raises(LabError, match=f"{name}: expected a file or folder that may be read; got Permission denied"):
        read(folder)


def test_a_folder_inside_one_that_may_not_be_entered(tmp_path, forbidden):
    forbidden.add("set")
    with pytest.raises(LabError, match="set: expected a file or folder that may be read; got Permission denied"):
        read_folder(tmp_path / "set")


def test_what_is_hidden_may_be_forbidden(tmp_path, forbidden):
    folder = make_folder(tmp_path / "set", ["ant", "bee", "bee/.thumbs"], each=1)
    forbidden.add(".thumbs")
    assert len(read_catalogue(folder)) == 2


def test_embeddings_in_a_folder_that_may_not_be_entered(tmp_path, forbidden):
    forbidden.add("a.npz")
    with pytest.raises(LabError, match=r"a.npz: expected a file or folder that may be read; got Permission denied"):
        read_embeddings(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["experiment.json", "run"])
def test_a_run_to_be_opened(tmp_path, forbidden, name):
    (tmp_path / "run").mkdir()
    forbidden.add(name)
    with pytest.raises(LabError, match=f"{name}: expected a file or folder that may be read; got Permission denied"):
        open_model(tmp_path / "run")


def test_settings_of_a_run_that_may_be_seen_but_not_read(tmp_path, monkeypatch):
    for name in ("experiment.json", "model.pt"):
        (tmp_path / name).write_bytes(b"")

    def denied(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(LabError, match=r"experiment.json: expected a file or folder that may be read; got Permission denied"):
        open_model(tmp_path)


def test_the_list_of_data(tmp_path, forbidden, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    forbidden.add("train-images-idx3-ubyte")
    code, _, said = program(monkeypatch, capsys)("data", "list")
    assert code == 2 and "train-images-idx3-ubyte: expected a file or folder that may be read" in said
