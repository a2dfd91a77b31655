"""The panels in JupyterLab: buttons, keys, pointer and saving, told by the panels' state and what plotly has drawn."""

from __future__ import annotations

LOAD = "from labkit.training import load_shipped\nccp = load_shipped('mnist-2d-ccp-seed0')"
STAR, PICKS, BEST, NOW = 13, 14, 18, 20  # places of traces


def stepper(open_notebook):
    book = open_notebook(f"{LOAD}\nfrom labkit.panels import KCenterStepper", "panel = KCenterStepper(ccp)\npanel")
    book.run()
    book.until_drawn()
    return book


def test_the_stepper_steps_by_button_and_by_key(open_notebook):
    book = stepper(open_notebook)
    assert book.value("panel.step") == 0
    ink = "() => document.querySelector('.js-plotly-plot')._fullData.map((t) => t.marker?.color)"
    assert [book.page.evaluate(ink)[at] for at in (STAR, BEST, NOW)] == ["white", "#009E73", "#222222"]
    for _ in range(3):
        book.click("Next")
    book.until("panel.step == 3")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[14].x.length === 30")
    book.screenshot("stepper", selector=".jp-OutputArea-output .widget-vbox")
    book.page.keyboard.press("Space")  # the button still has the focus
    book.until("panel.step == 4")
    book.page.get_by_role("slider").last.focus()
    book.page.keyboard.press("ArrowLeft")
    book.until("panel.step == 3")
    assert book.complaints == []


def test_another_set_and_one_class_alone(open_notebook):
    book = stepper(open_notebook)
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
