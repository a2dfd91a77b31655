"""The comparison without a browser."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.panels import RunComparison
from labkit.plots.comparison import snapshot_at
from labkit.plots.reading import proxies_by_class
from tests.plots.recordings import make_recording


@pytest.fixture
def runs():
    return {"CCP": make_recording(4), "one problem": make_recording(1, seed=1, snapshots=9)}


def test_one_timeline_moves_every_map(runs):
    panel = RunComparison(runs)
    assert panel.step == 1600 and panel.when.value == "step 1,600"
    for place in (0, 3, 8):
        panel.timeline.value = place
        for number, recording in enumerate(runs.values()):
            samples = panel.figure.data[4 * number]
            expected = recording.embeddings[snapshot_at(recording, panel.step)]
            assert np.column_stack((samples.x, samples.y)) == pytest.approx(expected, abs=1e-3)
        lines = [shape.x0 for shape in panel.figure.layout.shapes if shape.type == "line"]
        assert lines == [panel.step] * 4 and f"step {panel.step:,}" in panel.when.value
    assert "step 800" in panel.figure.layout.annotations[0].text.lower()
    panel.close()


def test_buttons_stop_at_the_ends(runs):
    panel = RunComparison(runs)
    panel.go(1)
    assert panel.step == 1600
    panel.go(-2)
    assert panel.step == 1400
    panel.go(-99)
    assert panel.step == 0 and panel.message.value == ""
    panel.close()


def test_the_table_and_the_notice(runs):
    runs["one problem"].experiment = {**runs["one problem"].experiment, "method": "proxy"}
    panel = RunComparison(runs)
    assert "<td>proxy</td>" in panel.table.value and "0.9550" in panel.table.value
    assert "Step 1,600, MAP@R" in panel.notice.value
    panel.close()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_any_number_up_to_six_with_maps_for_four(count):
    panel = RunComparison([make_recording(2, seed=s) for s in range(count)], sample=60)
    maps = min(count, 4)
    assert len(panel.figure.data) == 4 * maps + 2 * 4 * count and len(panel.figure.layout.annotations) == maps
    panel.timeline.value = 3
    assert panel.message.value == ""
    panel.close()


def test_runs_of_other_widths_and_without_proxies(runs):
    wide = make_recording(2, dimensions=5)
    wide.proxies, wide.problems = None, []
    panel = RunComparison({**runs, "wide": wide})
    panel.timeline.value = 4
    assert panel.message.value == "" and len(panel.figure.data[9].x) == 0
    panel.close()


def test_what_is_refused(runs):
    with pytest.raises(LabError, match="recordings"):
        RunComparison({})
    with pytest.raises(LabError, match="sample"):
        RunComparison(runs, sample=0)
    runs["CCP"].proxies = runs["CCP"].proxies[:-1]
    with pytest.raises(LabError, match=r"recordings\['CCP'\]: expected a recording whose parts fit .*proxies of shape"):
        RunComparison(runs)


def test_labels_far_beyond_the_proxies_take_no_more_memory(runs):
    runs["CCP"].labels = np.where(runs["CCP"].labels == 9, 10**9, runs["CCP"].labels)
    runs["CCP"].proxies, runs["CCP"].problems, runs["CCP"].class_names = runs["CCP"].proxies[:, :9], [], []
    own = proxies_by_class("p", np.ones((2, 1, 2)), np.array([0, 1, 10**9]), 2, untrained=True)
    assert np.isnan(own).all(axis=(1, 2)).tolist() == [False, False, True]
    panel = RunComparison(runs)
    assert panel.message.value == ""
    panel.close()


def test_a_closed_panel_leaves_nothing(runs):
    from ipywidgets.widgets.widget import _instances

    RunComparison(runs).close()
    gc.collect()
    before = len(_instances)
    panel = RunComparison(runs)
    watched = weakref.ref(panel)
    panel.close()
    del panel
    gc.collect()
    assert watched() is None and len(_instances) == before
