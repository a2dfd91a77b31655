"""What a reader says of a folder: one is told as one, and several as several."""

from __future__ import annotations

import shutil

import pytest

from labkit.datasets import DataWarning, Views, load_images
from labkit.datasets.catalogue import counted
from tests.datasets.pictures import make_folder


@pytest.mark.parametrize(
    ("number", "what", "told"),
    [(1, "class", "1 class"), (2, "class", "2 classes"), (1, "picture", "1 picture"), (0, "picture", "0 pictures"),
     (1200, "picture", "1,200 pictures")],
)  # fmt: skip
def test_a_number_and_its_noun_agree(number, what, told):
    assert counted(number, what) == told


def test_one_picture_is_told_as_one_and_two_classes_as_two(tmp_path):
    folder = make_folder(tmp_path / "pictures", [f"c{i}" for i in range(10)], each=4)
    shutil.copy(folder / "c0" / "0.png", folder / "c1" / "copy.png")
    (folder / "c2" / "0.png").write_bytes(b"no picture")
    for name in ("d", "e"):
        (folder / name).mkdir()
    options = {"views": Views(size=16), "cache": tmp_path / "cache", "progress": False, "unusable": "skip"}
    with pytest.warns(DataWarning) as warned:
        splits = load_images(folder, folds=5, **options)
    copied, empty, bad = sorted(str(w.message) for w in warned)
    assert copied.startswith("1 picture of pictures is in several classes: c0/0.png = c1/copy.png")
    assert empty == "2 classes of pictures have no picture: d, e."
    assert bad.startswith("Left out 1 picture of pictures: c2/0.png")
    assert "16 of 4 classes to train, 4 of 1 class to validate, 20 of 5 classes to test" in splits.description
