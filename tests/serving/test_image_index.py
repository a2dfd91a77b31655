"""The index finds what looking at every picture finds, and is either whole or refused."""

import json

import faiss
import numpy as np
import pytest
import torch

from labkit.datasets import DataWarning, read_catalogue
from labkit.errors import LabError
from labkit.serving import ImageIndex, WholeModel, embed_pictures, export_model, read_pictures
from labkit.training import Trainer
from tests.command import program
from tests.datasets.pictures import make_folder, picture
from tests.serving.indices import named, points


def by_looking_at_all(x, query, k):
    distances = [float(np.sqrt(((a.astype(np.float64) - query) ** 2).sum())) for a in x]
    order = sorted(range(len(x)), key=lambda i: (distances[i], i))[:k]
    return order, [distances[i] for i in order]


@pytest.mark.parametrize("normalize", ["none", "l2", "lipschitz"])
@pytest.mark.parametrize("queries", [1, 30])
def test_neighbours_are_those_found_by_looking_at_all(normalize, queries):
    x, q = points(), points(queries, seed=1)
    how = {
        "none": lambda a: a, "l2": lambda a: a / np.linalg.norm(a, axis=1, keepdims=True),
        "lipschitz": lambda a: a / np.maximum(1, np.linalg.norm(a, axis=1, keepdims=True)),
    }[normalize]  # fmt: skip
    frame = named(x, normalize=normalize).search(torch.from_numpy(q), k=7)
    assert list(frame.columns) == ["query", "rank", "distance", "class", "path"] and len(frame) == 7 * queries
    for row, rows in frame.groupby("query"):
        order, distances = by_looking_at_all(how(x), how(q)[row], 7)
        assert rows["path"].tolist() == [f"{i}.png" for i in order] and rows["rank"].tolist() == list(range(1, 8))
        assert rows["class"].tolist() == [f"c{i % 3}" for i in order]
        np.testing.assert_allclose(rows["distance"], distances, rtol=1e-5)


def test_equal_distances_go_to_the_first_in_the_index_and_close_points_are_told_apart():
    x = np.repeat(points(3), 20, axis=0)
    assert named(x).search(x[45], k=4)["path"].tolist() == ["40.png", "41.png", "42.png", "43.png"]
    x = np.full((40, 8), 0.3, dtype=np.float32)
    x[:, 0] += np.linspace(1e-4, 1e-6, 40, dtype=np.float32)  # the last is nearest, by a millionth
    frame = named(x).search(np.full((25, 8), 0.3, dtype=np.float32), k=3)  # so many that faiss multiplies matrices
    assert frame[frame["query"] == 0]["path"].tolist() == ["39.png", "38.png", "37.png"]


def test_one_embedding_and_all_there_are():
    frame = named(points()).search(points()[8], k=60)
    assert "query" not in frame and sorted(frame["path"]) == sorted(f"{i}.png" for i in range(60))
    assert frame.loc[0, "path"] == "8.png" and frame.loc[0, "distance"] == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda i: i.search(points(), k=61), "60"), (lambda i: i.search(points(), k=0), "k"),
        (lambda i: i.search(points(2, 4)), "width 5"), (lambda i: i.search(points()[:0]), "row"),
        (lambda i: i.search(np.full((1, 5), np.nan, np.float32)), "finite"), (lambda i: i.search(np.array([["a"]])), "floats"),
        (lambda i: i.search("a.png"), "model"), (lambda i: i.search(points().astype(np.int64)), "floating"),
        (lambda i: named(points(0)), "row"), (lambda i: named(points(), normalize="L3"), "normalize"),
        (lambda i: named(points(), levels=2), "divisor"),
        (lambda i: ImageIndex(points(), ["a"], ["b"] * 60, normalize="l2"), "60"),
        (lambda i: ImageIndex(points(1), ["a"], [None], normalize="l2"), r"classes\[0\].*got None .*Write"),
        (lambda i: ImageIndex(points(1), [b"a"], ["b"], normalize="l2"), r"paths\[0\]"),
        (lambda i: ImageIndex("x", ["a"], ["b"], normalize="l2"), "floats"),
    ],
)  # fmt: skip
def test_what_is_refused(call, words):
    with pytest.raises(LabError, match=words):
        call(named(points()))


def test_saved_and_loaded(tmp_path):
    index = named(points(), normalize="l2", model="abc", folder="/pictures")
    path = index.save(tmp_path / "index")
    again = ImageIndex.load(path)
    np.testing.assert_array_equal(again.embeddings, index.embeddings)
    assert (again.paths, again.classes, again.normalize, again.model) == (index.paths, index.classes, "l2", "abc")
    assert str(again.folder) == "/pictures" and str(ImageIndex.load(path, folder="/other").folder) == "/other"
    (vectors,) = path.glob("*.faiss")
    assert faiss.read_index(str(vectors)).ntotal == 60, "faiss opens it by itself"
    named(points(9)).save(path)  # another index in its place: nothing of the old one stays
    assert len(ImageIndex.load(path)) == 9 and len(list(path.iterdir())) == 2


def test_interrupted_while_it_is_replaced(tmp_path, monkeypatch):
    """Whichever file could not be written, the old index is there."""
    path = named(points()).save(tmp_path / "index")
    from labkit.serving import index_files

    real = index_files.write_atomically
    for fails_at in (1, 2):
        calls = []

        def broken(target, writer, fails_at=fails_at, calls=calls):
            calls.append(target)
            if len(calls) == fails_at:
                raise LabError(str(target), "room", "none")
            return real(target, writer)

        monkeypatch.setattr(index_files, "write_atomically", broken)
        with pytest.raises(LabError, match="room"):
            named(points(9)).save(path)
        assert len(ImageIndex.load(path)) == 60


def test_damaged_indexes(tmp_path):
    with pytest.raises(LabError, match="labkit index"):
        ImageIndex.load(tmp_path / "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(LabError, match="Choose another name"):
        named(points()).save(tmp_path / "full")
    path = named(points()).save(tmp_path / "index")
    about, (vectors,) = path / "index.json", path.glob("*.faiss")
    text, data = about.read_text(), vectors.read_bytes()
    vectors.write_bytes(data[:-1] + b"x")
    with pytest.raises(LabError, match="damaged"):
        ImageIndex.load(path)
    vectors.unlink()
    with pytest.raises(LabError, match="index"):
        ImageIndex.load(path)
    vectors.write_bytes(data)
    short = json.loads(text)
    short["paths"] = short["paths"][:-1]
    for damaged in ("", "{}", "[]", text[:40], text.replace('"format": 1', '"format": 2'), json.dumps(short)):
        about.write_text(damaged)
        with pytest.raises(LabError):
            ImageIndex.load(path)
    about.write_text(text)
    assert len(ImageIndex.load(path)) == 60


def test_a_folder_of_pictures(model, tmp_path):
    folder = make_folder(tmp_path / "pictures", each=4)
    picture(folder / "loose.png", seed=7)
    index = ImageIndex.of_folder(model, folder)
    assert len(index) == 17 and index.paths[-1] == "loose.png" and index.classes[-1] == ""
    assert index.classes[:4] == ["ant"] * 4 and index.model == model.card.weights
    frame = index.search(folder / "bee" / "1.png", k=3, model=model)
    assert frame.loc[0, "path"] == "bee/1.png" and frame.loc[0, "distance"] < 1e-5
    several = index.search([folder / "bee" / "1.png", folder / "cat" / "2.png"], k=1, model=model)
    assert several["path"].tolist() == ["bee/1.png", "cat/2.png"]
    by_hand = model(read_pictures(sorted((folder / "ant").iterdir()), model.card)).numpy()
    np.testing.assert_allclose(index.embeddings[:4], by_hand, atol=1e-6)
    others = (
        (None, "None"),
        (other_model(model, normalize="l2"), "width 2, l2"),
        (other_model(model, weights="f" * 64), "ffff"),
    )
    for model_, words in others:
        with pytest.raises(LabError, match=words):
            index.search(folder / "loose.png", model=model_)
    split = make_folder(tmp_path / "split", ["train/ant", "test/bee"], each=1)
    assert ImageIndex.of_folder(model, split).classes == ["bee", "ant"]


def test_a_folder_is_listed_as_for_training(model, tmp_path):
    """Classes' folders that are links, folders inside a class, and what is hidden."""
    folder = make_folder(tmp_path / "pictures", ["ant", "cat/sub", "ant/.hidden"], each=1)
    picture(tmp_path / "elsewhere" / "0.png", seed=9)
    (folder / "bee").symlink_to(tmp_path / "elsewhere")
    index = ImageIndex.of_folder(model, folder)
    assert tuple(index.paths) == read_catalogue(folder).files == ("ant/0.png", "bee/0.png", "cat/sub/0.png")
    assert index.classes == ["ant", "bee", "cat"]
    split = make_folder(tmp_path / "split", ["train/ant", "test/cat"], each=1)
    (split / "test" / "bee").symlink_to(tmp_path / "elsewhere")
    picture(split / "test" / "loose.png", seed=3)
    index = ImageIndex.of_folder(model, split)
    assert index.paths == ["test/bee/0.png", "test/cat/0.png", "test/loose.png", "train/ant/0.png"]
    assert index.classes == ["bee", "cat", "", "ant"]
    (folder / "twice").symlink_to(folder / "ant")
    with pytest.raises(LabError, match="pictures that belong to this class alone"):
        ImageIndex.of_folder(model, folder)


def other_model(model, **changes):
    import dataclasses

    return WholeModel(model.network, dataclasses.replace(model.card, **changes))


def test_files_that_are_no_pictures(model, tmp_path):
    folder = make_folder(tmp_path / "pictures", ["ant", "bee"], each=2)
    (folder / "ant" / "note.txt").write_text("not looked at")
    (folder / "bee" / "broken.png").write_bytes((folder / "bee" / "0.png").read_bytes()[:60])
    with pytest.raises(LabError, match=r"broken\.png"):
        ImageIndex.of_folder(model, folder)
    with pytest.warns(DataWarning, match=r"broken\.png"):
        assert len(ImageIndex.of_folder(model, folder, unusable="skip")) == 4
    with pytest.raises(LabError, match=r"broken\.png"):
        embed_pictures(model, [folder / "bee" / "broken.png"], unusable="skip")
    (tmp_path / "empty").mkdir()
    places = ((tmp_path / "empty", "none"), (tmp_path / "nothing", "nothing there"), (folder / "ant" / "0.png", "a file"))
    for place, words in places:
        with pytest.raises(LabError, match=words):
            ImageIndex.of_folder(model, place)
    with pytest.raises(LabError, match="none"):
        embed_pictures(model, [])
    with pytest.raises(LabError, match="No such file"):
        read_pictures(folder / "x.png", model.card)


def test_from_the_command_line(digits, tmp_path, monkeypatch, capsys):
    call = program(monkeypatch, capsys)
    run, folder = tmp_path / "run", make_folder(tmp_path / "pictures", ["ant", "bee"], each=3)
    Trainer(digits.experiment, directory=run).run(progress=False)
    code, out, _ = call("export", run, "--to", tmp_path / "m.pt")
    assert code == 0 and "1 x 28 x 28 pixels" in out and "lipschitz" in out
    code, out, _ = call("index", tmp_path / "m.pt", folder, "--out", tmp_path / "index")
    assert code == 0 and "6 pictures of 2 classes" in out
    code, out, _ = call("search", run, tmp_path / "index", folder / "bee" / "1.png", "--k", "2")  # the same weights
    assert code == 0 and out.splitlines()[0].split()[-2:] == ["bee", "bee/1.png"] and len(out.splitlines()) == 2
    code, out, err = call("search", run, tmp_path / "index", folder / "bee" / "9.png")
    assert code == 2 and out == "" and err.count("\n") == 1 and "9.png" in err


def test_a_folder_of_others_is_refused_before_anything_is_embedded(model, tmp_path, monkeypatch, capsys):
    def too_early(*_arguments, **_options):
        raise AssertionError("embeds first")

    monkeypatch.setattr("labkit.serving.image_index.embed_pictures", too_early)
    pictures, mine = make_folder(tmp_path / "pictures", ["ant", "bee"], each=3), tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    exported = export_model(model, tmp_path / "m.pt")
    for out, words in ((mine, "letter.txt"), (mine / "letter.txt", "a file"), (mine / "letter.txt" / "index", "a file")):
        code, said, err = program(monkeypatch, capsys)("index", exported, pictures, "--out", out)
        assert code == 2 and said == "" and err.count("\n") == 1 and words in err
    assert [p.name for p in mine.iterdir()] == ["letter.txt"]


def test_a_place_that_will_do_stays_as_it_was(tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "not" / "there", tmp_path / "empty", named(points()).save(tmp_path / "index")):
        before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        ImageIndex.check_place(place)
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert not (tmp_path / "not").exists()
