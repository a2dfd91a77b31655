"""Batches of photographs: read ahead, the same for any number of threads, resumed in the middle."""

import pytest
import torch

from labkit.datasets import PhotoSet, Views, load_images
from labkit.errors import LabError
from labkit.training.photo_pictures import AHEAD, PhotoPictures
from labkit.training.sections import Data
from labkit.training.world import World
from tests.photographs import eight_classes

SETTINGS = Data(classes_per_batch=3, samples_per_class=2)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    top = tmp_path_factory.mktemp("photos")
    return load_images(eight_classes(top), views=Views(size=16, side=20), cache=top / "cache", progress=False, folds=4)


def open_pictures(splits, seed=0, workers=2):
    photos = splits.train
    dealt = PhotoSet(photos.store, photos.rows, photos.labels, photos.view_settings, workers)
    return PhotoPictures(dealt, splits, SETTINGS, seed, World(CPU))


def deal(pictures, n):
    found = []
    for _ in range(n):
        indices, labels = pictures.batch()
        found.append((indices, labels, pictures.views(indices)))
    return found


def same(a, b):
    return len(a) == len(b) and all(all(torch.equal(x, y) for x, y in zip(*pair)) for pair in zip(a, b))


def test_batches_have_the_classes_and_the_views_are_in_unit_range(splits):
    for indices, labels, views in deal(open_pictures(splits), 10):
        assert views.shape == (6, 3, 16, 16) and views.dtype == torch.float32 and 0 <= views.min() < views.max() <= 1
        assert torch.equal(labels, splits.train.labels[indices]) and len(set(labels.tolist())) == 3


def test_the_same_seed_gives_the_same_views_with_any_number_of_threads(splits):
    first = deal(open_pictures(splits), 12)
    assert same(first, deal(open_pictures(splits, workers=1), 12)) and same(first, deal(open_pictures(splits, workers=5), 12))
    assert not same(first, deal(open_pictures(splits, seed=1), 12))
    assert not torch.equal(first[0][2], first[1][2])


def test_a_pool_in_between_changes_no_batch(splits):
    plain, disturbed = open_pictures(splits), open_pictures(splits)
    wanted = deal(plain, 8)
    found = deal(disturbed, 3)
    pool = disturbed.pool(4)
    assert pool.shape == (3, 4) and disturbed.views(pool.flatten()).shape == (12, 3, 16, 16)
    assert same(wanted, found + deal(disturbed, 5))


def test_anchors_come_behind_the_batch(splits):
    pictures = open_pictures(splits)
    wanted = deal(open_pictures(splits), 1)[0][2]
    indices, _ = pictures.batch()
    views = pictures.views(indices, torch.tensor([0, 1]))
    assert views.shape[0] == 8 and torch.equal(views[:6], wanted)
    assert torch.equal(pictures.originals(torch.tensor([4])), splits.train.images[4:5])


@pytest.mark.parametrize("before", [0, 1, AHEAD + 4])
def test_a_resumed_run_goes_on_as_if_nothing_had_been(splits, before):
    one, other = open_pictures(splits), open_pictures(splits, seed=9)
    deal(one, before)
    one.views(one.pool(2).flatten())
    state = one.state_dict()
    deal(other, 2)
    other.load_state_dict(state)
    wanted, found = deal(one, 6), deal(other, 6)
    assert same(wanted, found) and torch.equal(one.pool(3), other.pool(3))
    assert torch.equal(one.views(torch.tensor([7, 7])), other.views(torch.tensor([7, 7])))


def test_more_classes_than_there_are(splits):
    with pytest.raises(LabError, match="at most the 3 classes"):
        PhotoPictures(splits.train, splits, Data(classes_per_batch=4), 0, World(CPU))
