"""The report: one file that holds everything, tells the truth, and cannot be turned against its reader."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from labkit.errors import LabError
from labkit.report import report_html, write_report
from labkit.report_queries import worst_queries
from labkit.training import Experiment, Trainer
from labkit.training.recording import Recording
from tests.datasets.pictures import make_cub
from tests.photographs import TINY
from tests.plots.recordings import make_recording


class Reader(HTMLParser):
    """Collects a page's text, its JSON blocks and everything that would be fetched."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.blocks: dict[str, Any] = {}
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self._block: str | None = None
        self._code = False
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        self._code = tag in ("script", "style")
        self._block = found.get("id") if found.get("type") == "application/json" else None

    def handle_endtag(self, tag: str) -> None:
        self._code, self._block = False, None

    def handle_data(self, data: str) -> None:
        if self._block:
            self.blocks[self._block] = json.loads(data)
        elif not self._code:
            self.words.append(data)


@pytest.fixture(scope="module")
def runs() -> dict[str, Recording]:
    single = make_recording(1)
    single.experiment["name"] = "mnist-2d-proxy"
    return {"CCP": make_recording(4), "single": single}


@pytest.fixture(scope="module")
def page(runs: dict[str, Recording]) -> str:
    return report_html(runs)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def test_it_loads_nothing(page: str, read: Reader) -> None:
    assert read.fetched and all(address.startswith("data:image/png;base64,") for address in read.fetched)
    assert not re.search(r"url\(|@import", page.split("</style>")[0])
    assert page.count("<script>") == 2 and page.startswith("<!doctype html>")


def test_two_full_runs_stay_under_the_limit() -> None:
    rng = np.random.default_rng(0)
    runs = {name: make_recording(4, per_class=300, snapshots=60, seed=i) for i, name in enumerate("ab")}
    digits = (rng.random((3000, 28, 28)) < 0.2) * rng.integers(
        0, 256, (3000, 28, 28)
    )  # harder to compress than real ones
    runs = {name: replace(r, thumbnails=digits.astype(np.uint8)) for name, r in runs.items()}
    assert len(report_html(runs).encode()) < 8_000_000


def decode(text: str, scale: float, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<i2").reshape(shape) * scale


def test_the_film_is_the_recording(read: Reader, runs: dict[str, Recording]) -> None:
    for film, recording in zip(read.blocks["film"]["runs"], runs.values(), strict=True):
        times, n, _ = recording.embeddings.shape
        assert film["steps"] == recording.steps.tolist()
        drawn = decode(film["samples"], film["scale"], (times, n, 2))
        assert np.abs(drawn - recording.embeddings[:, film["rows"]]).max() < 1e-4
        squares = decode(film["proxies"], film["scale"], (times, 40, 2))
        assert np.abs(squares - recording.proxies.reshape(times, 40, 2)).max() < 1e-4
        assert film["ends"] == [p.snapshot for p in recording.problems]
        assert [recording.labels[film["rows"][g[0]]] for g in film["groups"]] == list(range(10))


def test_rings_lie_only_at_the_end_of_a_problem(read: Reader, runs: dict[str, Recording]) -> None:
    film, recording = read.blocks["film"]["runs"][0], runs["CCP"]
    raw = np.frombuffer(base64.b64decode(film["rings"]), dtype="<i2").reshape(17, 40, 2)
    for at in range(17):
        problem = next((p for p in recording.problems if p.snapshot == at and p.next_proxies is not None), None)
        if problem is None:
            assert (raw[at] == -32768).all()
        else:
            assert np.abs(raw[at] * film["scale"] - problem.next_proxies.reshape(40, 2)).max() < 1e-4
    assert read.blocks["film"]["runs"][1]["rings"] is None


def test_the_table_holds_the_recorded_figures(page: str, runs: dict[str, Recording]) -> None:
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", page.split("<h2>The figures")[1])
    ]
    when = {(re.sub("<[^>]*>", "", r[0]), r[1]): r[2:] for r in rows if len(r) == 8}
    metrics = runs["CCP"].metrics
    for row, text in ((0, "start, step 0"), (4, "after problem 1, step 400"), (16, "end, step 1,600")):
        expected = [metrics[k][row] for k in ("map_at_r", "covering_mean", "covering_q95", "covering_max")]
        assert when["CCP", text][:4] == [f"{v:.3f}" for v in expected]
    assert ("single", "meanwhile, step 400") in when  # both methods at the same moment


def test_the_claims_follow_the_numbers(read: Reader, runs: dict[str, Recording]) -> None:
    assert "Proxies collapse: within the first problem their spread falls from" in read.text
    assert "Re-initialising spreads the proxies" in read.text
    wide = {k: replace(r, metrics=r.metrics | {"proxy_spread": np.full(17, 0.4)}) for k, r in runs.items()}
    honest = Reader(report_html(wide)).text
    assert "Proxies collapse" not in honest
    assert "Proxies do not collapse in the first problem" in honest
    assert "Re-initialising did not spread the proxies" in honest


def test_pictures_of_the_same_samples_are_kept_once(read: Reader, runs: dict[str, Recording]) -> None:
    assert len(read.blocks["sheets"]) == 1
    assert [film["sheet"] for film in read.blocks["film"]["runs"]] == [0, 0]
    sheet = read.blocks["sheets"][0]
    image = np.array(Image.open(io.BytesIO(base64.b64decode(sheet["png"].split(",")[1]))).convert("L")).astype(int)
    row, column = divmod(77, sheet["columns"])
    found = image[row * 28 : row * 28 + 28, column * 28 : column * 28 + 28]
    assert np.abs(found - runs["CCP"].thumbnails[77]).max() <= 9


def test_each_run_keeps_the_names_of_its_own_classes(runs: dict[str, Recording], page: str) -> None:
    birds = replace(make_recording(1, classes=13), class_names=[f"bird {i}" for i in range(13)])
    mixed = report_html(runs | {"birds": birds})
    names = [film["names"] for film in Reader(mixed).blocks["film"]["runs"]]
    assert names == [[str(i) for i in range(10)]] * 2 + [[f"bird {i}" for i in range(13)]]
    rows = re.findall(r'<div class="classes" data-runs="([\d ]+)">(.*?)</div>', mixed)
    assert [(mine, row.count("<button")) for mine, row in rows] == [("0 1", 10), ("2", 13)]
    assert ">single</span>" in rows[0][1] and ">birds</span>" in rows[1][1]
    alone = re.findall(r'<div class="classes" data-runs="([\d ]+)">(.*?)</div>', page)
    assert [mine for mine, _ in alone] == ["0 1"] and "span" not in alone[0][1]


def test_one_proxy_per_class_is_said_once(runs: dict[str, Recording]) -> None:
    alone = {k: replace(r, metrics=r.metrics | {"proxy_spread": np.zeros(17)}) for k, r in runs.items()}
    read = Reader(report_html(alone["CCP"]))
    assert read.text.count("One proxy per class: no spread") == 2, "under what to notice, and over the curve"
    assert "collapse" not in read.text and "Re-initialising" not in read.text and "Spread proxies" not in read.text


def test_names_cannot_act_as_markup(runs: dict[str, Recording]) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    recording = replace(
        runs["CCP"],
        experiment=runs["CCP"].experiment | {"name": evil, "note": evil},
        class_names=[evil] * 10,
        events=[{"step": 400, "what": evil}],
        environment={"data": evil},
    )
    page = report_html({evil: recording}, title=evil, command=evil, partial=True)
    read = Reader(page)
    assert "x" not in read.fetched and read.tags.count("img") == page.count('<img alt="')
    assert page.count("<script>") == 2
    assert evil in read.text


def test_a_partial_run_gives_a_usable_page(runs: dict[str, Recording]) -> None:
    whole = runs["CCP"]
    partial = replace(
        whole, steps=whole.steps[:3], embeddings=whole.embeddings[:3], proxies=whole.proxies[:3], problems=[], final={},
        metrics={k: v[:3] for k, v in whole.metrics.items()},
    )  # fmt: skip
    read = Reader(report_html(partial, partial=True))
    assert "mnist-2d-ccp was recorded up to step 200 of 1600, no proxy problem closed yet" in read.text
    assert "There is no second problem yet" in read.text
    assert read.blocks["film"]["runs"][0]["steps"] == [0, 100, 200]


def test_a_run_that_was_stopped_at_once_gives_a_page(runs: dict[str, Recording]) -> None:
    whole = runs["CCP"]
    first = replace(
        whole, steps=whole.steps[:1], embeddings=whole.embeddings[:1], proxies=None, problems=[], final={}, metrics={},
        thumbnails=None, environment={}, events=[],
    )  # fmt: skip
    read = Reader(report_html({"a": first, "b": whole}, partial=True))
    assert "MAP@R has not been evaluated yet" in read.text and "not evaluated yet" in read.text
    assert [film["sheet"] for film in read.blocks["film"]["runs"]] == [None, 0]


def test_a_run_without_proxies_speaks_of_none(runs: dict[str, Recording]) -> None:
    whole = runs["CCP"]
    metrics = {k: v for k, v in whole.metrics.items() if not k.startswith(("proxy", "covering"))}
    samples = replace(
        whole, proxies=None, problems=[], metrics=metrics, experiment=whole.experiment | {"method": "samples"}
    )
    read = Reader(report_html(samples))
    assert "collapse" not in read.text and "Re-initialising" not in read.text
    assert "MAP@R rises by 35.0 points" in read.text


def test_anchor_samples_are_not_called_proxies_that_collapse(runs: dict[str, Recording]) -> None:
    anchors = replace(runs["CCP"], experiment=runs["CCP"].experiment | {"method": "samples"})
    read = Reader(report_html(anchors))
    assert "the squares are pictures of the training set" in read.text
    assert "Proxies on one point" not in read.text and "Re-initialising" not in read.text
    assert "The 95 % cover falls by" in read.text


def test_samples_that_are_not_drawn_are_owned_up_to() -> None:
    recording = make_recording(2, per_class=210, snapshots=5)
    read = Reader(report_html({"a": recording, "b": recording}))
    assert "2,000 of 2,100 samples drawn" in read.text
    assert len(read.blocks["film"]["runs"][0]["rows"]) == 2000


def test_many_dimensions_say_that_they_are_projected() -> None:
    read = Reader(report_html(make_recording(2, dimensions=6)))
    assert "as a point in 6 dimensions" in read.text and "6-D, drawn in its 2 first principal components" in read.text


def test_a_saved_recording_gives_the_same_page(runs: dict[str, Recording], tmp_path: Path) -> None:
    saved = Recording.load(runs["CCP"].save(tmp_path / "run.npz"))
    assert report_html(saved) == report_html(runs["CCP"])


def test_the_file_is_whole_or_as_it_was(runs: dict[str, Recording], tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    assert write_report(target, runs["CCP"]) == target
    before = target.read_bytes()
    with pytest.raises(LabError, match=r"recordings: expected .* got labels of shape"):
        write_report(target, replace(runs["CCP"], labels=runs["CCP"].labels[:-1]))
    assert target.read_bytes() == before
    assert list(target.parent.iterdir()) == [target]


def test_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="recordings: expected at least one recording"):
        write_report(tmp_path / "r.html", {})
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(("path", "given", "words"), [
    ("r.html", {"title": 5}, "title: expected a word; got 5"), ("r.html", {"command": None}, "command: expected a word"),
    ("", {}, "path: expected the name of a file; got ''"), (None, {}, "path: expected a path"),
])  # fmt: skip
def test_titles_and_paths_that_are_none(runs: dict[str, Recording], path: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(LabError, match=words):
        write_report(path, runs, **given)


def test_names_that_no_file_can_hold_are_written_with_a_replacement(runs: dict[str, Recording], tmp_path: Path) -> None:
    odd = "x\ud800"
    recording = replace(
        runs["CCP"],
        class_names=[odd, *runs["CCP"].class_names[1:]],
        experiment=runs["CCP"].experiment | {"name": odd},
        events=[{"step": 400, "what": odd}],
        environment={"python": odd},
    )
    write_report(tmp_path / "r.html", {odd: recording}, title=odd, command=odd)
    page = Reader((tmp_path / "r.html").read_text("utf-8"))
    assert page.text.count("x\ufffd") >= 5
    assert page.blocks["film"]["runs"][0]["names"][0] == "x\ufffd"


# ---------------------------------------------------------------- the worst queries


def tiles(page: str) -> list[list[str]]:
    """The kinds of the pictures in each row of the section: asked, right, wrong."""
    rows = page.split('<div class="query">')[1:]
    return [re.findall(r'<figure class="(asked|right|wrong)">', row) for row in rows]


def test_the_worst_queries_are_those_that_an_obvious_computation_finds() -> None:
    recording = make_recording(4)
    found, among = worst_queries(recording)
    x, y = recording.embeddings[-1].astype(np.float64), recording.labels
    assert among == len(y)
    scores = []
    for i in range(len(y)):
        order = [j for j in np.argsort(((x - x[i]) ** 2).sum(axis=1), kind="stable") if j != i]
        relevant = int((y == y[i]).sum()) - 1
        right = [y[j] == y[i] for j in order[:relevant]]
        scores.append(sum(np.mean(right[: k + 1]) for k in range(relevant) if right[k]) / relevant)
    worst_of_class = sorted(min(scores[i] for i in np.flatnonzero(y == c)) for c in np.unique(y))
    assert [asked.score for asked in found] == pytest.approx(worst_of_class[: len(found)])
    for asked in found:
        assert scores[asked.row] == pytest.approx(asked.score) and asked.row not in asked.neighbours
        distances = np.linalg.norm(x[asked.neighbours] - x[asked.row], axis=1)
        nearest = np.sort(np.linalg.norm(np.delete(x, asked.row, axis=0) - x[asked.row], axis=1))[: len(distances)]
        np.testing.assert_allclose(distances, nearest, atol=1e-5)


def test_queries_and_neighbours_stand_as_pictures_with_right_and_wrong_told_twice(page: str, runs: dict[str, Recording]) -> None:
    rows = tiles(page)
    assert len(rows) == 12 and all(row[0] == "asked" and len(row) == 9 and "asked" not in row[1:] for row in rows)
    recording = runs["CCP"]
    (asked, *_), _ = worst_queries(recording)
    assert rows[0][1:] == ["right" if recording.labels[j] == recording.labels[asked.row] else "wrong" for j in asked.neighbours]
    first = page.split('<div class="query">')[1]
    assert first.count("✓") == rows[0].count("right") and first.count("✗") == rows[0].count("wrong")
    png = base64.b64decode(re.search(r'src="data:image/png;base64,([^"]+)"', first).group(1))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png))), recording.thumbnails[asked.row])


def test_without_pictures_classes_are_named_and_one_line_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    bare = replace(make_recording(4), thumbnails=None, class_names=[f"bird <{i}>" for i in range(10)])
    page = report_html(bare)
    assert len(tiles(page)) == 6 and "<img" not in page and "bird &lt;3&gt;" in page
    assert page.count("The recording has no pictures of its samples.") == 1
    birds = replace(bare, experiment=Experiment.preset("cub-c2").to_dict())
    page = report_html(birds)
    assert page.count("Set LABKIT_DATA to the folder that holds them") == 1 and "<img" not in page


@pytest.mark.usefixtures("own_cache")
@pytest.mark.filterwarnings("ignore::labkit.datasets.DataWarning")
def test_photographs_come_from_the_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    make_cub(tmp_path / "data", ids=(1, 20, 26, 50, 51, 60, 80, 90, 101, 150), each=4)
    recording = Trainer(Experiment.preset("cub-c2", **TINY)).run(progress=False)
    assert recording.thumbnails is None
    found, among = worst_queries(recording)
    assert among == 8 and {recording.class_names[recording.labels[asked.row]] for asked in found} == {"Bird 101", "Bird 150"}
    page = report_html(recording)
    assert page.count('src="data:image/jpeg;base64,') == sum(map(len, tiles(page))) > 0
    assert "8 of classes that it never sees" in page


def test_samples_that_are_alone_in_their_class_ask_nothing() -> None:
    alone = Recording({"name": "x"}, np.array([0]), np.eye(3, 2)[None], np.arange(3), class_names=list("abc"))
    assert worst_queries(alone) == ([], 3)
    one = Recording({"name": "x"}, np.array([0]), np.eye(3, 2)[None], np.zeros(3, dtype=int), class_names=["a"])
    assert worst_queries(one) == ([], 3), "with a single class nothing can be wrong"
