"""The grid's panel without a browser: what it shows of a grid, and what its buttons and sliders do."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest

from labkit.datasets import load_digits
from labkit.errors import LabError
from labkit.panels import SettingGrid
from labkit.panels.setting_grid_figure import BLANKS, CELLS, HATCHING
from labkit.training import Grid, Trainer, shipped_grid
from tests.training.conftest import tiny

LAMBDA, PROXIES = "projections.projection_weight", "projections.proxies_per_class"


@pytest.fixture
def build():
    return partial(Trainer, splits=load_digits("digits-8x8"))


@pytest.fixture(scope="module")
def lambda_by_k():
    return shipped_grid("lambda-by-k")


def values(panel):
    return np.array(panel.figure.data[CELLS].z, dtype=float)


def test_the_shipped_grid_is_there_without_training(lambda_by_k):
    panel = SettingGrid(lambda_by_k)
    assert np.array_equal(values(panel), lambda_by_k.figures("map_at_r"))
    assert panel.chosen == np.unravel_index(lambda_by_k.figures().argmax(), (5, 4)) and panel.start_button.disabled
    assert panel.explorer is not None and panel.message.value == "" and "20 of 20" in panel.said.value
    panel.close()


def test_choosing_a_cell_shows_its_curves_and_opens_its_recording(lambda_by_k):
    panel = SettingGrid(lambda_by_k)
    for at in ((0, 0), (4, 3)):
        before = panel.explorer
        panel.choose(*at)
        recording = lambda_by_k.cell(*at).recording
        assert panel.chosen == at and (panel.row_slider.value, panel.column_slider.value) == at
        assert panel.explorer is not before and before.comm is None
        assert np.allclose(panel.explorer._data.x[-1], recording.embeddings[-1])
        steps, scores = panel.figure.data[4].x, panel.figure.data[4].y
        assert list(steps[:-1]) == recording.metrics["step"].tolist()
        assert np.allclose(scores[:-1], recording.metrics["map_at_r"], rtol=1e-3)
        assert [panel.figure.layout[f"yaxis{i}"].title.text.endswith("(log)") for i in (2, 3, 4)] == [False, True, True]
        frame = [s for s in panel.figure.layout.shapes if s.type == "rect"]
        assert len(frame) == 1 and frame[0].y0 < at[0] < frame[0].y1 and frame[0].x0 < at[1] < frame[0].x1
        ends = {s.x0 for s in panel.figure.layout.shapes if s.type == "line"}
        assert ends == {p.end for p in recording.problems[:-1]}
    panel.close()


def test_sliders_and_clicks_do_the_same(lambda_by_k):
    panel = SettingGrid(lambda_by_k)
    panel.row_slider.value = 2
    panel.column_slider.value = 0
    assert panel.chosen == (2, 0) and f"{panel.grid.words(panel.grid.cell(2, 0))}" in panel.below.children[0].value
    opened = panel.explorer
    panel.row_slider.value = 2
    assert panel.explorer is opened
    with pytest.raises(LabError, match="row: expected"):
        panel.choose(9, 0)
    assert panel.message.value == "" and panel.chosen == (2, 0)
    panel.close()


def test_opening_one_run_after_the_other_leaves_no_widget(lambda_by_k):
    from ipywidgets.widgets.widget import _instances

    before = set(_instances)
    panel = SettingGrid(lambda_by_k)
    many = len(_instances)
    for at in ((0, 0), (4, 3), (1, 1)):
        panel.choose(*at)
    assert len(_instances) == many
    panel.close()
    assert set(_instances) == before


def test_the_figure_is_chosen_and_the_notice_is_computed(lambda_by_k):
    panel = SettingGrid(lambda_by_k, measure="p_at_1", explore=False)
    assert panel.explorer is None and "P@1 from" in panel.notice.value
    assert np.array_equal(values(panel), lambda_by_k.figures("p_at_1"))
    panel.measure.value = "covering_max"
    assert np.array_equal(values(panel), lambda_by_k.figures("covering_max")) and "covering radius" in panel.notice.value
    assert "All with seed 0" in panel.notice.value
    panel.close()


def test_the_code_repeats_the_chosen_run(build):
    grid = Grid(tiny(steps=10), {LAMBDA: [0.0, 0.5], PROXIES: [2]}, build=build).run()
    panel = SettingGrid(grid, explore=False)
    panel.choose(1, 0)
    given = {}
    exec(panel.code(), given)  # noqa: S102
    assert given["experiment"] == grid.cell(1, 0).experiment
    assert np.allclose(given["recording"].embeddings, grid.cell(1, 0).recording.embeddings)
    panel.close()


def test_it_fills_while_the_kernel_is_free(build):
    """In a kernel callbacks run inside an event loop; the panel looks from there."""

    async def session():
        grid = Grid(tiny(steps=10), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build)
        panel = SettingGrid(grid)
        assert np.isnan(values(panel)).all() and panel.explorer is None and "No run is done yet" in panel.notice.value
        panel.start()
        deadline = time.monotonic() + 60
        while np.isnan(values(panel)).any() and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert np.array_equal(values(panel), grid.figures()) and panel.bar.value == 2 and panel.explorer is not None
        await asyncio.sleep(0.6)
        assert panel._task[1].done() and panel.stop_button.disabled and "2 of 2" in panel.said.value
        panel.close()

    asyncio.run(session())


def test_stopping_and_going_on_with_the_chosen_cell(build):
    grid = Grid(tiny(), {LAMBDA: [0.0, 0.5], "steps": [10, 10**6]}, build=build)
    panel = SettingGrid(grid, explore=False)
    panel.choose(1, 1)
    panel.train_next()
    deadline = time.monotonic() + 30
    while grid.cell(1, 1).step < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    panel.refresh()
    assert grid.cell(1, 1).state == "running" and panel.figure.data[BLANKS].text[1][1] == "0%"
    assert panel.start_button.disabled and not panel.stop_button.disabled and panel.next_button.disabled
    x = [value for value in panel.figure.data[HATCHING].x if value is not None]
    y = [value for value in panel.figure.data[HATCHING].y if value is not None]
    assert not any(a > 0.5 and b > 0.5 for a, b in zip(x, y, strict=True))  # the words can be read
    panel.stop()
    assert not grid.running and panel.stop_button.disabled and not panel.next_button.disabled
    assert panel.figure.data[BLANKS].text[1][1] == "" and panel.figure.data[BLANKS].z[1][1] == 0
    panel.close()


def test_a_failed_cell_is_told(build):
    grid = Grid(tiny(steps=20), {"optimizer.learning_rate": [1e29], PROXIES: [1]}, build=build)
    panel = SettingGrid(grid)
    panel.start()
    with pytest.raises(LabError):
        grid.join()
    panel.refresh()
    assert panel.figure.data[BLANKS].text[0][0] == "failed" and "learning rate = 1e+29" in panel.message.value
    assert not panel.start_button.disabled
    grid.start = panel.refresh = lambda: None  # it is tried anew, and has not failed yet
    panel.start()
    assert panel.message.value == ""
    panel.close()


def test_runs_in_which_lambda_did_nothing_are_counted(build):
    grid = Grid(tiny(steps=10, **{"projections.patience": 9}), {LAMBDA: [0.0, 1.0], PROXIES: [1]}, build=build).run()
    assert grid.figures()[0, 0] == grid.figures()[1, 0]
    panel = SettingGrid(grid, explore=False)
    assert "In 2 of 2 runs no second problem began, so that λ had nothing to do." in panel.notice.value
    panel.close()


def test_closing_ends_the_thread_and_leaves_nothing(build):
    from ipywidgets.widgets.widget import _instances

    def once():
        grid = Grid(tiny(steps=10**6), {LAMBDA: [0.0], PROXIES: [1]}, build=build)
        panel = SettingGrid(grid)
        panel.start()
        panel.close()
        return weakref.ref(panel), weakref.ref(grid)

    once()
    gc.collect()
    before = len(_instances)
    gone = once()
    gc.collect()
    assert [each() for each in gone] == [None, None] and len(_instances) == before
    assert not [t for t in threading.enumerate() if t.name == "labkit grid"]


def test_two_panels_of_two_grids_are_independent(build):
    grids = [Grid(tiny(steps=10, seed=s), {LAMBDA: [0.0], PROXIES: [1]}, build=build) for s in (0, 1)]
    one, two = (SettingGrid(grid, explore=False) for grid in grids)
    one.start()
    grids[0].join()
    one.refresh()
    two.refresh()
    assert not math.isnan(values(one)[0, 0]) and math.isnan(values(two)[0, 0])
    one.close()
    two.close()


def test_what_is_refused(lambda_by_k):
    with pytest.raises(LabError, match=r"labkit.training.Grid.*Grid\(experiment"):
        SettingGrid("lambda-by-k")
    with pytest.raises(LabError, match="measure"):
        SettingGrid(lambda_by_k, measure="accuracy")
    with pytest.raises(LabError, match="explore"):
        SettingGrid(lambda_by_k, explore="no")
