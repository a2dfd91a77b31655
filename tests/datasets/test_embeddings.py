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


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, ">f8", "<f8", ">f4", np.longdouble])
def test_npz(tmp_path, dtype):
    x, y, names = read_embeddings(save(tmp_path, embeddings=VALUES.astype(dtype), labels=np.array([5, -2, 5])))
    assert x.dtype == (torch.float64 if np.dtype(dtype).itemsize >= 8 else torch.float32)
    assert np.array_equal(x.numpy(), VALUES.astype(dtype).astype(x.numpy().dtype))
    assert y.tolist() == [1, 0, 1] and y.dtype == torch.int64 and names == ["-2", "5"]


@pytest.mark.parametrize(("first", "dtype"), [(2**40, torch.float64), (2**24 - 29, torch.float32), (-(2**40), torch.float64)])
def test_whole_numbers_that_are_close_stay_apart(tmp_path, first, dtype):
    whole = first + np.arange(30).reshape(10, 3)
    x, _, _ = read_embeddings(save(tmp_path, embeddings=whole, labels=np.arange(10) % 3))
    assert x.dtype == dtype and np.array_equal(x.numpy().astype(np.int64), whole)


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
        ("x,y,class\n0.5,-1,b\n2,0.03,a\n7,8,b\n", [1, 0, 1], ["a", "b"]),
        ('0,1,LABEL\n0.5,-1,"b, or c"\n2,0.03,a\n7,8,"b, or c"\n', [1, 0, 1], ["a", "b, or c"]),
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
        ("x,y,kind\n1,2,a\n", "a column named label, or no line of names; got the names x, y, kind"),
        ("x,label,class\n1,2,a\n", "one label column; got 2"),
        (",x,label\n0,5,a\n1,6,b\n", r"a name for every column; got none for column 1.*index=False"),
        ("x,label,\n5,a,0\n6,b,1\n", "a name for every column; got none for column 3"),
        ("Unnamed: 0,x,label\n0,5,a\n1,6,b\n", "a name for every column; got none for column 1"),
        ("x,label\n1,a\n\n2, \n", "row 4: expected a label; got an empty cell"),
        ("1,2,a\n3,4,\n", "row 2: expected a label; got an empty cell"),
        ('1,2,"a\n3,4,b\n5,6,c\n', "row 1: .*unexpected end of data.*quotation mark"),
        ('1,2,a\n3,4,"b\n5,6,c"\n7,8,d\n', "row 2: expected one row on one line; got one that ends on line 3"),
        ('1,2,"a"b\n3,4,c\n', "row 1: expected comma-separated text"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    with pytest.raises(LabError, match=words):
        read_embeddings(write(tmp_path, text))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([str(2**63), "-1", str(2**63 + 1)], ["-1", str(2**63), str(2**63 + 1)]),
        ([str(2**64), "-" + "9" * 100, "0"], ["-" + "9" * 100, "0", str(2**64)]),
        (["9" * 5000, "8" * 5000, "10"], ["10", "8" * 5000, "9" * 5000]),
        (["12", "7", "012"], ["012", "12", "7"]),
        (["0", "-0", "00"], ["-0", "0", "00"]),
    ],
)
def test_csv_labels_of_any_length_stay_apart(tmp_path, labels, names):
    rows = "".join(f"1,2,{label}\n" for label in labels)
    _, y, found = read_embeddings(write(tmp_path, rows))
    assert found == names
    assert [found[i] for i in y.tolist()] == labels


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
        ({"embeddings": 2**60 + np.arange(6).reshape(3, 2), "labels": np.array([1, 2, 3])}, "whole numbers of at most 2.*53"),
        ({"embeddings": np.full((3, 2), -(2**63)), "labels": np.array([1, 2, 3])}, "whole numbers of at most 2.*53"),
        ({"embeddings": VALUES.astype(str), "labels": np.array([1, 2, 3])}, "real numbers"),
        ({"embeddings": VALUES, "labels": np.array([0.5, 1, 1])}, "whole numbers or text"),
        ({"embeddings": VALUES, "labels": np.array([np.inf, 1, 1])}, "whole numbers or text; got inf"),
        ({"embeddings": VALUES, "labels": np.array([1, -np.inf, 1])}, "whole numbers or text; got -inf"),
        ({"embeddings": VALUES, "labels": np.array([np.nan, 1, 1])}, "whole numbers or text; got nan"),
        ({"embeddings": VALUES, "labels": np.array([1e300, 1, 1])}, "whole numbers or text; got 1e[+]300"),
        ({"embeddings": VALUES, "labels": np.array(["a", "", "b"])}, "a label for every embedding; got an empty text"),
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


@pytest.mark.parametrize("path", [None, 3, b"a.csv", "a\0.csv"])
def test_what_is_no_path(path):
    with pytest.raises(LabError, match="^path: expected a"):
        read_embeddings(path)


@pytest.mark.parametrize("array", [VALUES, np.array(["a", "b"])])
def test_a_single_array_under_the_name_of_an_archive(tmp_path, array):
    with open(tmp_path / "a.npz", "wb") as file:
        np.save(file, array)
    with pytest.raises(LabError, match=r"a\.npz: expected an npz file with embeddings and labels; got one array alone"):
        read_embeddings(tmp_path / "a.npz")


@pytest.mark.parametrize("save_as", [np.savez, np.savez_compressed])
def test_one_wrong_byte_anywhere_is_found_or_harmless(tmp_path, save_as):
    """A format reader may raise anything; bytes that only zip's bookkeeping has may be wrong without harm."""
    save_as(tmp_path / "a.npz", embeddings=VALUES.astype(np.float32), labels=np.array([1, 2, 1], dtype=np.int8))
    whole, refused = (tmp_path / "a.npz").read_bytes(), 0
    for at in range(len(whole)):
        (tmp_path / "b.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            x, y, names = read_embeddings(tmp_path / "b.npz")
        except LabError:
            refused += 1
        else:
            assert np.array_equal(x.numpy(), VALUES.astype(np.float32)) and y.tolist() == [0, 1, 0]
            assert names == ["1", "2"]
    assert refused > len(whole) / 2
