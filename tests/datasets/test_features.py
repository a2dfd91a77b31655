"""Features of a frozen network: computed once, the same as computing them anew, never half-written."""

import os

import numpy as np
import pytest
import torch

from labkit.datasets import ImageSet, Views, frozen_features, load_images
from labkit.errors import LabError
from tests.datasets.pictures import make_folder


@pytest.fixture
def pictures():
    images = torch.randint(0, 256, (25, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return ImageSet(images, torch.arange(25) % 5)


class Counting:
    def __init__(self):
        self.calls = []

    def __call__(self, images):
        self.calls.append(len(images))
        return images.float().flatten(2).mean(2)


def test_computed_once_in_chunks_and_then_mapped(pictures, tmp_path):
    network = Counting()
    first = frozen_features(network, pictures, "a", folder=tmp_path, chunk=10)
    assert network.calls == [10, 10, 5] and first.dtype == torch.float32
    torch.testing.assert_close(first, pictures.images.float().flatten(2).mean(2))
    assert torch.equal(frozen_features(network, pictures, "a", folder=tmp_path, chunk=10), first) and len(network.calls) == 3


def test_other_weights_pictures_or_orders_are_computed_anew(pictures, tmp_path):
    network = Counting()
    for key, part in (("a", pictures), ("b", pictures), ("a", pictures.subset(torch.arange(25).flip(0)))):
        result = frozen_features(network, part, key, folder=tmp_path)
        torch.testing.assert_close(result, part.images.float().flatten(2).mean(2))
    assert len(network.calls) == 3 and len(os.listdir(tmp_path)) == 3


def test_photographs_are_known_by_their_files_and_views(tmp_path):
    make_folder(tmp_path / "p", each=3)
    network = Counting()
    for size in (16, 16, 17):
        options = {"views": Views(size=size, side=20), "cache": tmp_path / "c", "progress": False, "folds": 2}
        frozen_features(network, load_images(tmp_path / "p", **options).test, "a", folder=tmp_path / "f")
    assert len(network.calls) == 2


def test_a_damaged_file_is_computed_again(pictures, tmp_path):
    network = Counting()
    first = frozen_features(network, pictures, "a", folder=tmp_path).clone()
    path = tmp_path / os.listdir(tmp_path)[0]
    whole = path.read_bytes()
    nan = np.float32(np.nan).tobytes()
    other = [whole[:at] + nan + whole[at + 4 :] for at in (128, 200, len(whole) - 16)] + [whole[:8] + b"x" + whole[9:]]
    for content in (whole[:-5], whole[:-12], whole + b"x", b"", b"text", *other):
        path.write_bytes(content)
        assert torch.equal(frozen_features(network, pictures, "a", folder=tmp_path), first)
        assert path.read_bytes() == whole


def test_an_interruption_leaves_nothing(pictures, tmp_path):
    def stops(images):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        frozen_features(stops, pictures, "a", folder=tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("network", [lambda x: x, lambda x: x[:1, :, 0, 0], lambda x: x.float().mean((2, 3)) * torch.nan])
def test_networks_that_will_not_do(pictures, tmp_path, network):
    with pytest.raises(LabError, match="network"):
        frozen_features(network, pictures, "a", folder=tmp_path)
    assert os.listdir(tmp_path) == []
