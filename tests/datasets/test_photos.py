"""Photographs on disk behave as pictures in memory do, cut by classes as the protocols have it."""

import multiprocessing
import shutil
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from labkit.datasets import ImageSet, spread_sample
from labkit.datasets.photos import PhotoSet
from labkit.datasets.protocols import DataWarning, fold_of_classes, load_images
from labkit.datasets.views import Views
from labkit.errors import LabError
from tests.datasets.pictures import make_cub, make_folder, make_in_shop, picture

VIEWS = Views(size=16, side=20)


@pytest.fixture
def load(tmp_path):
    def load(source, **options):
        defaults = {"views": VIEWS, "cache": tmp_path / "cache", "progress": False}
        return load_images(source, **(defaults | options))

    return load


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "pictures", [f"c{i}" for i in range(10)], each=4)


def test_images_on_disk_read_like_a_tensor(load, folder):
    photos = load(folder).train
    memory = photos.in_memory()
    assert type(memory) is ImageSet and memory.images.shape == photos.images.shape == (12, 3, 16, 16)
    assert torch.equal(memory.labels, photos.labels) and memory.labels.tolist() == [c for c in range(3) for _ in range(4)]
    assert len(photos) == len(photos.images) == 12 and photos.images.dtype == memory.images.dtype
    some = torch.tensor([3, 0, 3])
    assert torch.equal(photos.images[some], memory.images[some])
    assert torch.equal(photos.images[::5], memory.images[::5]) and torch.equal(photos.images[-1], memory.images[-1])
    assert torch.equal(photos.images[memory.labels == 1], memory.images[memory.labels == 1])
    assert torch.equal(photos[2][0], memory.images[2]) and photos[2][1] == int(memory.labels[2])
    part = photos.subset(some)
    assert torch.equal(part.labels, memory.labels[some]) and torch.equal(part.images[:], memory.images[some])
    with pytest.raises(IndexError):
        photos.images[12]
    with pytest.raises(LabError, match="slice"):
        photos.images[torch.rand(2)]


@pytest.mark.parametrize("keep", [True, False])
def test_views_depend_on_their_numbers_alone(load, folder, keep):
    """However many threads there are, and whether pixels are kept."""
    photos = load(folder, keep_pixels=keep).train
    indices = torch.tensor([1, 5, 5, 9, 0])
    draws = VIEWS.draw(5, torch.Generator().manual_seed(3))
    wanted = torch.stack([VIEWS.random(photos.store.picture(int(photos.rows[i])), d) for i, d in zip(indices, draws)])
    for workers in (1, 2, 7):
        crew = PhotoSet(photos.store, photos.rows, photos.labels, VIEWS, workers)
        assert torch.equal(crew.random(indices, draws).result(), wanted)
    assert not torch.equal(wanted[1], wanted[2]), "one picture twice has two views"


def test_data_sets_that_share_a_cache_leave_each_other_alone(load, folder, tmp_path):
    """And whatever else lies in that folder."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mine.pixels").write_bytes(b"mine")

    def kept():
        return {path for path in (tmp_path / "cache").rglob("*.pixels")}

    load(folder)
    first = kept()
    load(make_folder(tmp_path / "others", [f"d{i}" for i in range(10)], each=2))
    second = kept()
    load(folder, views=Views(size=12, side=16))
    assert first < second < kept() and len(kept()) == 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # newer Pythons say so of any fork beside threads
def test_forked_workers_of_a_loader_read_with_threads_of_their_own(load, folder):
    photos = load(folder).train
    wanted = photos.images[:]  # from now on there are threads here, which a fork leaves behind
    ways = multiprocessing.get_all_start_methods()
    way = "fork" if "fork" in ways else ways[0]
    loader = DataLoader(photos, batch_size=4, num_workers=1, multiprocessing_context=way, timeout=30)
    assert torch.equal(torch.cat([pictures for pictures, _ in loader]), wanted)


def test_no_pictures_give_an_empty_batch(load, folder):
    photos = load(folder).train
    assert photos.central(torch.tensor([], dtype=torch.long)).shape == (0, 3, 16, 16)


def test_a_picture_that_vanishes_is_named(load, folder):
    photos = load(folder, keep_pixels=False).train
    shutil.rmtree(folder / "c2")
    with pytest.raises(LabError, match="c2"):
        photos.images[:]


# ---------------------------------------------------------------- splits


@settings(max_examples=100, deadline=None)
@given(ids=st.sets(st.integers(1, 300), min_size=5, max_size=60), folds=st.integers(2, 5))
def test_folds_are_contiguous_and_balanced(ids, folds):
    ids = np.array(sorted(ids))
    fold = fold_of_classes(ids, folds)
    assert (np.diff(fold) >= 0).all() and set(fold.tolist()) == set(range(folds))
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 1


def test_the_official_ranges_hold_for_a_partial_copy():
    ids = np.array([1, 25, 26, 50, 51, 75, 76, 100])
    assert fold_of_classes(ids, 4, 100).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert fold_of_classes(np.arange(1, 99), 4, 98).tolist() == [0] * 25 + [1] * 25 + [2] * 24 + [3] * 24
    assert fold_of_classes(np.array([24, 25, 49, 50]), 4, 98).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("fold", range(4))
def test_mlrc_folds(load, tmp_path, fold):
    make_cub(tmp_path, ids=(1, 20, 30, 60, 70, 99, 101, 150))
    with pytest.warns(DataWarning, match="24 of 5,864 train pictures"):
        splits = load("cub", root=tmp_path, fold=fold)
    validated = {0: [1, 20], 1: [30], 2: [60, 70], 3: [99]}[fold]
    trained = [i for i in (1, 20, 30, 60, 70, 99) if i not in validated]
    assert splits.class_names == tuple(f"Bird {i}" for i in (*trained, *validated, 101, 150))
    for part, ids in ((splits.train, trained), (splits.held_out, validated), (splits.test, [101, 150])):
        first = splits.class_names.index(f"Bird {ids[0]}")
        assert sorted(set(part.labels.tolist())) == list(range(first, first + len(ids)))
        assert len(part) == 4 * len(ids)
        files = [part.store.catalogue.files[int(row)] for row in part.rows]
        assert [f"Bird {int(f.split('/')[1][:3])}" for f in files] == [splits.class_names[label] for label in part.labels]
    assert torch.equal(splits.seen.rows, splits.train.rows) and splits.train_classes == len(trained)
    assert f"fold {fold} of 4" in splits.description


def test_three_splits_that_train_on_two(load, folder):
    rounds = [load(folder, fold=f, folds=3, train_folds=1) for f in range(3)]
    for f, splits in enumerate(rounds):
        following = rounds[(f + 1) % 3]
        held = lambda s: {s.class_names[i] for i in set(s.held_out.labels.tolist())}
        trained = {splits.class_names[i] for i in set(splits.train.labels.tolist())}
        assert trained == held(following) and not trained & held(splits)


def test_conventional_trains_on_all_of_the_first_half(load, folder):
    splits = load(folder, protocol="conventional")
    assert set(splits.train.labels.tolist()) == set(range(5)) and len(splits.train) == 20
    assert splits.held_out is splits.seen and set(splits.held_out.rows.tolist()) <= set(splits.train.rows.tolist())
    assert set(splits.test.labels.tolist()) == set(range(5, 10)) and splits.gallery is None


@settings(max_examples=100, deadline=None)
@given(labels=st.lists(st.integers(0, 40), min_size=1, max_size=300), size=st.integers(16, 120))
def test_a_spread_sample_keeps_classes_together(labels, size):
    labels = torch.tensor(labels)
    rows = spread_sample(labels, size)
    assert len(rows) <= size and rows.tolist() == sorted(set(rows.tolist()))
    counts, all_counts = torch.bincount(labels[rows], minlength=41), torch.bincount(labels, minlength=41)
    assert (counts > 0).sum() <= max(2, size // 8)
    for c in torch.nonzero(counts).flatten().tolist():
        assert counts[c] >= min(2, all_counts[c]) or len(rows) == size
    if len(labels) <= size and len(set(labels.tolist())) <= size // 8:
        assert len(rows) == len(labels)


def test_in_shop_tests_queries_against_a_gallery(load, tmp_path):
    make_in_shop(tmp_path)
    with pytest.warns(DataWarning):
        splits = load("in-shop", root=tmp_path, protocol="conventional")
    assert splits.train_classes == 2 and splits.test.labels.tolist() == [2, 2, 3, 3]
    assert splits.gallery.labels.tolist() == [2, 3, 3]


# ---------------------------------------------------------------- what is wrong


def test_unusable_pictures_are_refused_or_skipped_by_name(load, folder):
    (folder / "c0" / "1.png").write_bytes(b"no picture")
    picture(folder / "c7" / "2.png", size=(1, 1))
    with pytest.raises(LabError, match=r"2 that cannot: c0/1.png \(cannot identify .*\), c7/2.png \(1 x 1 pixels") as caught:
        load(folder)
    assert "skip" in caught.value.hint
    with pytest.warns(DataWarning, match="Left out 2 pictures of pictures: c0/1.png"):
        splits = load(folder, unusable="skip")
    assert len(splits.train) + len(splits.held_out) + len(splits.test) == 38


def test_grey_and_cmyk(load, folder):
    picture(folder / "c0" / "g.png", mode="L", seed=900)
    picture(folder / "c1" / "c.jpg", mode="CMYK", seed=901)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(map(len, (load(folder).train, load(folder).held_out))) == 22
    with pytest.raises(LabError, match=r"c0/g.png \(grey\), c1/c.jpg \(CMYK\)"):
        load(folder, not_colour="refuse")
    with pytest.warns(DataWarning, match="Left out 2"):
        splits = load(folder, not_colour="skip")
    assert len(splits.train) + len(splits.held_out) == 20


def test_one_file_in_two_classes_is_reported(load, folder):
    shutil.copy(folder / "c0" / "0.png", folder / "c1" / "copy.png")
    shutil.copy(folder / "c0" / "1.png", folder / "c9" / "copy.png")
    shutil.copy(folder / "c0" / "2.png", folder / "c0" / "copy.png")
    with pytest.warns(DataWarning) as warned:
        load(folder)
    told = [str(w.message) for w in warned]
    assert told[0].startswith("2 pictures of pictures are in several classes: c0/0.png = c1/copy.png")
    assert told[1] == "1 of them is both in training and in test classes."


def test_classes_with_one_picture_or_none(load, folder):
    for i in range(1, 4):
        (folder / "c9" / f"{i}.png").unlink()
    (folder / "d").mkdir()
    with pytest.warns(DataWarning) as warned:
        load(folder)
    told = [str(w.message) for w in warned]
    assert told == ["1 class of pictures has no picture: d.", "1 class of pictures has one picture only: c9."]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"protocol": "mlcr"}, "mlrc"),
        ({"fold": 4}, "fold"),
        ({"folds": 1}, "folds"),
        (
            {"folds": 6, "fold": 0},
            "at most the 5 training classes that there are; got 6. Set photos.folds; .* 6 folds need 12 classes",
        ),
        ({"train_folds": 4}, "train_folds"),
        ({"unusable": "ignore"}, "unusable"),
        ({"not_colour": "grey"}, "not_colour"),
        ({"workers": 0}, "workers"),
    ],
)
def test_options_that_will_not_do(load, folder, options, words):
    with pytest.raises(LabError, match=words):
        load(folder, **options)


def test_a_class_of_bad_pictures_only(load, folder):
    for i in range(4):
        (folder / "c1" / f"{i}.png").write_bytes(b"")
    with pytest.warns(DataWarning, match="Left out 4"):
        splits = load(folder, unusable="skip")
    assert "c1" not in splits.class_names and splits.train_classes + len(set(splits.held_out.labels.tolist())) == 4
