"""The loss lens in JupyterLab: dragged, clicked and worked by keys, told by its state and by what plotly has drawn."""

from __future__ import annotations

import numpy as np


def lens(open_notebook):
    book = open_notebook("from labkit.panels import LossLens", "panel = LossLens()\npanel")
    book.run()
    book.until_drawn()
    return book


def trace(book, name, *, of=None):
    """The first drawn trace of this name."""
    return next(t for t in book.drawn()[0]["data"] if t["name"] == name)


def number_of(book, name):
    return [t["name"] for t in book.drawn()[0]["data"]].index(name)


def test_a_slider_moved_by_key_changes_the_picture(open_notebook):
    book = lens(open_notebook)
    book.page.get_by_label("Loss", exact=True).select_option("Ranked list")
    book.until("panel.drawn.title == 'Ranked list'")
    handle = book.page.get_by_role("slider").nth(1)  # its margin
    handle.focus()
    before = trace(book, "own class")["y"]
    for _ in range(10):
        book.page.keyboard.press("ArrowRight")
    book.until("abs(panel.loss.margin - 0.6) < 1e-9 and panel.drawn.profile.texts['same'].endswith('0.6')")
    book.page.wait_for_function(
        "() => document.querySelector('.js-plotly-plot')._fullLayout.annotations.some((a) => a.text.includes('= 0.6'))"
    )
    after = trace(book, "own class")["y"]
    assert not np.allclose(before, after)
    book.screenshot("lens", selector=".jp-OutputArea-output .widget-vbox")
    assert book.complaints == []


def test_a_slider_dragged_by_the_mouse_is_followed(open_notebook):
    book = lens(open_notebook)
    box = book.page.locator(".noUi-handle").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = book.value("panel.loss.margin")
    book.page.mouse.move(x, y)
    book.page.mouse.down()
    book.page.mouse.move(x + 30, y, steps=6)
    book.until(f"panel.loss.margin > {before}")  # while it is still held
    book.page.mouse.up()
    book.until("abs(panel.drawn.loss.margin - panel.loss.margin) < 1e-9")
    assert book.complaints == []


def test_a_click_places_the_star(open_notebook):
    book = lens(open_notebook)
    x, y = book.pixel(number_of(book, "references, other classes"), 0)
    book.page.mouse.move(x + 25, y + 25)
    book.page.wait_for_timeout(200)
    book.page.mouse.click(x + 25, y + 25)
    book.until("panel.probe != (-0.3, -0.5)")
    scene = book.value("panel.drawn.field.scene.references[2].tolist()")
    probe = book.value("panel.probe")
    assert scene[0] < probe[0] < scene[0] + 0.5 and scene[1] - 0.5 < probe[1] < scene[1]
    book.page.wait_for_function(
        "(x) => Math.abs(document.querySelector('.js-plotly-plot')._fullData.find((t) => t.name === 'probe').x[0] - x) < 0.01",
        arg=probe[0],
    )
    assert book.complaints == []


def test_presets_and_what_a_loss_refuses(open_notebook):
    book = lens(open_notebook)
    book.page.get_by_label("Preset").select_option("ProxyGML: few proxies act")
    book.until("getattr(panel.loss, 'k', 0) == 3")
    book.page.get_by_text("three of six proxies are in the subgraph").wait_for()
    book.execute("panel.sliders.children[0].value = 0.2")
    book.page.get_by_role("alert").get_by_text("would do").wait_for()
    book.page.get_by_text("How to use this panel").click()
    book.page.get_by_text("small experiments").wait_for()
    book.screenshot("lens-refused", selector=".jp-OutputArea-output .widget-vbox")
    assert book.complaints == []


def test_the_saved_notebook_stays_small(open_notebook):
    book = lens(open_notebook)
    assert book.save() < 500_000
