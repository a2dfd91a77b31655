"""What lies beside an index is left alone, and what is no index of labkit's is refused before faiss sees it."""

import hashlib
import json
import shutil

import faiss
import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.serving import ImageIndex, embed_pictures, read_pictures
from tests.datasets.pictures import make_folder
from tests.serving.indices import named, points


@pytest.fixture
def saved(tmp_path):
    return named(points(10, 4), normalize="l2", levels=2, model="abc").save(tmp_path / "index")


def edit(folder, /, **changes):
    about = folder / "index.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | changes))
    return folder


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize(
    "text",
    ['{"my": "web site"}', "[]", "", "dear", '{"format": 1, "vectors": "vectors-mine.faiss", "digest": "mine"}',
     '{"format": 1, "vectors": "../x", "digest": "x"}', "[" * 9000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_files_of_others_are_neither_replaced_nor_deleted(tmp_path, text):
    (tmp_path / "index.json").write_text(text)
    (tmp_path / "vectors-mine.faiss").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(LabError, match="something else"):
        named(points()).save(tmp_path)
    with pytest.raises(LabError):
        ImageIndex.load(tmp_path)
    assert contents(tmp_path) == before


def test_only_an_index_s_own_vectors_are_deleted(saved):
    mine = {"vectors-mine.faiss": b"mine", "vectors-0123456789abcdef.faiss": b"not of that digest", "note.txt": b"dear"}
    for name, data in mine.items():
        (saved / name).write_bytes(data)
    named(points(9)).save(saved)
    left = contents(saved)
    assert len(left) == 2 + len(mine) and {name: left[name] for name in mine} == mine and len(ImageIndex.load(saved)) == 9


def test_a_first_save_that_was_interrupted_can_be_repeated(saved):
    (saved / "index.json").unlink()
    (saved / ".vectors-0123456789abcdef.faiss.77-0a1b2c3d.partial").write_bytes(b"half")
    named(points(9)).save(saved)
    assert len(ImageIndex.load(saved)) == 9 and len(list(saved.glob("*.faiss"))) == 1


def flat(x, metric=faiss.METRIC_L2):
    index = faiss.IndexFlat(x.shape[1], metric)
    index.add(x)
    return index


def made(kind, x):
    index = faiss.index_factory(x.shape[1], kind)
    index.train(x)
    index.add(x)
    return index


def with_ids(x):
    index = faiss.IndexIDMap(faiss.IndexFlatL2(x.shape[1]))
    index.add_with_ids(x, np.arange(len(x)) + 7)
    return index


@pytest.mark.parametrize(
    "make",
    [with_ids, lambda x: flat(x, faiss.METRIC_INNER_PRODUCT), lambda x: flat(x, faiss.METRIC_L1),
     *(lambda x, kind=kind: made(kind, x) for kind in ("LSH", "SQ8", "IVF1,Flat", "HNSW4", "PCA2,Flat"))],
)  # fmt: skip
def test_other_kinds_of_faiss_s_indexes_are_refused(saved, make):
    """Some of them end the process when they are asked for their vectors."""
    swap(saved, faiss.serialize_index(make(points(10, 4))).tobytes())
    with pytest.raises(LabError, match="damaged one"):
        ImageIndex.load(saved)
    swap(saved, faiss.serialize_index(flat(points(10, 4))).tobytes())
    assert len(ImageIndex.load(saved)) == 10


def swap(folder, data):
    """Put other vectors into an index, with their digest."""
    for old in folder.glob("*.faiss"):
        old.unlink()
    digest = hashlib.sha256(data).hexdigest()
    (folder / f"vectors-{digest[:16]}.faiss").write_bytes(data)
    edit(folder, vectors=f"vectors-{digest[:16]}.faiss", digest=digest)


def test_vectors_that_are_not_those_of_the_index(saved):
    for x in (points(9, 4), points(10, 3), points(10, 4) * np.float32(1e30), points(10, 4) * np.nan):
        swap(saved, faiss.serialize_index(flat(x)).tobytes())
        with pytest.raises(LabError):
            ImageIndex.load(saved)
    data = faiss.serialize_index(flat(points(10, 4))).tobytes()
    for damaged in (data[:60], data[:3], b"", data[:4] + b"\xff" * 12 + data[16:]):
        swap(saved, damaged)
        with pytest.raises(LabError, match="damaged one"):
            ImageIndex.load(saved)


@pytest.mark.parametrize(
    "change",
    [{"levels": 3}, {"levels": 0}, {"levels": "x"}, {"levels": 2.0}, {"levels": True}, {"model": 5}, {"model": None},
     {"folder": 5}, {"folder": None}, {"folder": "a\0b"}, {"paths": "0123456789"}, {"paths": [1] * 10},
     {"classes": {str(i): 1 for i in range(10)}}, {"count": 99}, {"width": 99}, {"count": "10"}, {"normalize": "L3"},
     {"normalize": 5}, {"format": True}, {"vectors": 5}, {"digest": None}],
    ids=lambda change: str(change)[:20],
)  # fmt: skip
def test_edited_indexes(saved, change):
    assert ImageIndex.load(saved).levels == 2
    with pytest.raises(LabError, match="index"):
        ImageIndex.load(edit(saved, **change))


def test_numbers_too_large_to_be_compared():
    for x in (points() * np.float32(1e30), torch.full((3, 2), 1e300, dtype=torch.float64), points() * np.longdouble("1e400")):
        for normalize in ("none", "l2", "lipschitz"):
            with pytest.raises(LabError, match="magnitude|finite"):
                named(x, normalize=normalize)
    with pytest.raises(LabError, match="query.*magnitude"):
        named(points()).search(np.full(5, 1e20))
    x = points() * np.float32(1e14)
    assert named(x).search(x[7], k=3).loc[0, "path"] == "7.png"


def test_arrays_of_any_float_and_byte_order():
    wanted = named(points()).search(points()[3], k=5)
    for kind in (">f4", ">f8", np.longdouble):
        found = named(points().astype(kind)).search(points()[3].astype(kind), k=5)
        assert found["path"].tolist() == wanted["path"].tolist()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda i: i.search(np.array(1.0)), "two dimensions"), (lambda i: i.search(None), "None"), (lambda i: i.search(5), "5"),
        (lambda i: i.search(b"x.png"), "query"), (lambda i: i.search("x.png", model="run"), "open_model"),
        (lambda i: i.search(torch.ones(1, 5).to_sparse()), "dense"),
        (lambda i: i.search(torch.ones(1, 5, device="meta")), "meta"),
        (lambda i: i.save(None), "a path"), (lambda i: i.save("a\0"), "null"), (lambda i: ImageIndex.load(5), "a path"),
        (lambda i: ImageIndex.load("a" * 300), "255"), (lambda i: ImageIndex.of_folder(None, "x"), "open_model"),
        (lambda i: named(points(), folder=None), "a path"), (lambda i: named(points(), model=None), "a word"),
        (lambda i: ImageIndex(points(), None, ["c"] * 60, normalize="l2"), "a list of 60"),
        (lambda i: ImageIndex(points(), "p" * 60, ["c"] * 60, normalize="l2"), "a list of 60"),
    ],
)  # fmt: skip
def test_what_is_of_the_wrong_kind(call, words):
    with pytest.raises(LabError, match=words):
        call(named(points()))


class Answers:
    """A model that gives whatever it is told to."""

    def __init__(self, card, answer):
        self.card, self.answer = card, answer

    def __call__(self, pictures):
        return self.answer(pictures)


def test_models_that_give_something_else_than_their_card_says(model, tmp_path):
    folder = make_folder(tmp_path / "pictures", ["ant", "bee"], each=2)
    index, picture = ImageIndex.of_folder(model, folder), folder / "ant" / "0.png"
    for answer in (
        lambda x: (model(x), 1), lambda x: model(x).sum(), lambda x: model(x)[:1, :1], lambda x: model(x).double(),
        lambda x: model(x) * torch.nan, lambda x: None,
    ):  # fmt: skip
        odd = Answers(model.card, answer)
        for call in (
            lambda odd: ImageIndex.of_folder(odd, folder),
            lambda odd: index.search(picture, model=odd, k=1),
            lambda odd: embed_pictures(odd, picture),
        ):
            with pytest.raises(LabError, match="as its card says"):
                call(odd)
    for files in (None, 5, [5], b"x", "a\0b"):
        with pytest.raises(LabError, match="files"):
            read_pictures(files, model.card)
    with pytest.raises(LabError, match="a path"):
        ImageIndex.of_folder(model, None)


def test_a_folder_that_is_a_file(saved):
    with pytest.raises(LabError, match="a file"):
        named(points()).save(saved / "index.json")
    shutil.rmtree(saved)
    assert named(points()).save(saved) == saved
