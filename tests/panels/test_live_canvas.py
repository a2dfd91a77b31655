"""What the playground sends to its page, read as the page reads it: scenes, curves, and the way through time."""

import dataclasses
import struct
import zlib

import numpy as np
import pytest

from labkit.panels import Playground
from labkit.panels.live_canvas import HALF, LiveCanvas
from labkit.panels.live_scene import CURVES, Cast, Course, Scene, chosen_by, scene_of
from labkit.training.live_run import Boundary, Frame, Snapshot
from tests.panels.playgrounds import SMALL, go

FLOAT = np.float32


class Page:
    """A page without a browser: keeps what it is told, as `labkit/assets/live_figure.js` does."""

    def __init__(self, canvas, monkeypatch):
        self.canvas, self.messages, self.cast, self.live, self.course = canvas, [], None, None, None
        self.stored, self.count, self.life = {}, 0, None
        monkeypatch.setattr(canvas, "send", self.hear)
        self.say(asks="all")

    def say(self, **message):
        self.canvas._hear(self.canvas, message, [])

    def ask(self, *snapshots):
        self.say(asks="stored", life=self.life, snapshots=list(snapshots))

    def hear(self, head, buffers):
        self.messages.append(head["kind"])
        buffers = list(buffers)
        if head["kind"] == "begin":
            self.cast, self.labels = head, np.frombuffer(buffers.pop(0), np.uint16)
            self.sheet = buffers.pop(0) if "sheet" in head else None
            self.stored, self.life = {}, head["life"]
        elif head["kind"] == "forget":
            if head["life"] != self.life or not head["snapshots"]:
                self.stored = {}
            for at in head["snapshots"]:
                self.stored.pop(at, None)
            self.life = head["life"]
        elif head["kind"] == "show":
            self.count, self.number = head["count"], head["number"]
            if "scene" in head:
                self.live = self.scene(head["scene"], buffers)
            if "course" in head:
                steps, *values = (np.frombuffer(buffer, FLOAT) for buffer in buffers)
                self.course = {"steps": steps, **head["course"], **dict(zip((c[0] for c in CURVES), values, strict=True))}
                buffers.clear()
        else:
            assert head["kind"] == "scenes" and head["life"] == self.life
            self.stored |= {each["at"]: self.scene(each, buffers) for each in head["scenes"]}
        assert not buffers or head["kind"] == "begin"

    def scene(self, head, buffers):
        samples = np.frombuffer(buffers.pop(0), np.float16 if head["half"] else FLOAT).reshape(-1, 2)
        rest, classes = np.frombuffer(buffers.pop(0), FLOAT), len(self.cast["names"])
        sizes = 2 * classes * head["proxies"], 2 * classes * head["chosen"], 2 * classes, head["radii"]
        assert len(rest) == sum(sizes)
        proxies, chosen, numbers, radii = np.split(rest, np.cumsum(sizes)[:-1])
        return {**head, "samples": samples, "proxies": proxies, "chosen": chosen, "numbers": numbers, "radii": radii}


@pytest.fixture
def make(make, monkeypatch):
    """Makes playgrounds, each with a page that looks at it."""

    def makes(*preset, **changes):
        panel = make(*preset, **changes)
        return panel, Page(panel.figure, monkeypatch)

    return makes


def test_nothing_is_sent_before_a_page_has_come(digits, monkeypatch):
    panel = Playground("ccp", splits=digits, threaded=False, **SMALL)
    monkeypatch.setattr(panel.figure, "send", lambda *_: pytest.fail("nobody is there"))
    go(panel, 6)
    assert panel.figure.scene.step == 6 and panel.figure.sent == 0
    panel.close()


def test_a_page_that_comes_late_is_told_everything(make, monkeypatch):
    panel, page = make()
    go(panel, 12)
    late = Page(panel.figure, monkeypatch)
    snapshot = panel.session.snapshot
    np.testing.assert_array_equal(late.labels, snapshot.labels)
    np.testing.assert_allclose(late.live["samples"], snapshot.live.embeddings, atol=1e-6)
    np.testing.assert_allclose(late.live["proxies"], snapshot.live.proxies.ravel(), atol=1e-6)
    np.testing.assert_array_equal(late.course["steps"], snapshot.metrics["step"])
    np.testing.assert_allclose(late.course["map_at_r"], snapshot.metrics["map_at_r"], rtol=1e-6)
    assert late.count == len(snapshot.stored) > 2 and late.live["step"] == 12
    assert page.messages[0] == "begin"


def test_a_frame_is_one_message_and_curves_travel_only_when_they_grow(make):
    panel, page = make()
    go(panel, 5)
    page.messages.clear()
    course = page.course
    go(panel, 1)
    assert page.messages == ["show"] and page.live["step"] == 6 and page.course is course
    panel.refresh()
    assert page.messages == ["show"]  # nothing new, nothing said
    go(panel, 4)
    assert list(page.course["steps"]) == [0, 5, 10] and page.messages == ["show"] * 2


def test_a_change_by_hand_is_in_the_very_next_message(make):
    panel, page = make()
    go(panel, 6)
    page.messages.clear()
    panel.controls.hot["optimizer.learning_rate"].value = 0.01
    panel.run_pending(0)
    assert page.messages == ["show"]
    assert list(page.course["changes"]) == [(6, "learning rate 0.002 → 0.01")]


def test_the_page_holds_the_stored_scenes_and_moves_among_them_by_itself(make):
    panel, page = make()
    go(panel, 20)
    page.ask(*range(page.count))
    recording = panel.recording()
    assert sorted(page.stored) == list(range(len(recording.steps)))
    for at, scene in page.stored.items():
        assert scene["step"] == recording.steps[at] and scene["half"]
        np.testing.assert_allclose(scene["samples"], recording.embeddings[at], atol=1e-3)
        np.testing.assert_allclose(scene["proxies"], recording.proxies[at].ravel(), atol=1e-6)
    page.messages.clear()
    for at in (0, 3, 1):
        panel.transport.timeline.value = at
        assert panel.figure.scene.step == recording.steps[at]
    assert page.messages == []
    page.ask(99, -1)
    assert sorted(page.stored) == list(range(len(recording.steps)))


def test_what_a_way_back_or_a_new_problem_changes_is_asked_for_again(make):
    panel, page = make()
    go(panel, 10)
    page.ask(*range(page.count))
    last = page.count - 1
    before = page.stored[last]["chosen"]
    panel.next_problem()  # at the step of the last stored snapshot, whose rings are now the next problem's
    panel.run_pending()
    assert sorted(page.stored) == list(range(last))
    page.ask(last)
    assert not np.array_equal(page.stored[last]["chosen"], before)
    np.testing.assert_allclose(page.stored[last]["chosen"], panel.recording().problems[0].next_proxies.ravel(), atol=1e-6)
    go(panel, 10)
    page.ask(*range(page.count))
    panel.change("optimizer.learning_rate", 1e29)
    panel.play()
    panel.run_pending()
    panel.go_back()
    panel.run_pending()
    go(panel, 5)
    page.ask(*(at for at in range(page.count) if at not in page.stored))
    for at, frame in enumerate(panel.session.snapshot.stored):
        np.testing.assert_allclose(page.stored[at]["samples"], frame.embeddings, atol=1e-3)
    panel.reset()
    panel.run_pending()
    assert page.stored == {} and page.count == 1 and page.live["step"] == 0


def test_an_answer_of_an_earlier_life_is_not_given(make):
    panel, page = make()
    go(panel, 5)
    page.messages.clear()
    page.say(asks="stored", life=page.life - 1, snapshots=[0])
    assert page.messages == []


def test_the_sheet_holds_every_picture(make):
    _, page = make()
    width, height = struct.unpack(">II", page.sheet[16:24])
    sheet = page.cast["sheet"]
    assert page.sheet[:4] == b"\x89PNG" and (sheet["width"], sheet["height"]) == (28, 28)
    assert (width, height) == (64 * 28, -(-len(page.labels) // 64) * 28)
    assert zlib.crc32(b"IEND") == struct.unpack(">I", page.sheet[-4:])[0]


def test_saved_state_holds_no_positions(make):
    panel, _ = make()
    go(panel, 20)
    state = panel.figure.get_state()
    assert "samples" not in str(state.keys()) and len(str({k: v for k, v in state.items() if k not in ("_esm", "_css")})) < 3000


# ------------------------------------------------------------ scenes


def frame_of(embeddings, proxies=None, step=0):
    return Frame(step, np.asarray(embeddings, dtype=np.float32), proxies)


def cast_of(labels, width=2):
    names = tuple(f"class {c}" for c in range(max(labels) + 1))
    live = frame_of(np.zeros((len(labels), width)))
    return Cast.of(Snapshot(0, 1, "paused", None, None, live=live, labels=np.array(labels), class_names=names))


def test_labels_with_gaps_are_placed_and_named():
    cast = cast_of([4, 1, 4, 7])
    assert list(cast.labels) == [1, 0, 1, 2] and cast.names == ("class 1", "class 4", "class 7")


def test_a_scene_without_proxies_says_how_many_there_are():
    scene = scene_of(cast_of([0, 0, 1]), frame_of([[0, 0], [0.5, 0], [0, 1]]), None, "")
    assert scene.title == "2 classes, 3 samples" and scene.proxies.shape == scene.chosen.shape == (2, 0, 2)
    assert scene.radii.shape == (0,) and scene.extent == pytest.approx(1.2)


def test_a_wide_embedding_is_projected_with_its_proxies_and_says_so():
    rng = np.random.default_rng(0)
    labels, points = [0] * 20 + [1] * 20, rng.normal(size=(40, 5)) * [3, 2, 0.1, 0.1, 0.1]
    proxies = np.stack([points[:2], points[20:22]])
    cast = cast_of(labels, 5)
    scene = scene_of(cast, frame_of(points, proxies), proxies, "")
    assert cast.projected and "5-D, drawn in its 2 first principal components" in scene.note
    np.testing.assert_allclose(scene.proxies[0], scene.samples[:2], atol=1e-5)
    nearest = np.linalg.norm(points[:20, None] - proxies[0][None], axis=2).min(axis=1)
    assert scene.radii[0] == pytest.approx(np.quantile(nearest, 0.95), rel=1e-5)  # in all five dimensions


@pytest.mark.parametrize("broken", [np.nan, np.inf, 3e38])
def test_what_has_run_away_is_drawn_somewhere(broken, monkeypatch):
    scene = scene_of(cast_of([0, 1]), frame_of([[broken, 0], [0, 1]]), None, "")
    assert np.isfinite(scene.samples).all()
    canvas = LiveCanvas(None, lambda at: scene)
    page = Page(canvas, monkeypatch)
    canvas.begin(cast_of([0, 1]))
    canvas.show(scene, Course(np.zeros(0, FLOAT), {c[0]: np.zeros(0, FLOAT) for c in CURVES}, (), ()), 1, live=True)
    page.ask(0)
    assert np.isfinite(page.stored[0]["samples"]).all() and np.abs(page.stored[0]["samples"]).max() <= HALF + 32
    canvas.close()


def test_which_selection_chose_is_told_by_the_order_of_what_happened():
    from labkit.panels.playground_presets import live_experiment

    def told(*events, end):
        boundary = Boundary(end, 0, np.zeros((1, 1, 2)))
        settings = live_experiment("ccp")
        return chosen_by(Snapshot(0, 1, "paused", settings, settings, boundaries=(boundary,), events=events))

    change = {"step": 10, "setting": "projections.selection", "value": "random", "what": ""}
    by_hand = {"step": 10, "setting": "next_problem", "value": None, "what": ""}
    assert told(change, end=11) == told(change, by_hand, end=10) == "start of this problem (at random)"
    by_k_center = "start of this problem (K-Center)"
    assert told(change, end=9) == told(change, end=10) == told(by_hand, change, end=10) == by_k_center


def test_rings_fade_as_their_problem_grows_old():
    proxies = np.zeros((2, 1, 2))
    cast, frame = cast_of([0, 1]), frame_of([[0, 0], [0, 1]])
    strength = [scene_of(cast, frame, proxies, "", age).chosen_strength for age in (0, 50, 100, 150, 9000)]
    assert strength[0] == strength[1] == 1 > strength[2] > strength[3] == strength[4] == pytest.approx(0.15)


def test_a_scene_is_never_changed():
    scene = scene_of(cast_of([0, 1]), frame_of([[0, 0], [0, 1]]), None, "")
    assert isinstance(scene, Scene)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scene.step = 1
