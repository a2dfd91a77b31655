"""The folder to begin with: digits as pictures, or birds where they are."""

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


def test_birds_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    make_cub(tmp_path, ids=(1, 5, 150), each=4)
    assert "2 bird species" in example_folder(tmp_path / "pictures", classes=2, each=3)
    catalogue = read_catalogue(tmp_path / "pictures")
    assert len(catalogue) == 6 and sorted(catalogue.class_names.values()) == ["Bird 1", "Bird 5"]
