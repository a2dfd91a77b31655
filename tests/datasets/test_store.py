"""Decoded pictures on disk: the same as decoding anew, rebuilt where files changed, whole or absent."""

import errno
import os
import pickle
import shutil

import numpy as np
import pytest
import torch

from labkit.datasets import store as module
from labkit.datasets.decoding import BadPicture, decode
from labkit.datasets.readers import read_catalogue
from labkit.datasets.store import PictureStore
from labkit.errors import LabError
from tests.datasets.pictures import make_folder, picture


@pytest.fixture
def catalogue(tmp_path):
    return read_catalogue(make_folder(tmp_path / "pictures", each=4))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(module, "SHARD", 5)


@pytest.fixture
def decoded(monkeypatch):
    """Names of the pictures that are decoded, in any order."""
    seen = []
    plain = PictureStore._look
    monkeypatch.setattr(PictureStore, "_look", lambda self, i: seen.append(self.catalogue.files[i]) or plain(self, i))
    return seen


def shards(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("keep", [True, False])
def test_every_picture_is_what_decoding_gives(catalogue, tmp_path, keep):
    kept = PictureStore(catalogue, 24, folder=tmp_path / "cache", keep_pixels=keep, workers=3)
    for i in range(len(catalogue)):
        wanted = decode(catalogue.path(i).read_bytes(), 24).pixels
        np.testing.assert_array_equal(kept.picture(i).permute(1, 2, 0).numpy(), wanted)
    assert kept.problems == [""] * 16 and len(set(kept.digests)) == 16
    size = sum((tmp_path / "cache" / name).stat().st_size for name in shards(tmp_path / "cache"))
    assert (size > 16 * 24 * 32 * 3) == keep


def test_a_second_time_decodes_nothing(catalogue, tmp_path, decoded):
    first = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert sorted(decoded) == sorted(catalogue.files)
    decoded.clear()
    second = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert decoded == [] and first.identity == second.identity
    assert all(torch.equal(first.picture(i), second.picture(i)) for i in range(16))


def test_a_changed_picture_costs_its_own_file_alone(catalogue, tmp_path, decoded):
    first = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    before, identity = set(shards(tmp_path / "cache")), first.identity
    decoded.clear()
    picture(catalogue.path(7), seed=77, size=(50, 50))
    again = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert sorted(decoded) == sorted(catalogue.files[5:10]) and again.identity != identity
    np.testing.assert_array_equal(again.picture(7).permute(1, 2, 0), decode(catalogue.path(7).read_bytes(), 24).pixels)
    after = set(shards(tmp_path / "cache"))
    assert len(after) == len(before) == 4 and len(after & before) == 3, "the file of the old picture is gone"


def test_other_sizes_do_not_mix(catalogue, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    small, large = PictureStore(catalogue, 16), PictureStore(catalogue, 24)
    square = PictureStore(catalogue, 24, square=True)
    assert [s.picture(0).shape[1:] for s in (small, large, square)] == [(16, 21), (24, 32), (24, 24)]
    assert len(list((tmp_path / "cache" / "decoded").iterdir())) == 3


def test_an_interrupted_build_goes_on(catalogue, tmp_path, monkeypatch, decoded):
    plain, calls = module.write_atomically, []

    def stops(path, writer):
        calls.append(path)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(path, writer)

    monkeypatch.setattr(module, "write_atomically", stops)
    with pytest.raises(KeyboardInterrupt):
        PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert len(shards(tmp_path / "cache")) == 2
    decoded.clear()
    PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert sorted(decoded) == sorted(catalogue.files[10:])


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-3], lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:-60] + bytes(44) + b[-16:]],
)
def test_a_damaged_file_is_built_again(catalogue, tmp_path, decoded, damage):
    PictureStore(catalogue, 24, folder=tmp_path / "cache")
    decoded.clear()
    path = tmp_path / "cache" / shards(tmp_path / "cache")[0]
    path.write_bytes(damage(path.read_bytes()))
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert 1 <= len(decoded) <= 5 and store.problems == [""] * 16
    for i in range(16):
        np.testing.assert_array_equal(store.picture(i).permute(1, 2, 0), decode(catalogue.path(i).read_bytes(), 24).pixels)


@pytest.mark.parametrize("damage", [lambda b: b[100:], lambda b: b[:200] + b[201:], lambda b: b[:200] + b"x" + b[200:]])
def test_a_file_with_bytes_missing_or_moved_is_built_again(catalogue, tmp_path, decoded, damage):
    first = [PictureStore(catalogue, 24, folder=tmp_path / "cache").picture(i).clone() for i in range(16)]
    decoded.clear()
    path = tmp_path / "cache" / shards(tmp_path / "cache")[0]
    path.write_bytes(damage(path.read_bytes()))
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert 1 <= len(decoded) <= 5, "all pictures of the file, and no others"
    assert all(torch.equal(store.picture(i), first[i]) for i in range(16))


def test_a_picture_that_was_changed_on_disk_is_decoded_again_and_put_back(catalogue, tmp_path, decoded):
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    first, path = [store.picture(i).clone() for i in range(16)], store._paths[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    decoded.clear()
    sent = pickle.dumps(store)
    for opened in (PictureStore(catalogue, 24, folder=tmp_path / "cache"), pickle.loads(sent)):
        assert all(torch.equal(opened.picture(i), first[i]) for i in range(16))
    assert decoded == [catalogue.files[0]], "the damaged picture alone, and once"
    assert path.read_bytes() == whole


def test_a_cache_that_may_not_be_written_to_is_mended_in_memory(catalogue, tmp_path, monkeypatch):
    first = PictureStore(catalogue, 24, folder=tmp_path / "cache").picture(1).clone()
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    store._shards[0].pixels[store._shards[0].offsets[1]] ^= 255
    monkeypatch.setattr(store._shards[0], "path", tmp_path)
    assert torch.equal(store.picture(1), first)


def test_a_damaged_picture_whose_file_has_changed_is_told(catalogue, tmp_path):
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    store._shards[0].pixels[5] ^= 255
    picture(catalogue.path(0), seed=77)
    with pytest.raises(LabError, match=r"as they were written; got a damaged picture, and another one in .*Remove it"):
        store.picture(0)


def test_what_is_no_file_is_neither_waited_for_nor_read(catalogue, tmp_path):
    catalogue.path(0).unlink()
    catalogue.path(1).unlink()
    os.mkfifo(catalogue.path(0))
    os.mkdir(catalogue.path(1))
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert store.problems[:3] == ["no regular file", "a folder", ""]


def test_what_is_gone_as_soon_as_it_was_written_is_no_reason_to_mix_pictures_up(catalogue, tmp_path, monkeypatch):
    """Another process may remove it; leaving it out would move all later pictures to other labels."""
    plain, written = module.write_atomically, []

    def removed(path, writer):
        written.append(plain(path, writer))
        if len(written) == 2:
            path.unlink()

    monkeypatch.setattr(module, "write_atomically", removed)
    with pytest.raises(LabError, match="the pictures just written; got something else"):
        PictureStore(catalogue, 24, folder=tmp_path / "cache")


def test_an_old_file_that_cannot_be_removed_stays(catalogue, tmp_path, monkeypatch):
    PictureStore(catalogue, 24, folder=tmp_path / "cache")
    picture(catalogue.path(7), seed=77, size=(50, 50))

    def in_use(path, missing_ok=False):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(module.Path, "unlink", in_use)
    assert len(PictureStore(catalogue, 24, folder=tmp_path / "cache")) == 16
    assert len(shards(tmp_path / "cache")) == 5


def test_a_full_disk_says_so_and_leaves_no_part(catalogue, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("labkit.files.os.fsync", full)
    with pytest.raises(LabError, match="room to write"):
        PictureStore(catalogue, 24, folder=tmp_path / "cache")
    assert shards(tmp_path / "cache") == []


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(catalogue, tmp_path, monkeypatch):
    wanted = 16 * 24 * 24 * 3 * 1.35
    for free, fits in ((int(wanted) + 1, True), (int(wanted) - 1, False)):
        monkeypatch.setattr(module.shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(0, 0, free))
        place = tmp_path / str(free)
        if fits:
            PictureStore(catalogue, 24, folder=place)
            continue
        with pytest.raises(LabError, match=r"keep_pixels=false"):
            PictureStore(catalogue, 24, folder=place)
        assert not place.exists()
        PictureStore(catalogue, 24, folder=place, keep_pixels=False)


def test_another_process_maps_the_same_files(catalogue, tmp_path):
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache")
    sent = pickle.dumps(store)
    assert len(sent) < sum((tmp_path / "cache" / name).stat().st_size for name in shards(tmp_path / "cache")) / 2
    received = pickle.loads(sent)
    assert all(torch.equal(store.picture(i), received.picture(i)) for i in range(16))
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(LabError, match="Load them again"):
        pickle.loads(sent)


def test_bad_pictures_are_told_one_by_one(catalogue, tmp_path):
    catalogue.path(0).unlink()
    catalogue.path(1).write_bytes(b"no picture")
    picture(catalogue.path(2), mode="L")
    whole = catalogue.path(3).read_bytes()
    catalogue.path(3).write_bytes(whole[: len(whole) // 2])
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache", workers=2)
    assert "No such file" in store.problems[0] and "cannot identify" in store.problems[1] and store.problems[3]
    assert store.problems[2] == "" and store.kinds[2] == "grey" and store.problems[4:] == [""] * 12
    assert store.digests[0] == "" and store.digests[1]


def test_a_picture_that_goes_bad_later(catalogue, tmp_path):
    store = PictureStore(catalogue, 24, folder=tmp_path / "cache", keep_pixels=False)
    catalogue.path(4).unlink()
    with pytest.raises(BadPicture, match="No such file"):
        store.picture(4)
