"""One file from a server on this machine that behaves in every way a server can misbehave."""

import errno
import hashlib
import os
import random
import socket

import pytest

from labkit.datasets.download import download
from labkit.datasets.registry import Content
from labkit.errors import LabError
from tests.datasets.servers import Mirror, serving

BYTES = random.Random(0).randbytes(300_000)
CONTENT = Content("a.bin", len(BYTES), hashlib.sha256(BYTES).hexdigest())
WRONG = bytes(reversed(BYTES))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "folder" / "a.bin"


def get(target, *mirrors, progress=False):
    """Download `target` from the given mirrors in order."""
    with serving({f"/{i}": mirror for i, mirror in enumerate(mirrors)}) as base:
        return download([f"{base}/{i}" for i in range(len(mirrors))], target, CONTENT, progress=progress)


def partial_of(target):
    return target.with_name("a.bin.partial")


def only(target):
    return [path.name for path in target.parent.iterdir()] == [target.name] and target.read_bytes() == BYTES


def leave_partial(target, content):
    target.parent.mkdir(parents=True, exist_ok=True)
    partial_of(target).write_bytes(content)


def test_a_plain_download(target):
    mirror = Mirror(BYTES)
    assert get(target, mirror) == target
    assert only(target) and mirror.requests == [""]


def test_the_bar_goes_to_stderr_and_only_when_wanted(target, capfd):
    get(target, Mirror(BYTES), progress=True)
    shown = capfd.readouterr()
    assert "a.bin: 100%" in shown.err and shown.out == ""
    target.unlink()
    get(target, Mirror(BYTES))
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_download_asks_only_for_the_rest(target):
    leave_partial(target, BYTES[:123_456])
    mirror = Mirror(BYTES)
    get(target, mirror)
    assert only(target) and mirror.requests == ["bytes=123456-"]


def test_a_whole_partial_needs_no_request(target):
    leave_partial(target, BYTES)
    mirror = Mirror(BYTES)
    get(target, mirror)
    assert only(target) and mirror.requests == []


def test_a_server_without_ranges_makes_it_start_again(target):
    leave_partial(target, WRONG[:123_456])  # would spoil the file if it were kept
    mirror = Mirror(BYTES, ranges=False)
    get(target, mirror)
    assert only(target) and mirror.requests == ["bytes=123456-"]


@pytest.mark.parametrize("announce", [None, ""])
def test_a_connection_that_breaks_off_is_taken_up_again(target, announce):
    mirror = Mirror(BYTES, break_after=[100_000, 50_000], announce=announce)
    get(target, mirror)
    assert only(target) and mirror.requests == ["", "bytes=100000-", "bytes=150000-"]


def test_a_mirror_that_stops_giving_is_left_for_the_next_which_goes_on(target):
    first, second = Mirror(BYTES, break_after=[100_000, 0]), Mirror(BYTES)
    get(target, first, second)
    assert only(target) and second.requests == ["bytes=100000-"]


def test_broken_off_everywhere_keeps_what_came(target):
    with pytest.raises(LabError, match="100,000 of 300,000 bytes are kept"):
        get(target, Mirror(BYTES, break_after=[100_000, 0]))
    assert not target.exists() and partial_of(target).read_bytes() == BYTES[:100_000]
    mirror = Mirror(BYTES)
    get(target, mirror)
    assert only(target) and mirror.requests == ["bytes=100000-"]


@pytest.mark.parametrize("status", [404, 403, 500, 503])
def test_a_mirror_that_refuses_is_passed_over(target, status):
    get(target, Mirror(b"", status=status), Mirror(BYTES))
    assert only(target)


@pytest.mark.parametrize(
    "location", ["http://[::1", "http://127.0.0.1:port/", "file:///a.bin", "http://", "http://a\xff..b/", "/0"]
)
def test_a_mirror_that_redirects_to_nowhere_is_passed_over(target, location):
    get(target, Mirror(b"", status=302, headers={"Location": location}), Mirror(BYTES))
    assert only(target)


def test_a_bad_redirect_is_told_as_the_reason(target):
    with pytest.raises(LabError, match="/0: ValueError: Invalid IPv6 URL"):
        get(target, Mirror(b"", status=302, headers={"Location": "http://[::1"}))


def test_nobody_listens(target):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
        with serving({"/a": Mirror(BYTES)}) as base:
            download([dead, f"{base}/a"], target, CONTENT, progress=False)
        assert only(target)
        target.unlink()
        with pytest.raises(LabError, match="ConnectionError") as caught:
            download([dead], target, CONTENT, progress=False)
    assert dead in str(caught.value) and "\n" not in str(caught.value)


def test_corrupt_bytes_never_become_the_file(target):
    with pytest.raises(LabError, match="checksum differs"):
        get(target, Mirror(WRONG))
    assert list(target.parent.iterdir()) == []
    get(target, Mirror(WRONG), Mirror(BYTES))
    assert only(target)


def test_a_corrupt_partial_is_dropped_and_the_mirror_asked_again(target):
    leave_partial(target, WRONG[:200_000])
    mirror = Mirror(BYTES)
    get(target, mirror)
    assert only(target) and mirror.requests == ["bytes=200000-", ""]


def test_a_partial_that_is_too_long_is_dropped(target):
    leave_partial(target, BYTES + b"more")
    mirror = Mirror(BYTES)
    get(target, mirror)
    assert only(target) and mirror.requests == [""]


def test_a_server_that_announces_another_size(target):
    with pytest.raises(LabError, match="announced 299,990 bytes where the registry expects 300,000"):
        get(target, Mirror(BYTES, announce=len(BYTES) - 10))
    with pytest.raises(LabError, match="announced 300,010 bytes"):
        get(target, Mirror(BYTES, announce=len(BYTES) + 10))
    assert not target.exists()


def test_a_server_that_sends_more_than_it_should(target):
    with pytest.raises(LabError, match="sent more than the 300,000 bytes"):
        get(target, Mirror(BYTES + b"x" * 100_000, announce=""))
    assert not target.exists() and partial_of(target).stat().st_size == 0


def test_a_server_that_resumes_another_file(target):
    leave_partial(target, BYTES[:1000])
    with pytest.raises(LabError, match="another range"):
        get(target, Mirror(BYTES, total=len(BYTES) + 1))
    with pytest.raises(LabError, match="another range"):
        get(target, Mirror(BYTES, begin=900))
    get(target, Mirror(BYTES[:500]), Mirror(BYTES))  # shorter than what is kept already: answers 416
    assert only(target)


def test_a_server_that_calls_the_file_gzip_encoded(target):
    """The bytes are taken as they come: a .gz is wanted packed."""
    get(target, Mirror(BYTES, headers={"Content-Encoding": "gzip"}))
    assert only(target)


def test_every_mirror_is_named_with_its_reason(target):
    with pytest.raises(LabError) as caught:
        get(target, Mirror(b"", status=404), Mirror(WRONG))
    assert "/0: answered 404" in str(caught.value) and "/1: sent other bytes" in str(caught.value)


def test_a_full_disk_says_so_and_keeps_what_came(target, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("labkit.datasets.download.os.replace", full)
    with pytest.raises(LabError, match="room to write"):
        get(target, Mirror(BYTES))
    assert not target.exists() and partial_of(target).read_bytes() == BYTES


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LabError):
        get(tmp_path / "file" / "a.bin", Mirror(BYTES))
