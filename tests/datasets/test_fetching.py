"""A whole data set, packed files included."""

import dataclasses
import gzip
import hashlib
import socket

import pytest

from labkit.datasets import fetch, registry
from labkit.datasets.fetching import fetch_data_set
from labkit.datasets.registry import Content, DataSet, RemoteFile
from labkit.errors import LabError
from tests.datasets.servers import Mirror, serving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def content(name, data):
    return Content(name, len(data), hashlib.sha256(data).hexdigest())


INSIDE = b"labels " * 5000
PACKED = gzip.compress(INSIDE)
PLAIN = b"no packing"
FILES = (
    RemoteFile(*dataclasses.astuple(content("a.gz", PACKED)), unpacked=content("a", INSIDE)),
    RemoteFile(*dataclasses.astuple(content("b.txt", PLAIN))),
)


def data_set(base, files=FILES):
    return DataSet("toy", "a toy", "none", "", "", "toy/raw", (f"{base}/missing/", base), {}, files)


def test_everything_arrives_unpacked_and_a_second_call_asks_for_nothing(tmp_path):
    mirrors = {"/a.gz": Mirror(PACKED), "/b.txt": Mirror(PLAIN)}
    with serving(mirrors) as base:
        folder = fetch_data_set(data_set(base), tmp_path, progress=False)
        assert folder == tmp_path / "toy" / "raw"
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"a": INSIDE, "b.txt": PLAIN}
        fetch_data_set(data_set(base), tmp_path, progress=False)
        assert mirrors["/a.gz"].requests == [""] and mirrors["/b.txt"].requests == [""]
        (folder / "a").write_bytes(INSIDE[:-1] + b"?")
        fetch_data_set(data_set(base), tmp_path, progress=False)
    assert (folder / "a").read_bytes() == INSIDE, "a damaged file is fetched again"
    assert mirrors["/a.gz"].requests == ["", ""] and mirrors["/b.txt"].requests == [""]


def test_a_packed_file_that_is_there_is_not_fetched_again(tmp_path):
    (tmp_path / "toy" / "raw").mkdir(parents=True)
    (tmp_path / "toy" / "raw" / "a.gz").write_bytes(PACKED)
    with serving({"/b.txt": Mirror(PLAIN)}) as base:
        folder = fetch_data_set(data_set(base), tmp_path, progress=False)
    assert (folder / "a").read_bytes() == INSIDE


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (gzip.compress(INSIDE + b"!"), "once unpacked"),
        (gzip.compress(INSIDE[:-1]), "34,999 other bytes"),
        (gzip.compress(INSIDE[:-1] + b"?"), "35,000 other bytes"),
        (PACKED[:-20], "whole .gz archive"),
        (b"not packed at all", "whole .gz archive"),
        (PACKED[:40] + b"\xff\xff\xff" + PACKED[43:], "whole .gz archive"),
    ],
)
def test_an_archive_that_holds_something_else(tmp_path, packed, words):
    """The download itself matches its checksum; what is inside does not."""
    file = RemoteFile(*dataclasses.astuple(content("a.gz", packed)), unpacked=content("a", INSIDE))
    with serving({"/a.gz": Mirror(packed)}) as base, pytest.raises(LabError, match=words) as caught:
        fetch_data_set(data_set(base, (file,)), tmp_path, progress=False)
    assert "a.gz" in str(caught.value)
    assert [p.name for p in (tmp_path / "toy" / "raw").iterdir()] == ["a.gz"], "no half-unpacked file"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(LabError, match="Did you mean 'mnist'"):
        fetch("mnits")


def test_the_registry_is_complete():
    for name, entry in registry().items():
        assert entry.name == name and entry.licence and entry.citation and entry.title and len(entry.mirrors) >= 2
        assert all(url.startswith("https://") for url in entry.mirrors)
        assert entry.splits == {"train": 57000, "held_out": 3000, "test": 10000} or name != "mnist"
        for file in entry.files:
            assert all(len(c.sha256) == 64 and c.size > 0 for c in (file, file.final))
            assert "/" not in file.name + file.final.name and ".." not in entry.folder
    assert registry()["mnist"].size == 11_594_722


def test_fetch_uses_the_data_root(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    toy = {"toy": data_set("http://127.0.0.1:9", ())}
    monkeypatch.setattr("labkit.datasets.fetching.registry", lambda: toy)
    assert fetch("toy") == tmp_path / "toy" / "raw"


def test_loading_never_opens_a_connection(tmp_path, monkeypatch):
    from labkit.datasets import load_digits

    def refuse(*args, **kwargs):
        raise AssertionError("loading must not download")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(LabError, match="labkit data get mnist"):
        load_digits("mnist", tmp_path)
    assert load_digits("auto", tmp_path).name != "mnist"
    assert list(tmp_path.iterdir()) == []
