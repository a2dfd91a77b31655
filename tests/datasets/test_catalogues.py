"""What each reader finds in a small copy of its data set, and how it tells what is wrong."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from labkit.datasets.readers import read_catalogue
from labkit.errors import LabError
from tests.datasets.pictures import make_cars, make_cub, make_folder, make_in_shop, make_sop, picture


def by_part(catalogue):
    return {str(p): sorted(set(catalogue.labels[catalogue.parts == p].tolist())) for p in np.unique(catalogue.parts)}


def all_there(catalogue):
    return all(catalogue.path(i).is_file() for i in range(len(catalogue)))


@pytest.mark.parametrize("listed", [True, False])
def test_cub_takes_the_class_from_the_folder(tmp_path, listed):
    folder = make_cub(tmp_path)
    if not listed:
        (folder / "images.txt").unlink()
    cub = read_catalogue("cub", tmp_path)
    assert by_part(cub) == {"train": [1, 2, 5], "test": [101, 150]} and len(cub) == 20 and all_there(cub)
    assert cub.class_names == {1: "Bird 1", 2: "Bird 2", 5: "Bird 5", 101: "Bird 101", 150: "Bird 150"}
    assert cub.numbering == 100


def test_a_partial_copy_says_what_is_missing(tmp_path):
    folder = make_cub(tmp_path)
    (folder / "images" / "007.Bird_7").mkdir()
    remarks = read_catalogue("cub", tmp_path).remarks()
    assert "12 of 5,864 train pictures, 3 of 100 train classes, 8 of 5,924 test pictures" in remarks[0]
    assert remarks[1:] == ["1 class of cub has no picture: Bird 7."]


def test_lists_of_everything_beside_a_part(tmp_path):
    """Pictures of classes that were never copied are not missing ones."""
    folder = make_cub(tmp_path)
    shutil.rmtree(folder / "images" / "002.Bird_2")
    (folder / "images" / "001.Bird_1" / "Bird_1_0000.jpg").unlink()
    cub = read_catalogue("cub", tmp_path)
    assert len(cub) == 16 and 2 not in cub.labels and not cub.path(0).exists()
    folder = make_sop(tmp_path)
    text = (folder / "Ebay_train.txt").read_text()
    (folder / "Ebay_train.txt").write_text(text + "9 77 5 kettle_final/77_0.JPG\n")
    assert 77 not in read_catalogue("sop", tmp_path).labels


def test_cub_with_a_folder_of_another_kind(tmp_path):
    folder = make_cub(tmp_path)
    (folder / "images" / "birds").mkdir()
    with pytest.raises(LabError, match="'birds'"):
        read_catalogue("cub", tmp_path)


@pytest.mark.parametrize("single_archive", [True, False])
def test_cars_is_cut_by_class_in_both_layouts(tmp_path, single_archive):
    make_cars(tmp_path, single_archive)
    cars = read_catalogue("cars", tmp_path)
    assert by_part(cars) == {"train": [1, 98], "test": [99, 196]} and len(cars) == 8 and all_there(cars)
    assert cars.class_names[98] == "Model 98" and len(cars.class_names) == 196


def test_cars_without_labels_of_its_test_pictures(tmp_path):
    folder = make_cars(tmp_path, single_archive=False)
    (folder / "cars_test_annos_withlabels.mat").unlink()
    cars = read_catalogue("cars", tmp_path)
    assert len(cars) == 4 and "2 of 8,054 train pictures" in cars.shortfall()


def test_cars_with_damaged_annotations(tmp_path):
    folder = make_cars(tmp_path, single_archive=True)
    whole = (folder / "cars_annos.mat").read_bytes()
    for content in (whole[:300], b"", b"text"):
        (folder / "cars_annos.mat").write_bytes(content)
        with pytest.raises(LabError, match="cars_annos.mat"):
            read_catalogue("cars", tmp_path)


def test_sop(tmp_path):
    folder = make_sop(tmp_path)
    sop = read_catalogue("sop", tmp_path)
    assert by_part(sop) == {"train": [1, 2, 3], "test": [11319, 11320, 11321]} and all_there(sop)
    assert sop.class_names[2] == "chair 2"
    (folder / "Ebay_test.txt").write_text("header\n1 two 3 path\n")
    with pytest.raises(LabError, match="Ebay_test.txt, line 2"):
        read_catalogue("sop", tmp_path)


@pytest.mark.parametrize("inner", ["Img/img", "img"])
def test_in_shop_has_queries_and_a_gallery(tmp_path, inner):
    make_in_shop(tmp_path, inner)
    shop = read_catalogue("in-shop", tmp_path)
    assert by_part(shop) == {"train": [2, 3], "query": [7, 9], "gallery": [7, 9]} and all_there(shop)
    assert shop.counts()["gallery"] == 3 and "4 of 14,218 query pictures" in shop.shortfall()


@pytest.mark.parametrize(
    ("name", "words"), [("cub", "data get cub"), ("cars", "cars_train.tgz"), ("sop", "FTP"), ("in-shop", "password")]
)
def test_a_set_that_is_not_there_says_how_to_get_it(tmp_path, name, words):
    with pytest.raises(LabError, match=words) as caught:
        read_catalogue(name, tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_any_folder(tmp_path):
    make_folder(tmp_path)
    picture(tmp_path / "bee" / "more" / "deep.jpg")
    for name in ("ant/.hidden.png", "ant/notes.txt", "loose.png"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "empty").mkdir()
    found = read_catalogue(tmp_path)
    assert len(found) == 13 and by_part(found) == {"train": [0, 1], "test": [2, 3]}
    assert found.remarks() == [f"1 class of {tmp_path.name} has no picture: empty."]
    assert found.published == {} and found.shortfall() == ""


def test_what_is_hidden_is_passed_over(tmp_path):
    folder = make_folder(tmp_path / "set", ["ant", "bee"], each=2)
    for name in ("ant/.ipynb_checkpoints/0.png", "ant/.1.png", ".cow/0.png"):
        picture(folder / name)
    assert read_catalogue(folder).files == ("ant/0.png", "ant/1.png", "bee/0.png", "bee/1.png")


@pytest.mark.parametrize("link", ["dot -> .", "up -> ..", "bird -> bee", "far -> ../other", "part -> bee/more", "ant -> dot"])
def test_a_link_to_pictures_that_are_listed_already(tmp_path, link):
    make_folder(tmp_path / "set")
    picture(tmp_path / "set" / "bee" / "more" / "deep.jpg")
    make_folder(tmp_path / "other", ("moth",))
    name, target = link.split(" -> ")
    if name == "ant":
        shutil.rmtree(tmp_path / "set" / "ant")
        (tmp_path / "set" / "dot").symlink_to(".")
    (tmp_path / "set" / name).symlink_to(target)
    if name == "far":  # elsewhere: as good as a folder
        assert "far" in read_catalogue(tmp_path / "set").class_names.values()
        (tmp_path / "set" / "very far").symlink_to("../other/moth")
        name = "very far"
    with pytest.raises(LabError, match="belong to this class alone") as caught:
        read_catalogue(tmp_path / "set")
    both = {"dot": "set", "up": "set", "bird": "bee", "very far": "far", "part": "bee", "ant": "set"}
    assert str(tmp_path / "set" / name) in str(caught.value) and both[name] in str(caught.value)


def test_links_in_a_folder_that_is_cut_already(tmp_path):
    make_folder(tmp_path / "elsewhere", ("cat", "dog"))
    make_folder(tmp_path / "train", ("ant", "bee"))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train").symlink_to("../train")
    for part in ("query", "gallery"):  # a class's pictures among themselves, if somebody likes
        (tmp_path / "set" / part).symlink_to("../elsewhere")
    assert by_part(read_catalogue(tmp_path / "set")) == {"train": [0, 1], "query": [2, 3], "gallery": [2, 3]}
    (tmp_path / "elsewhere" / "cow").symlink_to("../train/bee")
    with pytest.raises(LabError, match="bee: expected a folder .* which it shares with .*cow"):
        read_catalogue(tmp_path / "set")


def test_a_folder_that_is_cut_already(tmp_path):
    make_folder(tmp_path / "train", ("bee", "ant"))
    make_folder(tmp_path / "test", ("cat",))
    found = read_catalogue(tmp_path)
    assert by_part(found) == {"train": [0, 1], "test": [2]} and found.class_names == {0: "ant", 1: "bee", 2: "cat"}
    make_folder(tmp_path / "test", ("bee",))
    with pytest.raises(LabError, match="bee in both"):
        read_catalogue(tmp_path)


def test_a_table_with_numbers_that_have_gaps(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("path,label\n" + "".join(f"{label}_{i}.png,{label}\n" for label in (900, 7, 30, 8) for i in range(2)))
    found = read_catalogue(table)
    assert by_part(found) == {"train": [7, 8], "test": [30, 900]} and found.path(0) == tmp_path / "900_0.png"


def test_a_table_with_words_and_a_split(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("Label,Path,Split\nzebra,/a/../1.png,train\nape,c/../b.png,test\n")
    found = read_catalogue(table)
    assert by_part(found) == {"train": [1], "test": [0]} and found.class_names == {0: "ape", 1: "zebra"}
    assert str(found.path(0)) == "/a/../1.png" and found.path(1).name == "b.png"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file,label\na.png,1\n", "columns path, label"),
        ("path,label\n", "at least one picture"),
        ("path,label\na.png,1\nb.png,\n", "line 3"),
        ("path,label,split\na.png,1,validation\n", "line 2"),
        ("path,label,split\na.png,1,train\nb.png,2,\n", "a split for every line"),
        ("path,label\na.png,1\nb.png,1\n", "at least two"),
        ("path,label,split\na.png,1,train\nb.png,1,test\n", "1 in both"),
        ("", "columns"),
        ("path,label,path\na.png,1,b.png\n", "every column once; got path 2 times"),
        ("path,label\na.png,1\nb.png,2,3,4\n", "line 3: expected as many cells as there are columns; got 2 more: '3'"),
        ("path,label\na\0.png,1\n", "line 2: expected the name of a file"),
        ("path,label\na.png,1\n../b.png,2\n", "line 3: expected a path inside .*; got '../b.png'. Give an absolute path"),
        ("path,label\na/../../b.png,1\n", "line 2: expected a path inside"),
        ("path,label\n..,1\n", "line 2: expected a path inside"),
        ("path,label\na.png," + "x" * 140_000 + "\n", "line 2: expected a line of a table; got field larger"),
    ],
)
def test_a_table_that_will_not_do(tmp_path, text, words):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(LabError, match=words):
        read_catalogue(tmp_path / "list.csv")


@pytest.mark.parametrize("label", ["--5", "-", "5-", "-0", "²"])
def test_labels_that_only_look_like_numbers_are_words(tmp_path, label):
    (tmp_path / "list.csv").write_text(f"path,label\na.png,{label}\nb.png,7\n", encoding="utf-8")
    assert set(read_catalogue(tmp_path / "list.csv").class_names.values()) == {label, "7"}


def test_a_label_with_a_zero_in_front_is_a_class_of_its_own(tmp_path):
    (tmp_path / "list.csv").write_text("path,label\na.png,01\nb.png,1\nc.png,-3\n")
    found = read_catalogue(tmp_path / "list.csv")
    assert [found.class_names[int(label)] for label in found.labels] == ["01", "1", "-3"] and len(set(found.labels.tolist())) == 3


@pytest.mark.parametrize("source", [None, 5, "a\0b", "a" * 300, b"cub", Path("b" * 300)])
def test_what_is_no_place(source):
    with pytest.raises(LabError, match="data.source: expected"):
        read_catalogue(source)


def test_places_that_will_not_do(tmp_path):
    with pytest.raises(LabError, match="one of cub, cars, sop, in-shop"):
        read_catalogue("birds")
    with pytest.raises(LabError, match="pictures in folders"):
        read_catalogue(tmp_path)
    (tmp_path / "list.csv").write_bytes(b"path,label\n\xff\xfe,1\n")
    with pytest.raises(LabError, match="UTF-8"):
        read_catalogue(tmp_path / "list.csv")
    picture(tmp_path / "only" / "a.png")
    with pytest.raises(LabError, match="at least two, one to train on"):
        read_catalogue(tmp_path)
