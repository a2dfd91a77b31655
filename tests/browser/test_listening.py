"""A page so busy that anywidget gives up on a widget's module: it hears its kernel all the same."""

from __future__ import annotations

import pytest

from tests.browser.notebook import Notebook

# anywidget waits two seconds for a widget's module. Here it waits one millisecond, so that every module comes too late.
HURRY = "const timeout = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = (ms) => timeout(ms === 2000 ? 1 : ms);"
FIGURE = """
from labkit.panels.common import Figure
figure = Figure([{"x": [0, 1], "y": [3, 4]}])
figure
"""
PLAYGROUND = """
from labkit.panels import Playground
panel = Playground("ccp", **{"data.source": "digits-8x8", "sample_size": 100, "evaluate_every": 10, "data.samples_per_class": 4,
    "projections.pool_size": 8})
panel
"""


@pytest.fixture
def hurried(browser, jupyter_lab):
    """`hurried("a cell", …)` opens a notebook on such a page."""
    context, opened = browser.new_context(), []
    context.add_init_script(HURRY)

    def opens(*cells):
        book = Notebook(jupyter_lab, context, jupyter_lab.place(*cells), (1280, 1000))
        opened.append(book)
        return book

    yield opens
    for book in opened:
        book.close()
    context.close()


def until_x(book, values, *, plot=0):
    book.page.wait_for_function(
        "([plot, wanted]) => document.querySelectorAll('.js-plotly-plot')[plot]?._fullData?.[0]?.x?.join() === wanted",
        arg=[plot, ",".join(map(str, values))],
    )


def test_a_figure_hears_of_changes_and_of_what_came_too_early(hurried):
    book = hurried(FIGURE, "figure.data[0].x = [7, 8]", "figure")
    book.run()
    until_x(book, [7, 8])
    until_x(book, [7, 8], plot=1)
    assert book.value("figure._missed") > 0  # else the page was not late, and nothing has been tested
    for at in range(3):
        book.execute(f"figure.data[0].x = [{at}, {at + 1}]")
        until_x(book, [at, at + 1])
        until_x(book, [at, at + 1], plot=1)
    book.execute("clicked = []; figure.data[0].on_click(lambda trace, points, state: clicked.append(points.point_inds))")
    x, y = book.pixel(0, 1)
    book.page.mouse.move(x - 3, y)
    book.page.mouse.move(x, y)
    book.page.mouse.click(x, y)
    book.until("clicked == [[1]]")  # once, by one view: the figure that was begun again listens once
    assert book.complaints == []


def test_a_live_picture_and_a_copy_button_hear(hurried):
    book = hurried(PLAYGROUND)
    book.run()
    book.until_live()
    book.until("panel.figure._missed > 0")
    assert len(book.page.locator(".labkit-live").all()) == 1
    book.click("Step")
    book.until("panel.session.snapshot.step > 0")
    step = book.value("panel.session.snapshot.step")
    book.page.wait_for_function("(step) => document.querySelector('.labkit-live').labkit.drawn.scene.step >= step", arg=step)
    book.page.get_by_text("Save, share, code").click()
    book.click("Copy as code")
    book.until("'Experiment(' in panel.sharing.text.value")
    assert book.complaints == []
