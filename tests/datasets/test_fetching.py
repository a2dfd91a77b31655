"""A whole data set, packed files included."""

import dataclasses
import gzip
import hashlib
import socket

import pytest

from labkit.datasets import fetch, registry
from labkit.datasets.fetching import fetch_data_set
from labkit.datasets.registry import Content, DataSet, RemoteFile
from labkit.datasets.unpacking import unpack_archive
from labkit.errors import LabError
from tests.datasets.archives import tgz
from tests.datasets.pictures import make_cars, make_cub
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
        assert entry.name == name and entry.licence and entry.citation and entry.title and entry.splits
        assert entry.mirrors or "under the data root" in entry.by_hand or "into the data root" in entry.by_hand
        assert all(url.startswith("https://") for url in entry.mirrors) and entry.how_to_get
        for file in entry.files:
            assert len(file.sha256) == 64 or (file.holds and len(file.md5) == 32 and not entry.mirrors)
            assert file.holds or all(len(c.sha256) == 64 and c.size > 0 for c in (file, file.final))
            assert "/" not in file.name + file.final.name + file.holds and ".." not in entry.folder + entry.into
    mnist = registry()["mnist"]
    assert mnist.size == 11_594_722 and len(mnist.mirrors) >= 2
    assert mnist.splits == {"train": 57000, "held_out": 3000, "test": 10000}
    assert registry()["cub"].size == 1_150_585_339


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


# ---------------------------------------------------------------- archives


def archived(tmp_path, base, **changes):
    """A set of one archive that holds the folder `birds`, offered by a server at `base`."""
    data = tgz(tmp_path / "made.tgz", {"birds/a.txt": b"a", "readme": b"r"}).read_bytes()
    file = RemoteFile(*dataclasses.astuple(content("birds.tgz", data)), holds="birds")
    entry = DataSet("toy", "a toy", "none", "", "", "birds", (base,) if base else (), {}, (file,), by_hand="put it in place")
    return dataclasses.replace(entry, **changes), data


def test_an_archive_is_fetched_unpacked_and_removed(tmp_path):
    root, mirrors = tmp_path / "root", {}
    with serving(mirrors) as base:
        entry, data = archived(tmp_path, base)
        mirrors["/birds.tgz"] = Mirror(data, break_after=[100])
        assert fetch_data_set(entry, root, progress=False) == root / "birds"
        assert mirrors["/birds.tgz"].requests == ["", "bytes=100-"]
    assert sorted(p.name for p in root.iterdir()) == ["birds", "readme"]
    assert (root / "birds" / "a.txt").read_bytes() == b"a"


def test_corrupt_archives_are_never_unpacked(tmp_path):
    root, mirrors = tmp_path / "root", {}
    with serving(mirrors) as base:
        entry, data = archived(tmp_path, base)
        mirrors["/birds.tgz"] = Mirror(bytes(reversed(data)))
        with pytest.raises(LabError, match="checksum"):
            fetch_data_set(entry, root, progress=False)
    assert list(root.iterdir()) == []


def test_an_archive_that_was_put_there_is_checked_and_stays(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    entry, data = archived(tmp_path, "")
    with pytest.raises(LabError, match="put it in place"):
        fetch_data_set(entry, root, progress=False)
    (root / "birds.tgz").write_bytes(data[:-1] + b"?")
    with pytest.raises(LabError, match="bytes that its owners published"):
        fetch_data_set(entry, root, progress=False)
    (root / "birds.tgz").write_bytes(data)
    fetch_data_set(entry, root, progress=False)
    assert sorted(p.name for p in root.iterdir()) == ["birds", "birds.tgz", "readme"]


def test_an_archive_with_an_md5_alone(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    entry, data = archived(tmp_path, "http://127.0.0.1:9")
    weak = dataclasses.replace(entry.files[0], sha256="", size=0, md5=hashlib.md5(data).hexdigest())
    entry = dataclasses.replace(entry, files=(weak,))
    with pytest.raises(LabError, match="put it in place"):  # never downloaded on an MD5 alone
        fetch_data_set(entry, root, progress=False)
    (root / "birds.tgz").write_bytes(data)
    fetch_data_set(entry, root, progress=False)
    assert (root / "birds" / "a.txt").is_file()


def test_a_set_of_two_archives_goes_on_after_the_first(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    entry, data = archived(tmp_path, "")
    second = tgz(tmp_path / "b.tgz", {"more/b.txt": b"b"}).read_bytes()
    file = RemoteFile(*dataclasses.astuple(content("more.tgz", second)), holds="more")
    entry = dataclasses.replace(entry, files=(*entry.files, file))
    (root / "birds.tgz").write_bytes(data)
    with pytest.raises(LabError, match="put it in place"):
        fetch_data_set(entry, root, progress=False)
    assert not (root / "birds").exists(), "nothing is unpacked while an archive is missing"
    unpack_archive(root / "birds.tgz", root)
    (root / "birds.tgz").unlink()
    (root / "more.tgz").write_bytes(second)
    fetch_data_set(entry, root, progress=False)
    assert (root / "more" / "b.txt").is_file()


def test_what_is_still_missing_after_unpacking_is_told(tmp_path, monkeypatch):
    """Cars196 without the labels of its test pictures, which are in none of its archives."""
    source = make_cars(tmp_path / "source", single_archive=False)
    root = tmp_path / "root" / "cars196"
    root.mkdir(parents=True)
    files = []
    for name in ("cars_train", "cars_test", "devkit"):
        members = {f"{name}/{p.name}": p.read_bytes() for p in (source / name).iterdir()}
        data = tgz(root / f"{name}.tgz", members).read_bytes()
        files.append(RemoteFile(*dataclasses.astuple(content(f"{name}.tgz", data)), holds=name))
    entry = dataclasses.replace(registry()["cars"], files=tuple(files), splits={"train": 4, "test": 4})
    monkeypatch.setattr("labkit.datasets.cars.registry", lambda: {"cars": entry})
    for _ in range(2):
        with pytest.raises(LabError, match="2 of 4 train pictures, 2 of 4 test pictures") as caught:
            fetch_data_set(entry, tmp_path / "root", progress=False)
        assert "cars_test_annos_withlabels.mat" in caught.value.hint
    (root / "cars_test_annos_withlabels.mat").write_bytes((source / "cars_test_annos_withlabels.mat").read_bytes())
    assert fetch_data_set(entry, tmp_path / "root", progress=False) == root


def test_a_partial_copy_is_neither_overwritten_nor_called_whole(tmp_path):
    make_cub(tmp_path, each=1, size=(8, 8))
    with pytest.raises(LabError, match="3 of 100 train classes"):
        fetch("cub", tmp_path, progress=False)


def test_a_whole_copy_is_left_alone(tmp_path, monkeypatch):
    make_cub(tmp_path, each=1, size=(8, 8))
    whole = {"train": 3, "train_classes": 3, "test": 2, "test_classes": 2}
    entry = dataclasses.replace(registry()["cub"], splits=whole, mirrors=("http://127.0.0.1:9/",))
    monkeypatch.setattr("labkit.datasets.cub.registry", lambda: {"cub": entry})
    assert fetch_data_set(entry, tmp_path, progress=False) == tmp_path / "CUB_200_2011"


@pytest.mark.parametrize("name", ["cars", "sop", "in-shop"])
def test_sets_without_a_server_say_what_to_put_where(tmp_path, name):
    with pytest.raises(LabError, match="none that is known") as caught:
        fetch(name, tmp_path, progress=False)
    assert registry()[name].by_hand in str(caught.value)
    assert list(tmp_path.iterdir()) == []
