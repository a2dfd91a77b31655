"""Archives, honest and otherwise."""

import errno
import os
import tarfile
import zipfile

import pytest

from labkit.datasets.unpacking import unpack_archive
from labkit.errors import LabError
from tests.datasets.archives import packed, special, tgz

MEMBERS = {"set/a/1.txt": b"one", "set/b/2.txt": b"two", "notes.txt": b"n"}


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("make", [tgz, packed])
def test_all_files_arrive(tmp_path, make):
    target = tmp_path / "out"
    assert unpack_archive(make(tmp_path / "archive", MEMBERS), target) == ["notes.txt", "set"]
    assert contents(target) == MEMBERS and sorted(os.listdir(target)) == ["notes.txt", "set"]


@pytest.mark.parametrize(
    "name", ["../evil", "set/../../evil", "/evil", "set/../evil", "..\\evil", "C:/evil", "C:evil", "set/C:evil"]
)
@pytest.mark.parametrize("make", [tgz, packed])
def test_a_member_that_climbs_out_is_refused_and_nothing_stays(tmp_path, make, name):
    target = tmp_path / "deep" / "out"
    with pytest.raises(LabError, match="members that stay inside") as caught:
        unpack_archive(make(tmp_path / "archive", {"set/ok": b"1", name: b"bad"}), target)
    assert "evil" in str(caught.value)
    assert list(contents(tmp_path)) == ["archive"] and os.listdir(target) == []


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (special("set/link", tarfile.SYMTYPE, "/etc/passwd"), "a link, 'set/link'"),
        (special("set/hard", tarfile.LNKTYPE, "set/ok"), "a link, 'set/hard'"),
        (special("set/device", tarfile.CHRTYPE), "a device or pipe"),
        (special("set/pipe", tarfile.FIFOTYPE), "a device or pipe"),
    ],
)
def test_links_and_devices_are_refused(tmp_path, member, words):
    with pytest.raises(LabError, match=words):
        unpack_archive(tgz(tmp_path / "a.tgz", {"set/ok": b"1", "x": member}), tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []


def test_a_link_in_a_zip_is_refused(tmp_path):
    link = zipfile.ZipInfo("set/link")
    link.external_attr = 0o120777 << 16
    with pytest.raises(LabError, match="set/link"):
        unpack_archive(packed(tmp_path / "a.zip", {link: b"/etc/passwd"}), tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []


def test_a_member_without_a_name_is_refused(tmp_path):
    with pytest.raises(LabError, match=r"a\.zip: expected a name for every member; got an empty one"):
        unpack_archive(packed(tmp_path / "a.zip", {"set/ok": b"1", zipfile.ZipInfo(""): b"2"}), tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("make", [tgz, packed])
def test_a_damaged_archive(tmp_path, make):
    archive = make(tmp_path / "archive", {"set/long": os.urandom(50_000)})
    whole = archive.read_bytes()
    for broken in (whole[:20_000], whole[:20_000] + bytes(1000) + whole[21_000:], b"no archive"):
        archive.write_bytes(broken)
        with pytest.raises(LabError, match="a whole archive"):
            unpack_archive(archive, tmp_path / "out")
        assert os.listdir(tmp_path / "out") == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "out" / "set").mkdir(parents=True)
    (tmp_path / "out" / "set" / "mine").write_bytes(b"mine")
    with pytest.raises(LabError, match="no set yet"):
        unpack_archive(tgz(tmp_path / "a.tgz", MEMBERS), tmp_path / "out")
    assert contents(tmp_path / "out") == {"set/mine": b"mine"}


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(source, target, length):
        target.write(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("labkit.datasets.unpacking.shutil.copyfileobj", full)
    with pytest.raises(LabError, match="room to write"):
        unpack_archive(tgz(tmp_path / "a.tgz", MEMBERS), tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []
