"""The photographs behind a recording, found again; and the two sides of its sample."""

import dataclasses

import numpy as np
import pytest

from labkit.datasets import DataWarning, Views, load_images
from labkit.errors import LabError
from labkit.training import Experiment, Recording, load_shipped
from labkit.training.recorded_sample import recorded_pictures, recorded_sides
from labkit.training.recorder import fixed_sample
from tests.datasets.pictures import make_cub

IDS = (1, 30, 60, 77, 99, 101, 150, 200)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A data root, a recording as a run on it would make it, and the pictures of its sample by the run's own way."""
    root = tmp_path_factory.mktemp("root")
    make_cub(root, IDS, each=6)
    experiment = Experiment.preset("cub-c2", sample_size=20)
    with pytest.warns(DataWarning, match="not as published"):
        splits = load_images("cub", root=root, cache=root / "cache", views=Views(size=16, side=16), progress=False)
    sample = fixed_sample(splits, experiment.sample_size)
    labels = sample.labels.numpy()
    recording = Recording(
        experiment.to_dict(), np.array([0]), np.zeros((1, len(labels), 2)), labels, class_names=list(splits.class_names),
        environment={"train_classes": splits.train_classes},
    )  # fmt: skip
    return root, recording, sample.images.permute(0, 2, 3, 1).numpy()


def test_the_pictures_are_those_of_the_run(recorded):
    root, recording, expected = recorded
    found = recorded_pictures(recording, side=16, root=root)
    assert np.array_equal(found, expected) and len(np.unique(found, axis=0)) == len(expected) > 20
    assert np.array_equal(recorded_pictures(recording, [19, 2], side=16, root=root), expected[[19, 2]])
    assert recorded_pictures(recording, [], side=16, root=root).shape == (0, 16, 16, 3)


def test_training_classes_come_first(recorded):
    recording = recorded[1]
    sides = recorded_sides(recording)
    assert sides.train.tolist() == list(range(10)) and sides.test.tolist() == list(range(10, 22))
    names = np.array(recording.class_names)[recording.labels]
    number = np.array([int(name.split()[-1]) for name in names])
    assert (number[sides.train] <= 100).all() and (number[sides.test] > 100).all()


def test_other_pictures_than_the_recorded_ones_are_not_shown(recorded, tmp_path):
    root, recording, _ = recorded
    assert recorded_pictures(recording, root=tmp_path) is None
    make_cub(tmp_path, IDS[:-1], each=6)  # a class less
    assert recorded_pictures(recording, root=tmp_path) is None
    fewer = dataclasses.replace(recording, labels=recording.labels[:-1], embeddings=recording.embeddings[:, :-1])
    assert recorded_pictures(fewer, root=root) is None


def test_a_file_that_is_listed_and_gone_gives_none(recorded, tmp_path):
    make_cub(tmp_path, IDS, each=6)
    assert recorded_pictures(recorded[1], root=tmp_path) is not None
    for path in (tmp_path / "CUB_200_2011" / "images").glob("101*/*"):
        path.unlink()
    assert recorded_pictures(recorded[1], root=tmp_path) is None


@pytest.mark.parametrize(("options", "words"), [({"rows": [200]}, "rows"), ({"rows": [-1]}, "rows"), ({"side": 4}, "side")])
def test_what_will_not_do_is_named(recorded, options, words):
    with pytest.raises(LabError, match=words):
        recorded_pictures(recorded[1], root=recorded[0], **options)


def test_digits_have_neither_photographs_nor_sides():
    digits = load_shipped("mnist-2d-c2-seed0")
    with pytest.raises(LabError, match="photographs"):
        recorded_pictures(digits)
    with pytest.raises(LabError, match="never seen"):
        recorded_sides(digits)
