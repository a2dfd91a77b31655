"""The folder to begin with: digits as pictures, or birds where they are."""

import errno
import os

import pytest

from labkit.datasets import example_folder, read_catalogue
from labkit.errors import LabError
from tests.datasets.pictures import make_cub


def test_digits_where_nothing_else_is(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "nothing"))
    said = example_folder(tmp_path / "pictures", classes=4, each=3)
    catalogue = read_catalogue(tmp_path / "pictures")
    assert "3 handwritten digits of each of 4 classes" in said and len(catalogue) == 12
    assert list(catalogue.class_names.values()) == [f"digit {i}" for i in range(4)]
    with pytest.raises(LabError, match="empty"):
        example_folder(tmp_path / "pictures")


def test_fewer_digits_than_were_asked_for_are_owned_up_to(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "nothing"))
    monkeypatch.setattr("labkit.datasets.example.embedded_source", lambda: "digits-8x8")
    said = example_folder(tmp_path / "pictures", classes=1, each=1000)
    assert len(list((tmp_path / "pictures").rglob("*.png"))) < 1000
    assert "1000 handwritten digits of each of 1 classes at most" in said


def test_birds_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    make_cub(tmp_path, ids=(1, 5, 150), each=4)
    assert "2 bird species" in example_folder(tmp_path / "pictures", classes=2, each=3)
    catalogue = read_catalogue(tmp_path / "pictures")
    assert len(catalogue) == 6 and sorted(catalogue.class_names.values()) == ["Bird 1", "Bird 5"]
    for name in catalogue.files:
        copied = tmp_path / "pictures" / name
        original = next((tmp_path / "CUB_200_2011" / "images").glob(f"*/{copied.name}"))
        assert copied.read_bytes() == original.read_bytes()


def test_a_bird_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    """It is listed and is a folder, which no user may read as a file."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    folder = make_cub(tmp_path, ids=(1, 150), each=2)
    listed = folder / "images.txt"
    odd = min((folder / "images").glob("001.*/*.jpg"))
    listed.write_text(f"1 {odd.parent.name}/{odd.name}\n")
    odd.unlink()
    odd.mkdir()
    with pytest.raises(LabError, match=odd.name):
        example_folder(tmp_path / "pictures", classes=1, each=3)


def test_a_copy_that_fails_leaves_no_part_of_a_picture(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    make_cub(tmp_path, ids=(1, 150), each=2)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LabError, match="room to write it"):
        example_folder(tmp_path / "pictures", classes=1, each=1)
    assert [p for p in (tmp_path / "pictures").rglob("*") if p.is_file()] == []


def test_what_is_no_path():
    with pytest.raises(LabError, match="where: expected a path"):
        example_folder(None)
