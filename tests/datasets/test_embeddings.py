"""Other people's files: what is read, and what is said about those that cannot be."""

import numpy as np
import pytest
import torch

from labkit.datasets import read_embeddings
from labkit.errors import LabError

VALUES = np.array([[0.5, -1.0], [2.0, 3e-2], [7.0, 8.0]])


def save(tmp_path, name="a.npz", **arrays):
    np.savez(tmp_path / name, **arrays)
    return tmp_path / name


def write(tmp_path, text, name="a.csv", encoding="utf-8"):
    (tmp_path / name).write_text(text, encoding=encoding)
    return tmp_path / name


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_npz(tmp_path, dtype):
    x, y, names = read_embeddings(save(tmp_path, embeddings=VALUES.astype(dtype), labels=np.array([5, -2, 5])))
    assert x.dtype == (torch.float64 if dtype == np.float64 else torch.float32)
    assert np.array_equal(x.numpy(), VALUES.astype(dtype).astype(x.numpy().dtype))
    assert y.tolist() == [1, 0, 1] and y.dtype == torch.int64 and names == ["-2", "5"]


def test_npz_with_text_labels_and_with_whole_floats(tmp_path):
    assert read_embeddings(save(tmp_path, embeddings=VALUES, labels=np.array(["cat", "ant", "cat"])))[2] == [
        "ant",
        "cat",
    ]
    assert read_embeddings(save(tmp_path, embeddings=VALUES, labels=np.array([10.0, 9.0, 9.0])))[2] == ["9", "10"]


@pytest.mark.parametrize(
    ("text", "labels", "names"),
    [
        ("x,label,y\n0.5,10,-1\n2,9,0.03\n7,10,8\n", [1, 0, 1], ["9", "10"]),
        ("\ufefflabel,x,y\nb,.5,-1.0\na,2,3e-2\n\nb,7,8\n", [1, 0, 1], ["a", "b"]),
        ("0.5,-1,b\n2,0.03,a\n7,8,b\n", [1, 0, 1], ["a", "b"]),
        ("x,y,kind\n0.5,-1,b\n2,0.03,a\n7,8,b\n", [1, 0, 1], ["a", "b"]),
    ],
)
def test_csv(tmp_path, text, labels, names):
    x, y, found = read_embeddings(write(tmp_path, text))
    assert np.array_equal(x.numpy(), VALUES) and y.tolist() == labels and found == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "rows with at least one number"),
        ("x,label\n", "rows with at least one number"),
        ("1\n2\n", "rows with at least one number"),
        ("1,2,a\n1,b\n", "row 2: expected 3 columns; got 2"),
        ("x,label\n1,a\nsix,b\n", "row 3: expected numbers beside the label"),
        ("1,2,a\nnan,2,b\n", "finite"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    with pytest.raises(LabError, match=words):
        read_embeddings(write(tmp_path, text))


def test_csv_that_is_not_utf_8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,2,\xff\xfe\n")
    with pytest.raises(LabError, match="UTF-8"):
        read_embeddings(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"embeddings": VALUES}, "arrays named embeddings and labels; got embeddings"),
        (
            {"embeddings": VALUES, "labels": np.array([1, 2])},
            r"one label per embedding, shape \(3,\); got shape \(2,\)",
        ),
        ({"embeddings": VALUES, "labels": np.array([[1], [2], [3]])}, "one label per embedding"),
        ({"embeddings": VALUES[0], "labels": np.array([1, 2])}, "two dimensions"),
        ({"embeddings": VALUES[:0], "labels": np.array([], dtype=int)}, "at least one row"),
        ({"embeddings": VALUES * np.inf, "labels": np.array([1, 2, 3])}, "finite"),
        ({"embeddings": VALUES.astype(str), "labels": np.array([1, 2, 3])}, "real numbers"),
        ({"embeddings": VALUES, "labels": np.array([0.5, 1, 1])}, "whole numbers or text"),
        ({"embeddings": VALUES, "labels": np.array([1, 2, None], dtype=object)}, "arrays of numbers or text"),
    ],
)
def test_bad_npz(tmp_path, arrays, words):
    with pytest.raises(LabError, match=words):
        read_embeddings(save(tmp_path, **arrays))


def test_damaged_or_other_files(tmp_path):
    whole = save(tmp_path, embeddings=VALUES, labels=np.array([1, 2, 3])).read_bytes()
    for content in (whole[:-30], whole[:100], b"", b"not a zip"):
        (tmp_path / "b.npz").write_bytes(content)
        with pytest.raises(LabError, match=r"b\.npz"):
            read_embeddings(tmp_path / "b.npz")
    for path, words in (
        (tmp_path / "x.npz", "nothing there"),
        (tmp_path / "a.txt", "ending in .npz or .csv"),
        (tmp_path, "ending"),
    ):
        with pytest.raises(LabError, match=words):
            read_embeddings(path)
