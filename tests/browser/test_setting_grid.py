"""The grid of two settings in the browser: it fills while it trains, a click opens a run, and it can be stopped."""

from __future__ import annotations

from tests.browser.lab import ROOT
from tests.browser.notebook import steady

NOTEBOOKS = ROOT / "notebooks"
SHIPPED = """
from labkit.panels import SettingGrid
from labkit.training import shipped_grid
panel = SettingGrid(shipped_grid("lambda-by-k"))
panel
"""
SMALL = """
from labkit.panels import SettingGrid
from labkit.training import Experiment, Grid
tiny = Experiment.preset("poc-ccp", steps=30, evaluate_every=10, sample_size=60, stop_patience=0, **{
    "data.source": "digits-8x8", "data.samples_per_class": 4, "projections.pool_size": 8, "projections.patience": 1})
grid = Grid(tiny, {"projections.projection_weight": [0.0, 0.5], "steps": [30, 10**6]})
panel = SettingGrid(grid)
panel
"""
PANEL = ".jp-OutputArea-output .widget-vbox"


def until_cells(book, script):
    """Wait until an expression of `z`, the values that plotly has drawn in the map, is true."""
    z = "document.querySelector('.js-plotly-plot')._fullData[0].z ?? [[null]]"
    book.page.wait_for_function(f"() => {{ const z = {z}; return {script}; }}")


def until_explorer(book, words):
    """Wait until the explorer below stands on the page, under the right heading."""
    book.page.get_by_text(f"The run at {words}").wait_for()
    book.until_drawn(2)
    explorer = "(plot) => plot._fullData?.length === 6 && plot._fullData[1].x?.length > 100"
    book.page.wait_for_function(f"() => [...document.querySelectorAll('.js-plotly-plot')].some({explorer})")


def test_a_click_on_a_cell_opens_its_recording(open_notebook):
    book = open_notebook(SHIPPED, viewport=(1280, 1300))
    book.run()
    until_explorer(book, "λ = 0.0002, K = 8")
    until_cells(book, "z.length === 5 && z[1].length === 4 && z.flat().every((v) => v !== null)")
    x, y = cell_at(book, row=3, column=1)
    book.page.mouse.move(x - 5, y)
    book.page.mouse.move(x, y)
    book.page.mouse.click(x, y)
    book.until("panel.chosen == (3, 1)")
    until_explorer(book, "λ = 1, K = 2")
    assert book.value("panel.explorer._data.steps[-1], panel.message.value") == (800, "")
    book.page.wait_for_timeout(800)
    book.screenshot("setting-grid", selector=PANEL)
    book.page.get_by_label("Figure").select_option("proxy spread")
    book.until("panel.measure.value == 'proxy_spread'")
    until_cells(book, "z[0][1] < 0")
    assert book.complaints == []


def test_the_keyboard_will_do_and_a_tab_opened_again_shows_the_same(open_notebook):
    book = open_notebook(SHIPPED, viewport=(1280, 1300))
    book.run()
    until_explorer(book, "λ = 0.0002, K = 8")
    sliders = book.page.get_by_role("slider")
    sliders.nth(0).focus()
    book.page.keyboard.press("ArrowRight")
    book.until("panel.chosen == (2, 3)")
    sliders.nth(1).focus()
    book.page.keyboard.press("ArrowLeft")
    book.until("panel.chosen == (2, 2)")
    until_explorer(book, "λ = 0.01, K = 4")
    book.leave_and_come_back()
    until_explorer(book, "λ = 0.01, K = 4")
    until_cells(book, "z.length === 5 && z[1].length === 4 && z.flat().every((v) => v !== null)")
    assert book.complaints == []


def test_a_grid_fills_while_it_trains_and_stops(open_notebook):
    book = open_notebook(SMALL, "panel", viewport=(1280, 1300))
    book.run()
    book.until_drawn(2)  # displayed twice
    book.page.wait_for_function("document.querySelector('.js-plotly-plot')._fullData[1].z.flat().every((v) => v === 0)")
    book.click("Start")
    until_cells(book, "z[0][0] !== null")
    book.until("grid.cell(0, 1).step > 5")
    words = "document.querySelector('.js-plotly-plot')._fullData[1].text"
    book.page.wait_for_function(f"() => {words}[0][1] === '0%'")
    book.page.locator(".heatmap-label", has_text="0%").first.wait_for()
    book.page.wait_for_timeout(400)
    book.screenshot("setting-grid-training", selector=PANEL)
    x, y = cell_at(book, row=0, column=0)
    book.page.mouse.move(x - 5, y)
    book.page.mouse.click(x, y)
    book.until("panel.chosen == (0, 0) and panel.explorer is not None")
    assert book.value("grid.running")  # looking does not disturb
    x, y = cell_at(book, row=1, column=0)
    book.page.mouse.click(x, y)  # hatched, and yet it can be chosen
    book.until("panel.chosen == (1, 0) and panel.explorer is None")
    book.click("Stop")
    book.until("not grid.running and panel.stop_button.disabled")
    book.click("Train this one next")
    book.until("grid.cell(1, 0).done and panel.explorer is not None")
    book.execute("before = panel")
    book.rerun(0)
    book.until("panel is not before and before.comm is None and not before.grid.running")
    assert book.save() < 2_000_000
    assert book.complaints == []


def cell_at(book, *, row, column):
    """Where on the page the middle of a cell lies."""
    book.page.locator(".js-plotly-plot").first.scroll_into_view_if_needed()
    script = """([row, column]) => {
        const plot = document.querySelector(".js-plotly-plot"), {xaxis: x, yaxis: y} = plot._fullLayout;
        const box = plot.getBoundingClientRect();
        return [box.left + x._offset + x.d2p(column), box.top + y._offset + y.d2p(row)];
    }"""
    x, y = steady(book.page, script, [row, column])
    return float(x), float(y)


def test_notebook_10_opens_with_its_grids(open_notebook):
    book = open_notebook(notebook=NOTEBOOKS / "10_hyperparameter_lab.ipynb", viewport=(1280, 1100))
    book.run()
    until_explorer(book, "λ = 0.0002, K = 8")
    start = book.page.get_by_role("button", name="Start", exact=True).last  # the grid of one's own
    start.scroll_into_view_if_needed()
    start.click()
    book.until("live.grid.cells[0].done")
    book.page.wait_for_timeout(500)
    book.screenshot("notebook-10")
    book.page.get_by_role("button", name="Stop", exact=True).last.click()
    book.until("not live.grid.running")
    done = book.value("[cell.done for cell in live.grid.cells]")
    assert done[0] and book.value("live.explorer is not None")
    assert book.save() < 2_000_000
    assert book.complaints == []
