"""The stepper without a browser: its handlers called as widgets call them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.panels import KCenterStepper
from labkit.panels.k_center_stepper import ALL, GIVEN
from labkit.plots.covering_traces import TRACES
from tests.plots.recordings import make_recording


@pytest.fixture
def panel():
    made = KCenterStepper(make_recording(3, per_class=20), pool_size=8, k=4)
    yield made
    made.close()


def points(panel, name):
    return len(panel.figure.data[TRACES[name]].x)


def press(panel, text):
    next(b for b in panel.buttons if text in b.description).click()


def test_buttons_step_forth_and_back_and_stop_at_the_ends(panel):
    assert panel.step == 0 and points(panel, "picks") == 0
    press(panel, "Back")
    assert panel.step == 0
    press(panel, "Next")
    press(panel, "Next")
    assert panel.step == 2 and points(panel, "picks") == 20 and "after 2 picks" in panel.notice.value
    press(panel, "To the end")
    press(panel, "Next")
    assert panel.step == 4 and panel.figure.layout.title.text.startswith("<b>4 of 4 picks</b>")
    press(panel, "Start over")
    assert panel.step == 0


def test_the_pool_the_picks_and_the_seed_start_over(panel):
    panel.go(3)
    first = panel.figure.data[TRACES["samples"]].x
    panel.seed.value = 5
    assert panel.step == 0 and not np.array_equal(first, panel.figure.data[TRACES["samples"]].x)
    panel.pool.value = 3
    assert points(panel, "samples") == 30 and panel.steps.k == 3 == panel.slider.max
    panel.pool.value = 20
    panel.picks.value = 16
    assert panel.steps.k == 16


def test_it_begins_with_as_many_as_were_asked_for():
    x = np.random.default_rng(0).normal(size=(900, 2))
    panel = KCenterStepper(x, np.arange(900) % 2, k=20, pool_size=400)
    assert (panel.pool.value, panel.picks.value, panel.steps.k, panel.slider.max) == (400, 20, 20, 20)
    assert [len(s.points) for s in panel.steps.sets] == [400, 400]
    press(panel, "To the end")
    assert panel.step == 20
    panel.close()


def test_what_a_small_set_does_not_have_comes_back_with_a_large_one():
    x = np.random.default_rng(0).normal(size=(240, 2))
    panel = KCenterStepper(x, np.arange(240) % 2, k=20, pool_size=100)
    own, nine = panel.source.value, next(name for name in panel.source.options if name.startswith("nine points"))
    panel.source.value = nine
    assert panel.pool.value == panel.picks.value == panel.steps.k == 9
    panel.source.value = own
    assert (panel.pool.value, panel.picks.value, panel.steps.k) == (100, 20, 20)
    panel.picks.value = 7  # now that is wanted
    panel.pool.value = 5
    assert panel.picks.value == panel.steps.k == 5
    panel.source.value = nine
    panel.source.value = own
    assert (panel.pool.value, panel.picks.value) == (5, 5)
    panel.pool.value = 50
    assert panel.picks.value == 7
    panel.close()


def test_one_class_or_all(panel):
    assert panel.classes.value == ALL and len(panel.steps.sets) == 10
    panel.classes.value = "7"
    assert [s.name for s in panel.steps.sets] == ["7"] and points(panel, "samples") == 8
    low, high = panel.figure.layout.xaxis.range
    assert high - low < 1.5


def test_classes_are_named_and_the_marks_explained_without_opening_the_help(panel):
    assert [note.text for note in panel.figure.layout.annotations] == [f"<b>{digit}</b>" for digit in range(10)]
    title = panel.figure.layout.title
    assert "squares: centres that are there already" in title.text and "rings" not in title.text
    panel.go(1)
    assert "rings: picks" in title.text and "star: the farthest sample" in title.text and "balls" in title.text
    assert "Each class&#x27;s star is farthest" in panel.notice.value
    assert "numbered for the widest class" in title.text and sum(map(bool, panel.figure.data[TRACES["picks"]].text)) == 1
    panel.classes.value = "7"
    assert not panel.figure.layout.annotations and "The star is farthest" in panel.notice.value


def test_a_class_name_cannot_act_as_markup():
    recording = make_recording(3, per_class=20)
    recording.class_names = [f"<i>{digit}" for digit in range(10)]
    panel = KCenterStepper(recording, pool_size=8, k=4)
    panel.go(1)
    assert "widest class, &lt;i&gt;" in panel.figure.layout.title.text
    panel.close()


def test_numbers_of_picks_that_lie_together_share_a_label():
    at = np.array([[0, 0], [1, 0], [0.001, 0], [1.001, 0], [0, 1]])
    panel = KCenterStepper(at, np.zeros(5, int), k=5)
    panel.go(5)
    texts, told = panel.figure.data[TRACES["picks"]].text, panel.figure.data[TRACES["picks"]].customdata
    numbers = [int(n) for text in texts if text for n in text.split(",")]
    assert sorted(numbers) == [1, 2, 3, 4, 5] and sum(bool(text) for text in texts) == 3
    assert [text.split(",")[0] for text in told] == ["1", "2", "3", "4", "5"]
    panel.close()


def test_with_and_without_the_proxies(panel):
    assert points(panel, "proxies") == 40 and np.isfinite(panel.steps.greedy[0])
    panel.from_proxies.value = False
    assert points(panel, "proxies") == 0 and "No centre yet" in panel.notice.value


def test_comparisons_can_be_hidden(panel):
    panel.go(2)
    assert points(panel, "best") and points(panel, "random band")
    panel.compare_best.value = panel.compare_random.value = False
    assert not points(panel, "best") and not points(panel, "random band")


def test_every_source_of_a_recording_and_every_example_can_be_chosen(panel):
    assert len(panel.source.options) == 3 + 4
    for name in panel.source.options:
        panel.source.value = name
        panel.go(1)
        assert panel.message.value == "" and points(panel, "picks") >= 1
    assert panel.pool.disabled


def test_embeddings_of_any_width_and_no_source_at_all():
    x = np.random.default_rng(0).normal(size=(30, 5))
    panel = KCenterStepper(x, np.arange(30) % 3, np.zeros((3, 2, 5)))
    assert panel.source.value == GIVEN and "principal" in panel.figure.layout.xaxis.title.text
    panel.close()
    panel = KCenterStepper()
    assert panel.source.value.startswith("nine points") and panel.message.value == ""
    panel.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((4, 2)),), "labels: expected one label per embedding"),
        ((np.zeros((4, 2)), [0, 1]), "labels: expected one label per embedding"),
        ((np.zeros(4), [0, 1]), "source: expected a non-empty array"),
        ((np.zeros((4, 2)), [0, 1, 0, 1], np.zeros((2, 2, 3))), "proxies: expected D = 2"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(LabError, match=message):
        KCenterStepper(*arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [("k", -1), ("k", 2.5), ("pool_size", "x"), ("pool_size", 0), ("seed", "x"), ("seed", -1)],
)
def test_a_setting_that_no_slider_has_is_refused(name, value):
    with pytest.raises(LabError, match=f"^{name}: expected a whole number"):
        KCenterStepper(**{name: value})


@pytest.mark.parametrize("problems", [True, False])
@pytest.mark.parametrize(("change", "message"), [
    (lambda x: x[:0], "steps of shape|at least one snapshot"),
    (lambda x: x[:, :0], "labels of shape"),
    (lambda x: x[:, :, :0], "at least one snapshot|proxies of shape"),
    (lambda x: np.full_like(x, np.nan), "NaN"),
    (lambda x: np.full_like(x, 1e30), "at most 1e[+]30"),
])  # fmt: skip
def test_a_recording_that_holds_nothing_to_draw_is_refused(change, message, problems):
    recording = make_recording(3)
    recording.embeddings = change(recording.embeddings)
    if not problems:
        recording.problems = []
    with pytest.raises(LabError, match=f"^source.*({message})"):
        KCenterStepper(recording)


def test_empty_recordings_whose_parts_agree_are_refused():
    recording = make_recording(3)
    recording.problems, recording.proxies = [], None
    recording.metrics = {}
    recording.steps, recording.embeddings = recording.steps[:0], recording.embeddings[:0]
    with pytest.raises(LabError, match="^source: expected at least one snapshot"):
        KCenterStepper(recording)


def test_a_closed_panel_is_collected():
    panel = KCenterStepper()
    watched = weakref.ref(panel)
    panel.close()
    del panel
    gc.collect()
    assert watched() is None
