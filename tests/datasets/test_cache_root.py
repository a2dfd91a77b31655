"""Where what can be computed again is kept."""

import pooch
import pytest

from labkit.datasets.roots import cache_root
from labkit.errors import LabError


def test_the_variable_else_the_user_s_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "c"))
    assert cache_root() == tmp_path / "c" and not (tmp_path / "c").exists()
    monkeypatch.setenv("LABKIT_CACHE", "  ")
    assert str(cache_root()) == str(pooch.os_cache("labkit").absolute())
    monkeypatch.setenv("LABKIT_CACHE", "~/somewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / "somewhere"


def test_a_file_is_no_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(LabError, match="LABKIT_CACHE"):
        cache_root()


def test_a_home_folder_that_is_not_there(monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", "~nosuchuser/x")
    with pytest.raises(LabError, match="LABKIT_CACHE: expected a folder; got '~nosuchuser/x'"):
        cache_root()
