"""The explorer without a browser: hover, click, lasso and filters by their handlers."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.panels import EmbeddingExplorer
from labkit.plots.explorer_traces import TRACES
from labkit.plots.neighbourhood import misread, nearest_to
from tests.plots.recordings import make_recording


@pytest.fixture
def recording():
    return make_recording(3)


@pytest.fixture
def panel(recording):
    made = EmbeddingExplorer(recording)
    yield made
    made.close()


def points(panel, name):
    return len(panel.figure.data[TRACES[name]].x)


def test_it_opens_at_the_last_snapshot_and_follows_the_timeline(panel, recording):
    assert panel.snapshot == 16 and panel.controls.when.value == "step 1,600"
    panel.controls.timeline.value = 4
    samples = panel.figure.data[TRACES["samples"]]
    assert np.column_stack((samples.x, samples.y)) == pytest.approx(recording.embeddings[4])
    wrong = misread(recording.embeddings[4], recording.labels)
    assert f"{wrong.mean():.1%} misread" in panel.figure.layout.title.text and panel.controls.when.value == "step 400"


def test_hover_shows_the_picture(panel):
    panel._hovered([7])
    assert 'alt="class 7, sample 7"' in panel.controls.hovered.value and "<img" in panel.controls.hovered.value
    before = panel.controls.hovered.value
    panel._hovered([])
    assert panel.controls.hovered.value == before


def test_a_click_shows_the_neighbours_and_a_second_view_of_them_follows_the_timeline(panel, recording):
    panel._clicked([31])
    found, _ = nearest_to(recording.embeddings[-1], 31, 10)
    right = int((recording.labels[found] == recording.labels[31]).sum())
    assert panel.controls.anchor.value == 31 and f"{right} of its 10 nearest" in panel.controls.gallery.value
    assert (points(panel, "right"), points(panel, "wrong"), points(panel, "anchor")) == (right, 10 - right, 1)
    panel.controls.count.value = 3
    assert panel.controls.gallery.value.count("<figure") == 4 and points(panel, "right") + points(panel, "wrong") == 3
    panel.controls.timeline.value = 0
    star = panel.figure.data[TRACES["anchor"]]
    assert (star.x[0], star.y[0]) == pytest.approx(tuple(recording.embeddings[0][31]))


def test_the_number_does_what_a_click_does(panel):
    panel.controls.anchor.value = 12
    assert "Sample 12, class 2" in panel.controls.gallery.value and points(panel, "anchor") == 1


def test_a_lasso_selects_and_the_selection_is_an_index_and_a_table(panel, recording):
    panel._lassoed([3, 50, 7])
    assert list(panel.selection) == [3, 50, 7] and len(panel.selection) == 3
    panel.select([50, 3, 7, 3])
    assert panel.selection.indices.tolist() == [3, 7, 50]
    assert np.array_equal(recording.labels[panel.selection], recording.labels[[3, 7, 50]])
    frame = panel.selection.frame
    assert frame.index.tolist() == [3, 7, 50] and frame["label"].tolist() == [3, 7, 0]
    assert frame[["x", "y"]].to_numpy() == pytest.approx(recording.embeddings[-1][[3, 7, 50]])
    assert list(panel.figure.data[TRACES["samples"]].selectedpoints) == [3, 7, 50]
    assert "3 selected" in panel.controls.gallery.value and repr(panel.selection) == "<3 samples selected: 3, 7, 50>"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([999], r"rows: expected rows 0 … \d+ of the samples; got 999"),
        ([3, -1], "got -1"),
        ([0.5], "whole numbers"),
        ([True, False], "whole numbers"),
        ([[1], [2, 3]], "whole numbers"),
        (3, "whole numbers"),
        (None, "whole numbers"),
    ],
)
def test_what_is_no_row_is_not_selected(panel, rows, words):
    panel.select(np.array([3, 7]))
    with pytest.raises(LabError, match=words):
        panel.select(rows)
    assert list(panel.selection) == [3, 7]
    panel.select([])
    assert len(panel.selection) == 0


def test_a_selection_survives_filters_and_is_let_go_by_clear(panel):
    panel.select([3, 7, 50])
    panel.controls.show.value = [0, 7]
    assert len(panel.selection) == 3
    assert panel.shown[list(panel.figure.data[TRACES["samples"]].selectedpoints)].tolist() == [7, 50]
    panel.clear()
    assert len(panel.selection) == 0 and panel.figure.data[TRACES["samples"]].selectedpoints is None


def test_taking_the_outline_away_does_not_empty_the_selection_but_an_empty_lasso_does(panel):
    sent = []
    panel.figure.forget_outlines = lambda: sent.append(1)
    panel._lassoed([3, 50])
    panel.controls.timeline.value = 2
    assert sent == [1]
    panel._lassoed([])  # the page's answer
    assert len(panel.selection) == 2
    panel._lassoed([])
    assert len(panel.selection) == 0


def test_filters(panel, recording):
    panel.controls.show.value = [2, 5]
    assert [note.text for note in panel.figure.layout.annotations] == ["<b>2</b>", "<b>5</b>"]
    assert set(recording.labels[panel.shown]) == {2, 5} and points(panel, "samples") == 24
    panel.controls.show.value = list(range(10))
    panel.controls.timeline.value = 2
    panel.controls.errors_only.value = True
    wrong = misread(recording.embeddings[2], recording.labels)
    assert panel.shown.tolist() == np.flatnonzero(wrong).tolist() and wrong.any()
    assert f"{wrong.sum():,} of 120 pass the filters" in panel.notice.value
    menu = panel.controls.highlight
    menu.value = int(recording.labels[panel.shown[0]])
    menu.label = "none"  # as somebody does who chooses it again: it is seen, and nothing stands out
    assert menu.index == 0 and menu.label == "none" and panel.controls.standing_out is None
    menu.value = int(recording.labels[panel.shown[0]])
    assert len(set(panel.figure.data[TRACES["samples"]].marker.opacity)) == 2
    panel.controls.show.value = []
    assert points(panel, "samples") == 0 and panel.message.value == ""


def test_layouts_are_computed_once_and_leave_samples_out(panel, monkeypatch):
    calls = []

    def layout(parts, seed):
        calls.append(len(parts))
        return [part[:, :2] for part in parts]

    monkeypatch.setattr("labkit.plots.projections._tsne", layout)
    monkeypatch.setattr("labkit.panels.embedding_explorer.MOST_SAMPLES", 40)
    panel.controls.layout.value = "tsne"
    assert (
        points(panel, "samples") == 40
        and panel.controls.timeline.max == 4
        and "t-SNE of 40 samples" in panel.notice.value
    )
    panel.controls.layout.value = "raw"
    panel.controls.layout.value = "tsne"
    assert calls == [5]
    left_out = int(np.setdiff1d(np.arange(120), panel.shown)[0])
    panel.controls.anchor.value = left_out  # its neighbours are shown, its place is nowhere
    assert np.isnan(panel.figure.data[TRACES["anchor"]].x[0]) and f"Sample {left_out}" in panel.controls.gallery.value


def test_large_sets_are_drawn_in_part_and_searched_whole(monkeypatch):
    monkeypatch.setattr("labkit.panels.explored.MOST_DRAWN", 30)
    recording = make_recording(2)
    panel = EmbeddingExplorer(recording)
    panel.controls.timeline.value = 2
    assert len(panel.shown) == 30 == points(panel, "samples")
    wrong = misread(recording.embeddings[2], recording.labels)[panel.shown]
    assert points(panel, "misread") == wrong.sum() and f"{wrong.mean():.1%} of the 30 drawn" in panel.notice.value
    panel.close()


def at_random():
    random = np.random.default_rng(0)
    return random.normal(size=(120, 2)), np.arange(120) % 2


def test_samples_that_are_not_drawn_are_looked_at_when_they_are_selected(monkeypatch):
    monkeypatch.setattr("labkit.panels.explored.MOST_DRAWN", 30)
    x, labels = at_random()
    wrong = misread(x, labels)
    panel = EmbeddingExplorer(x, labels)
    beyond = np.setdiff1d(np.arange(120), panel.shown)
    assert wrong[beyond].any() and not wrong[beyond].all()
    panel.select(beyond)
    assert f"<b>90 selected</b>, {wrong[beyond].sum()} misread" in panel.controls.gallery.value
    assert panel.selection.frame["misread"].tolist() == wrong[beyond].tolist()
    panel.close()


def test_a_layout_tells_of_its_own_samples_whether_they_are_misread(monkeypatch):
    """A sample that is laid out need not be among those that the other layouts draw."""
    monkeypatch.setattr("labkit.panels.explored.MOST_DRAWN", 30)
    monkeypatch.setattr("labkit.panels.embedding_explorer.MOST_SAMPLES", 50)
    monkeypatch.setattr("labkit.plots.projections._tsne", lambda parts, seed: [part[:, :2] for part in parts])
    x, labels = at_random()
    panel = EmbeddingExplorer(x, labels)
    panel.controls.layout.value = "tsne"
    wrong = misread(x, labels)[panel.shown]
    assert len(panel.shown) == 50 and 0 < wrong.mean() < 1
    assert f"{wrong.mean():.1%} misread" in panel.figure.layout.title.text
    assert points(panel, "misread") == wrong.sum()
    panel.close()


def test_scrubbing_sends_positions_only(panel):
    sent = []
    panel.figure._send_update_msg = lambda **message: sent.append(set(message["restyle_data"]))
    panel.controls.timeline.value = 3
    panel.controls.highlight.value = 2
    assert "x" in sent[0] and not {"text", "marker.color", "marker.opacity"} & sent[0]
    assert "marker.opacity" in set().union(*sent[1:])


def test_plain_embeddings_with_colour_pictures_and_names():
    x = np.random.default_rng(0).normal(size=(20, 5))
    images = np.zeros((20, 3, 6, 6), np.uint8)
    panel = EmbeddingExplorer(x, np.arange(20) % 2, images, class_names=["cat", "dog"])
    assert "raw" not in panel.controls.layout.options.values() and panel.controls.timeline.disabled
    panel._clicked([3])
    assert "dog" in panel.controls.gallery.value and panel.controls.when.value == "snapshot 1 of 1"
    panel.close()


def test_labels_may_be_any_whole_numbers_and_pictures_may_be_missing():
    panel = EmbeddingExplorer(np.random.default_rng(0).normal(size=(3, 9, 2)), [7, 7, 7, -1, -1, -1, 100, 100, 100])
    panel.select([0, 8])
    assert panel.selection.frame["label"].tolist() == [7, 100] and panel.selection.frame["class"].tolist() == [
        "7",
        "100",
    ]
    panel.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((4, 2)),), "labels: expected one label per embedding"),
        ((np.zeros((4, 2)), [0, 1]), "labels: expected one label per embedding"),
        ((np.zeros((1, 2)), [0]), "source: expected at least two samples"),
        ((np.zeros((4, 2)), [0, 1, 0, 1], np.zeros((3, 8, 8), np.uint8)), "images"),
        (("a string", [0]), "source"),
        (([[1, 2], [3]], [0, 1]), "source: expected numbers of shape"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(LabError, match=message):
        EmbeddingExplorer(*arguments)


@pytest.mark.parametrize(
    ("name", "value"), [("class_names", 3), ("neighbours", "x"), ("neighbours", None), ("neighbours", 0)]
)
def test_a_setting_of_another_kind_is_refused(name, value):
    with pytest.raises(LabError, match=f"^{name}: expected"):
        EmbeddingExplorer(np.eye(2), [0, 1], **{name: value})


def test_class_names_may_be_an_array():
    panel = EmbeddingExplorer(np.eye(2), [0, 1], class_names=np.array(["cat", "dog"]))
    assert panel._data.names == ["cat", "dog"]
    panel.close()


def test_a_recording_whose_proxies_are_nan_is_refused(recording):
    recording.proxies[3, 0] = np.nan
    with pytest.raises(LabError, match="^source: .*proxies with NaN"):
        EmbeddingExplorer(recording)


def test_pandas_and_umap_are_loaded_only_when_asked_for():
    program = (
        "from tests.plots.recordings import make_recording; from labkit.panels import EmbeddingExplorer; import sys\n"
        "panel = EmbeddingExplorer(make_recording(2)); panel.select([1, 2])\n"
        "print([name in sys.modules for name in ('pandas', 'umap', 'sklearn')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[False, False, False]\n"


def test_a_closed_panel_is_collected(recording):
    panel = EmbeddingExplorer(recording)
    watched = weakref.ref(panel)
    panel.close()
    del panel
    gc.collect()
    assert watched() is None
