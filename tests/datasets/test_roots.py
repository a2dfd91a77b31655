"""Where the data root is, by each of the three rules."""

from pathlib import Path

import pytest

import labkit
from labkit.datasets import data_root
from labkit.datasets.roots import name_root
from labkit.errors import LabError

CHECKOUT = Path(labkit.__file__).absolute().parents[1]


def test_the_variable_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "not" / "there"))
    assert data_root() == tmp_path / "not" / "there"
    assert name_root(data_root()) == "LABKIT_DATA"
    monkeypatch.setenv("LABKIT_DATA", "~/x")
    assert data_root() == Path.home() / "x"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABKIT_DATA", "rel")
    assert data_root() == tmp_path / "rel"


def test_a_file_is_no_data_root(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "file"))
    with pytest.raises(LabError, match="LABKIT_DATA: expected a folder"):
        data_root()


def test_a_home_folder_that_is_not_there(monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", "~nosuchuser/x")
    with pytest.raises(LabError, match="LABKIT_DATA: expected a folder; got '~nosuchuser/x'"):
        data_root()


@pytest.mark.parametrize("value", [None, "", "  "])
def test_then_the_checkout(monkeypatch, value):
    monkeypatch.delenv("LABKIT_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("LABKIT_DATA", value)
    assert data_root() == CHECKOUT / "data"
    assert name_root(data_root()) == "data/ of the checkout"


def test_installed_elsewhere_it_is_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("LABKIT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        "labkit.datasets.roots.__file__", str(tmp_path / "site-packages" / "labkit" / "datasets" / "roots.py")
    )
    assert data_root().name == "labkit" and not data_root().is_relative_to(CHECKOUT)
    assert name_root(data_root()) == "the cache folder"


def test_no_description_tells_where_a_machine_keeps_things(tmp_path):
    assert name_root(tmp_path / "mine") == "the folder mine"
