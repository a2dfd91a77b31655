"""The panels in JupyterLab: buttons, keys, pointer and saving, told by the panels' state and what plotly has drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.notebook import Notebook

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
LOAD = "from labkit.training import load_shipped\nccp = load_shipped('mnist-2d-ccp-seed0')"
STAR, PICKS, BEST, NOW = 13, 14, 18, 20  # places of traces


@pytest.fixture(scope="module")
def opened(context, jupyter_lab):
    """One notebook with a stepper for the tests that leave it in order."""
    cells = f"{LOAD}\nfrom labkit.panels import KCenterStepper", "panel = KCenterStepper(ccp)\npanel"
    book = Notebook(jupyter_lab, context, jupyter_lab.place(*cells), (1280, 1000))
    book.run()
    book.until_drawn()
    yield book
    book.close()


@pytest.fixture
def book(opened):
    """The stepper at its beginning."""
    opened.execute("panel.source.value, panel.classes.value = panel.source.options[0], 'all classes at once'; panel.go(0)")
    opened.complaints.clear()
    return opened


def test_the_stepper_steps_by_button_and_by_key(book):
    assert book.value("panel.step") == 0
    ink = "() => document.querySelector('.js-plotly-plot')._fullData.map((t) => t.marker?.color)"
    assert [book.page.evaluate(ink)[at] for at in (STAR, BEST, NOW)] == ["white", "#009E73", "#222222"]
    for step in range(1, 4):
        book.click("Next")
        book.until(f"panel.step == {step}")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[14].x.length === 30")
    book.screenshot("stepper", selector=".jp-OutputArea-output .widget-vbox")
    book.page.keyboard.press("Space")  # the button still has the focus
    book.until("panel.step == 4")
    shown = "() => parseFloat([...document.querySelectorAll('[role=slider]')].at(-1).getAttribute('aria-valuenow'))"
    book.page.wait_for_function(f"({shown})() === 4")  # a key moves the slider from where the page shows it
    book.page.get_by_role("slider").last.focus()
    book.page.keyboard.press("ArrowLeft")
    book.until("panel.step == 3")
    assert book.complaints == []


def test_a_panel_is_as_it_was_when_the_tab_is_opened_again(book):
    book.execute("panel.go(3)")
    book.leave_and_come_back()
    book.until_drawn()
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[14].x.length === 30")
    book.click("Next")
    book.until("panel.step == 4")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[14].x.length === 40")
    assert book.complaints == []


def test_another_set_and_one_class_alone(book):
    book.page.get_by_label("Class").select_option("7")
    book.click("To the end")
    book.until("panel.step == 8 and len(panel.steps.sets) == 1")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[14].x.length === 8")
    book.screenshot("stepper-one-class", selector=".jp-OutputArea-output .widget-vbox")
    book.page.get_by_label("Samples").select_option("nine points on a line: greedy at its worst")
    book.until("panel.classes.value == 'line'")
    book.click("Next")
    book.click("Next")
    book.until("panel.step == 2")
    book.page.wait_for_timeout(300)
    book.screenshot("stepper-line", selector=".jp-OutputArea-output .widget-vbox")
    assert book.complaints == []


EXPLORER = "from labkit.panels import EmbeddingExplorer\nexplorer = EmbeddingExplorer(ccp)\nexplorer"


def test_the_explorer_answers_hover_click_lasso_and_filters(open_notebook):
    book = open_notebook(LOAD, EXPLORER, viewport=(1400, 1100))
    book.run()
    book.until_drawn()
    mouse = book.page.mouse
    x, y = book.pixel(1, 40)
    mouse.move(x - 30, y - 30)
    mouse.move(x, y, steps=4)
    book.until("'<img' in explorer.controls.hovered.value")
    mouse.click(x, y)
    book.until("explorer._clicked_row is not None and 'nearest are right' in explorer.controls.gallery.value")
    book.page.wait_for_timeout(500)
    book.screenshot("explorer-click", selector=".jp-OutputArea-output .widget-vbox")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[5].x.length === 1")
    box = book.page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.55), (0.02, 0.55), (0.02, 0.03)]
    places = [(box["x"] + a * box["width"], box["y"] + b * box["height"]) for a, b in corners]
    mouse.move(*places[0])
    mouse.down()
    for place in places[1:]:
        mouse.move(*place, steps=8)
    mouse.up()
    book.until("100 < len(explorer.selection) < 3000")
    assert book.value(
        "bool((explorer.selection.frame['y'] > -0.5).all()), len(explorer.selection.frame) == len(explorer.selection)"
    ) == (True, True)
    book.screenshot("explorer-lasso", selector=".jp-OutputArea-output .widget-vbox")
    book.page.get_by_label("Errors only").check()
    book.until("len(explorer.shown) < 200")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot').layout.selections.length === 0")
    assert book.value("100 < len(explorer.selection)")  # the filter takes the outline away, not what it holds
    book.click("Select what is shown")
    book.until("len(explorer.selection) == len(explorer.shown)")
    book.page.wait_for_timeout(300)
    book.screenshot("explorer-errors", selector=".jp-OutputArea-output .widget-vbox")
    assert book.complaints == []


COMPARISON = """
from labkit.panels import RunComparison
names = {"CCP": "ccp", "one problem": "proxy"}
comparison = RunComparison({name: load_shipped(f"mnist-2d-{way}-seed0") for name, way in names.items()})
comparison
"""


def test_the_comparison_moves_all_maps_by_one_timeline(open_notebook):
    book = open_notebook(LOAD, COMPARISON, viewport=(1280, 1200))
    book.run()
    book.until_drawn()
    assert book.value("comparison.step") == 2000
    book.page.get_by_role("slider").last.focus()
    book.page.keyboard.press("Home")
    book.until("comparison.step == 0")
    place = book.value("[float(comparison.figure.data[at].x[0]) for at in (0, 4)]")
    script = "(p) => [0, 4].every((at, i) => document.querySelector('.js-plotly-plot')._fullData[at].x[0] === p[i])"
    book.page.wait_for_function(script, arg=place)
    book.page.keyboard.press("ArrowRight")
    book.until("comparison.step > 0")
    book.execute("comparison.timeline.value = comparison.timeline.max // 2")
    book.page.wait_for_timeout(500)
    book.screenshot("comparison", selector=".jp-OutputArea-output .widget-vbox")
    assert book.complaints == []


def test_a_notebook_with_all_panels_is_small_and_a_cell_run_again_replaces_its_panel(open_notebook):
    stepper = "from labkit.panels import KCenterStepper\npanel = KCenterStepper(ccp)\npanel"
    book = open_notebook(LOAD, stepper, "panel", EXPLORER, COMPARISON)
    book.run()
    book.until_drawn(4)  # one of them twice
    book.execute("first = panel\npanel.go(2)")
    script = "(n) => [0, 1].every((at) => document.querySelectorAll('.js-plotly-plot')[at]._fullData[14].x.length === n)"
    book.page.wait_for_function(script, arg=20)  # both views of the panel
    assert book.save() < 2_000_000
    book.rerun(1)
    book.until("panel is not first and first.comm is None and explorer.comm is not None")
    book.page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length === 3")
    assert book.complaints == []


def test_notebook_03_opens_with_its_stepper(open_notebook):
    book = open_notebook(notebook=NOTEBOOKS / "03_k_center_and_covering_radius.ipynb")
    book.run()
    book.until_drawn(2)
    book.click("Next")
    book.until("stepper.step == 1")
    assert book.save() < 2_000_000
    assert book.complaints == []
