"""The harness itself: a figure drawn in the browser, a button that reaches the kernel, state and errors read back."""

from __future__ import annotations

import pytest

from tests.browser import chromium

FIGURE = """
import ipywidgets, plotly.graph_objects as go
figure = go.FigureWidget([go.Scattergl(x=[0, 1, 2], y=[3, 4, 5], mode="markers", marker={"size": 20})])
button = ipywidgets.Button(description="Shift")
button.on_click(lambda _: figure.data[0].update(x=[5, 6, 7]))
figure.data[0].on_click(lambda trace, points, state: clicked.extend(points.point_inds))
clicked = []
ipywidgets.VBox([button, figure])
"""


def test_cells_run_buttons_reach_the_kernel_and_the_figure_follows(open_notebook):
    book = open_notebook("a = 20 + 1", FIGURE)
    book.run()
    book.until_drawn()
    assert book.value("a, 'two'") == (21, "two")
    assert book.drawn()[0]["data"][0]["x"] == [0, 1, 2]
    book.click("Shift")
    book.until("figure.data[0].x[0] == 5")
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[0].x[0] === 5")
    x, y = book.pixel(0, 1)
    book.page.mouse.move(x - 3, y)
    book.page.mouse.move(x, y)
    book.page.mouse.click(x, y)
    book.until("clicked == [1]")
    assert book.screenshot("harness").stat().st_size > 1000
    assert book.save() < 100_000
    assert book.complaints == []


def test_exceptions_and_console_errors_are_told(open_notebook):
    book = open_notebook("1 / 0")
    book.run(allow_errors=True)
    assert book.cell_errors() == ["ZeroDivisionError: division by zero"]
    book.page.evaluate("() => console.error('something is wrong')")
    assert book.complaints == ["something is wrong"]


@pytest.mark.parametrize(("variable", "outcome"), [("", pytest.skip.Exception), ("required", pytest.fail.Exception)])
def test_without_a_browser_tests_are_skipped_unless_it_is_required(monkeypatch, variable, outcome):
    monkeypatch.setattr(chromium, "NAMES", ("no-such-program",))
    monkeypatch.setenv("LABKIT_BROWSER", variable)
    with pytest.raises(outcome, match="none of no-such-program is on the path"), chromium.browser():
        pass
