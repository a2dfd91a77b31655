"""The playground in JupyterLab: every control used as a user would, and what that does to run and picture."""

from __future__ import annotations

import time

import numpy as np

from tests.browser.lab import PATIENCE
from tests.browser.notebook import until

SETTINGS = """{"data.source": "digits-8x8", "sample_size": 100, "evaluate_every": 10, "data.samples_per_class": 4,
    "projections.pool_size": 8}"""
IMPORT = f"from labkit.panels import Playground\nsmall = {SETTINGS}"


def opened(open_notebook, *cells):
    book = open_notebook(IMPORT, *cells)
    book.run()
    book.until_live()
    return book


def press(book, label, key, times=1):
    """Focus a slider by its label and press a key, as a user without a mouse does."""
    handle = book.page.locator(".widget-slider", has=book.page.locator(".widget-label", has_text=label)).locator(".noUi-handle")
    handle.first.focus()
    for _ in range(times):
        book.page.keyboard.press(key)


def choose(book, label, option):
    """Pick an entry of a menu by its label."""
    menu = book.page.locator(".widget-dropdown", has=book.page.locator(".widget-label", has_text=label))
    menu.locator("select").first.select_option(label=option)


def agrees(book, panel="panel"):
    """Whether the page shows the scene and the curves that the kernel's panel shows."""
    kernel = f"{panel}.figure.scene"
    mine = book.value(
        f"{kernel}.step, [float(v) for part in ({kernel}.samples, {kernel}.proxies, {kernel}.chosen) for v in part.ravel()],"
        f" {panel}.figure.course.steps.tolist(), {panel}.figure.course.values['loss'].tolist()[1:]"
    )
    at = book.value("[p for p in ('panel', 'other') if p in globals()]").index(panel)
    picture = book.live()[at]
    theirs = picture["step"], picture["samples"] + picture["proxies"] + picture["chosen"], picture["steps"], picture["loss"][1:]
    if mine[0] != theirs[0] or len(mine[1]) != len(theirs[1]) or mine[2] != theirs[2]:
        return False
    near = [abs(a - b) < 2e-3 for a, b in zip(mine[1] + mine[3], theirs[1] + theirs[3], strict=True)]
    return all(near)


def until_agrees(book, panel="panel"):
    deadline = time.monotonic() + PATIENCE
    while not agrees(book, panel):
        assert time.monotonic() < deadline, "the page does not show what the kernel's panel shows"
        book.page.wait_for_timeout(100)


def lonely(book):
    """The sample that stands farthest from every proxy and every ring, so that the pointer finds no other mark there."""
    picture = book.live()[0]
    samples, others = (np.array(values).reshape(-1, 2) for values in (picture["samples"], picture["proxies"] + picture["chosen"]))
    return int(np.linalg.norm(samples[:, None] - others, axis=-1).min(axis=1).argmax())


def test_play_change_scrub_and_export(open_notebook, tmp_path):
    book = opened(open_notebook, 'panel = Playground("collapse", **small)\npanel')
    assert book.value("panel.session.snapshot.step") == 0 and agrees(book)
    # play, pause, step, next problem
    book.click("Play")
    book.until("panel.session.snapshot.step >= 30")
    book.click("Pause")
    book.until("panel.session.state == 'paused'")
    at = book.value("panel.session.snapshot.step")
    book.click("25 steps")
    book.until(f"panel.session.snapshot.step == {at + 25}")
    book.page.locator("button.jupyter-button", has_text="Step").filter(has_not_text="25").first.click()
    book.until(f"panel.session.snapshot.step == {at + 26}")
    book.until("panel.session.settle(0) and panel._drawn[0] == panel.session.version")
    until_agrees(book)
    evaluated = book.value("int(panel.session.snapshot.metrics['step'][-1])")
    assert f"Curves up to step {evaluated}. At step {evaluated}: loss " in book.live()[0]["told"]
    book.click("Next problem")
    book.until("panel.session.snapshot.problem() == 2")
    book.until("panel.session.settle(0)")
    until_agrees(book)
    assert len(book.live()[0]["chosen"]) == 80 and book.live()[0]["chosenBy"] == "start of this problem (K-Center)"
    # every control that acts at once, by keyboard, while it trains
    book.click("Play")
    moved = {
        "Learning rate": "optimizer.learning_rate", "λ": "projections.projection_weight",
        "Pool size": "projections.pool_size", "Margin m⁺": "loss.options.pos_margin",
        "Margin m⁻": "loss.options.neg_margin",
    }  # fmt: skip
    for label, setting in moved.items():
        press(book, label, "ArrowRight")
        book.until(f"any(e.get('setting') == {setting!r} for e in panel.session.snapshot.events)")
    choose(book, "Selection", "random")
    book.until("panel.session.snapshot.settings.projections.selection == 'random'")
    assert book.value("panel.session.state") == "playing"
    book.click("Pause")
    book.until("panel.session.settle(0) and panel._drawn[0] == panel.session.version")
    until_agrees(book)
    assert [step for step, _ in book.live()[0]["changes"]] == book.value("[e['step'] for e in panel.session.snapshot.events]")
    # back in time
    book.page.locator(".widget-slider", has_text="Snapshot").locator(".noUi-handle").first.focus()
    book.page.keyboard.press("Home")
    book.until("panel._at == 0")
    until_agrees(book)
    assert book.live()[0]["title"].startswith("Step 0: ")
    book.page.wait_for_function("document.querySelector('.jp-OutputArea-output').innerText.includes('stored snapshot')")
    book.click("Newest")
    book.until("panel._at is None")
    until_agrees(book)
    # hover shows the picture, the legend hides a class
    book.hover(lambda: book.mark(lonely(book)), "document.querySelector('.labkit-live .tip canvas')?.checkVisibility()")
    assert "class" in book.page.text_content(".labkit-live .tip")
    book.screenshot("playground")
    name = book.page.locator(".labkit-live .legend button", has_text="3").first
    name.press("Space")
    assert name.get_attribute("aria-pressed") == "false"
    name.press("Space")
    assert name.get_attribute("aria-pressed") == "true"
    # export, save, code
    book.page.get_by_text("Save, share, code").click()
    book.page.locator("button.jupyter-button", has_text="Export page").wait_for()
    book.click("Export page")
    book.until("__import__('os').path.exists('playground.html')")
    book.click("Save recording")
    book.until("__import__('os').path.exists('playground.npz')")
    book.click("Copy as code")
    book.until("panel.sharing.text.value.startswith('from labkit.training')")
    # begin again, and a control that restarts
    book.click("Reset")
    book.until("panel.session.snapshot.step == 0 and panel.session.snapshot.run == 2")
    choose(book, "Loss", "Triplet")
    book.until("panel.session.snapshot.run == 3 and 'margin' in panel.session.snapshot.options")
    book.page.get_by_text("Margin", exact=True).wait_for()
    book.click("Stop")
    book.until("panel.session.state == 'stopped'")
    assert book.value("panel.message.value") == ""
    assert book.save() < 2_000_000
    assert book.complaints == []


def test_two_panels_one_shown_twice_and_a_cell_that_runs_again(open_notebook):
    book = opened(
        open_notebook,
        'panel = Playground("ccp", **small)\npanel',
        'other = Playground("collapse", seed=1, **small)\nother',
        "other",
    )
    book.until_live(3)
    for name in ("panel", "other"):
        book.execute(f"{name}.step(20)")
    book.until("panel.session.snapshot.step == 20 and other.session.snapshot.step == 20")
    book.execute("panel.refresh(); other.refresh()")
    until_agrees(book), until_agrees(book, "other")
    until(book.page, lambda: book.live()[1]["samples"] == book.live()[2]["samples"] != book.live()[0]["samples"])
    assert book.complaints == []
    book.execute("former, thread = panel, panel.session._thread\nformer.play()")
    book.rerun(1)
    book.until("panel is not former and former.session.state == 'stopped' and not thread.is_alive()")
    assert book.value("other.session.snapshot.step") == 20
    assert book.complaints == []


def test_an_interrupt_a_busy_cell_and_a_page_that_comes_back(open_notebook):
    book = opened(open_notebook, 'panel = Playground("ccp", **small)\npanel')
    book.save()
    book.click("Play")
    book.until("panel.session.snapshot.step >= 10")
    book.lab.ask(f"/api/kernels/{kernel_id(book)}/interrupt", "POST")
    at = book.value("panel.session.snapshot.step")
    book.until(f"panel.session.snapshot.step > {at + 5}")
    book.click("Pause")
    book.until("panel.session.state == 'paused'")
    book.click("Play")
    book.until("panel.session.state == 'playing'")
    # the tab is closed and opened again while it trains
    book.page.goto("about:blank")
    at = book.value("panel.session.snapshot.step")
    book.until(f"panel.session.snapshot.step > {at + 10}")
    book.page.goto(f"{book.lab.url}/doc/tree/{book.file}?token={book.lab.token}")
    book.until_live()
    book.click("Pause")
    book.until("panel.session.state == 'paused' and panel._drawn[0] == panel.session.version")
    until_agrees(book)


def kernel_id(book):
    return next(s["kernel"]["id"] for s in book.lab.ask("/api/sessions") if s["path"] == book.file)


def test_a_loss_that_turns_nan_offers_the_way_back(open_notebook):
    book = opened(open_notebook, 'panel = Playground("ccp", **small)\npanel')
    book.execute("panel.step(15)")
    book.until("panel.session.snapshot.step == 15")
    book.execute("panel.change('optimizer.learning_rate', 1e29)")
    book.click("Play")
    book.until("panel.session.state == 'failed'")
    alert = book.page.locator('[role="alert"]', has_text="Moved last: learning rate")
    alert.wait_for()
    book.screenshot("playground_failed")
    book.click("Go back")
    book.until("panel.session.state == 'paused' and panel.session.snapshot.step == 15")
    alert.wait_for(state="detached")
    assert book.complaints == []


def test_all_of_it_without_a_mouse(open_notebook):
    """Tab reaches the buttons in order, Space presses them."""
    book = opened(open_notebook, 'panel = Playground("ccp", **small)\npanel')
    book.page.locator("button.jupyter-button", has_text="Play").first.focus()
    book.page.keyboard.press("Space")
    book.until("panel.session.snapshot.step >= 3")
    book.page.keyboard.press("Tab")
    assert book.page.evaluate("() => document.activeElement.textContent") == "Pause"
    book.page.keyboard.press("Space")
    book.until("panel.session.state == 'paused'")
    for said in ("Step", "25 steps", "Next problem", "Reset", "Stop"):
        book.page.keyboard.press("Tab")
        assert book.page.evaluate("() => document.activeElement.textContent") == said
    unnamed = """() => [...document.querySelectorAll(".jp-OutputArea-output :is(button, select, input)")]
        .filter((e) => e.offsetParent)
        .filter((e) => !(e.textContent.trim() || e.title || e.labels?.length || e.ariaLabel || e.placeholder)).length"""
    assert book.page.evaluate(unnamed) == 0


def test_one_proxy_per_class_has_no_curve_of_its_spread(open_notebook):
    book = opened(open_notebook, 'panel = Playground("k1", **small)\npanel')
    book.execute("panel.step(13)")
    book.until("panel.session.settle(0) and panel._drawn[0] == panel.session.version")
    until_agrees(book)
    told = book.live()[0]["told"]
    assert "At step 10: loss " in told and "proxy spread (distance) one proxy per class: no spread" in told
    assert book.complaints == []


def drag(book, start, end, pane):
    """Press the mouse on a canvas of the picture (0: map, 1: curves), at shares of its width and height, and let go."""
    box = book.page.locator(".labkit-live .canvases canvas").nth(pane).bounding_box()
    places = [(box["x"] + a * box["width"], box["y"] + b * box["height"]) for a, b in (start, end)]
    book.page.mouse.move(*places[0])
    book.page.mouse.down()
    book.page.mouse.move(*places[1], steps=4)
    book.page.mouse.up()
    return places[1]


def zooms(book):
    view = "document.querySelector('.labkit-live').labkit"
    return book.page.evaluate(f"() => [{view}.map, {view}.curves].map((part) => part.drawing.zoom)")


def test_the_picture_goes_through_time_while_the_kernel_is_busy(open_notebook, tmp_path):
    book = opened(open_notebook, 'panel = Playground("ccp", **small)\npanel')
    book.execute("panel.step(60)")
    book.until("panel.session.settle(0) and panel._drawn[0] == panel.session.version")
    steps = book.value("[frame.step for frame in panel.session.snapshot.stored]")
    holds = f"() => Object.keys(document.querySelector('.labkit-live').labkit.run.stored).length === {len(steps)}"
    book.page.wait_for_function(holds)
    book.kernel.execute(f"import os, time\nwhile not os.path.exists({str(tmp_path / 'looked')!r}): time.sleep(0.05)")
    before = book.live()[0]
    press(book, "Snapshot", "Home")
    for at, step in enumerate(steps[:6]):
        if at:
            book.page.keyboard.press("ArrowRight")
        drawn = f"() => document.querySelector('.labkit-live').labkit.drawn.scene.step === {step}"
        book.page.wait_for_function(drawn)
    after = book.live()[0]
    assert after["map"] >= before["map"] + 5 and after["curves"] >= before["curves"] + 5
    assert f"At step {steps[5]}: " in book.page.locator(".labkit-live canvas").nth(1).get_attribute("aria-label")
    (tmp_path / "looked").touch()
    book.until("panel._at == 5")  # the kernel hears of it afterwards
    until_agrees(book)
    assert book.complaints == []


def test_looking_closer_and_at_one_class_alone(open_notebook):
    book = opened(open_notebook, 'panel = Playground("random", **small)\npanel')
    book.execute("panel.step(30)")
    book.until("panel.session.settle(0) and panel._drawn[0] == panel.session.version")
    until_agrees(book)
    legend = book.page.locator(".labkit-live .legend button")
    assert [legend.nth(at).inner_text() for at in (0, 9, 10, 11)] == ["0", "9", "proxies", "start of this problem (at random)"]
    book.page.locator(".labkit-live").scroll_into_view_if_needed()
    drag(book, (0.4, 0.3), (0.7, 0.6), 0)
    drag(book, (0.5, 0.5), (0.8, 0.5), 1)
    (x, y, half), (first, last) = zooms(book)
    assert 0 < half < 1 and abs(x) < 1.2 and abs(y) < 1.2 and 0 < first < last < 32
    legend.nth(12).press("Enter")  # the whole picture
    assert zooms(book) == [None, None]
    place = drag(book, (0.4, 0.3), (0.7, 0.6), 0)
    book.page.mouse.dblclick(*place)
    assert zooms(book) == [None, None]
    legend.nth(3).dblclick()
    pressed = [legend.nth(at).get_attribute("aria-pressed") for at in range(12)]
    assert pressed == ["true" if at in (3, 10, 11) else "false" for at in range(12)]
    legend.nth(3).dblclick()
    assert all(legend.nth(at).get_attribute("aria-pressed") == "true" for at in range(12))
    # the curves tell their values, the triangle what was changed
    book.execute("panel.change('optimizer.learning_rate', 0.01)")
    book.page.wait_for_function("() => document.querySelector('.labkit-live').labkit.drawn.course.changes.length === 1")
    box = book.page.locator(".labkit-live .canvases canvas").nth(1).bounding_box()
    across = book.page.evaluate("() => document.querySelector('.labkit-live').labkit.curves.drawing.across(30)")
    book.page.mouse.move(box["x"] + across, box["y"] + 27)
    book.page.wait_for_function("() => document.querySelector('.labkit-live .tip').textContent.includes('learning rate')")
    book.page.mouse.move(box["x"] + across, box["y"] + 200)
    book.page.wait_for_function("() => /step 30.*MAP@R.*0\\.\\d/.test(document.querySelector('.labkit-live .tip').textContent)")
    with book.page.expect_download() as saved:
        legend.nth(13).click()
    assert saved.value.suggested_filename == "playground.png"
    saved.value.save_as(book.screenshot("saved_picture"))
    assert book.complaints == []


def test_a_narrow_page_puts_the_curves_below_the_map(open_notebook):
    book = open_notebook(IMPORT, 'panel = Playground("ccp", **small)\npanel', viewport=(700, 1000))
    book.run()
    book.until_live()
    boxes = [book.page.locator(".labkit-live .canvases canvas").nth(at).bounding_box() for at in (0, 1)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"] and boxes[0]["width"] < 640
    book.screenshot("playground_narrow")
