"""`labkit lab --app`: the page that a class sees, served on loopback, without code, with panels that answer."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.browser.lab import HARMLESS, PATIENCE, ROOT, SCREENSHOTS, _free_port

# What a shell starts in the background ignores Ctrl-C, and so would all that it starts.
HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from labkit.cli import main; main()"
ICONS = "cdn.jsdelivr.net/npm/@fortawesome"  # Voilà's page asks for icons there, and does without


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[str]:
    """The page's address."""
    assert importlib.util.find_spec("voila"), "the package voila, of the extra test"
    folder, port = tmp_path_factory.mktemp("app"), _free_port()
    places = {f"JUPYTER_{what.upper()}_DIR": what for what in ("config", "data", "runtime")} | {"IPYTHONDIR": "ipython"}
    environment = {**os.environ, **{name: str(folder / place) for name, place in places.items()}}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment |= {"PYTHONPATH": path, "JUPYTER_NO_CONFIG": "1", "JUPYTER_PREFER_ENV_PATH": "1", "LABKIT_PROFILE": "quick"}
    command = [sys.executable, "-c", HEARS_CTRL_C, "lab", "--app", "--no-browser", f"--port={port}", "--Voila.port_retries=0"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}/"
        deadline = time.monotonic() + PATIENCE
        while not _answers(f"{address}voila/static/voila.js"):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the command and the server that it waits for
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the test has failed; nothing of it stays behind
            raise


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def test_the_page_is_there_and_shows_no_code(served):
    with urllib.request.urlopen(served, timeout=PATIENCE) as answer:
        page = answer.read().decode()
    assert "Hyperparameter lab" in page and "application/vnd.jupyter.widget-view+json" in page
    assert "There was an error" not in page and "Traceback" not in page
    for code in ("import numpy", "shipped_grid(", "SettingGrid(", "Exercises", "Replace None"):
        assert code not in page


def test_panels_answer_on_the_page(served, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    complaints = []

    def heard(said):
        if said.type == "error":
            complaints.append(f"{said.text} {said.location.get('url', '')}")

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", heard)
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(served)
    page.get_by_text("The run at λ = 0.0002, K = 8").wait_for()
    own = "[...document.querySelectorAll('.js-plotly-plot')].find((p) => p._fullData?.[0]?.z?.length === 2)"
    is_map = "p._fullData?.[0]?.z?.length === 5 && p._fullLayout.xaxis2"
    map_of_runs = f"[...document.querySelectorAll('.js-plotly-plot')].find((p) => {is_map})"
    page.wait_for_function(f"() => {map_of_runs}")
    script = f"""() => {{
        const plot = {map_of_runs};
        plot.scrollIntoView({{block: "center"}});
        const {{xaxis: x, yaxis: y}} = plot._fullLayout, box = plot.getBoundingClientRect();
        return [box.left + x._offset + x.d2p(2), box.top + y._offset + y.d2p(4)];
    }}"""
    opened = page.get_by_text("The run at λ = 100, K = 4")
    for _ in range(20):  # what stands above may still be growing, and then the cell is no longer where it was
        page.wait_for_timeout(500)
        x, y = page.evaluate(script)
        page.mouse.move(x - 5, y)
        page.mouse.move(x, y)
        page.mouse.click(x, y)
        page.wait_for_timeout(2000)
        if opened.count():
            break
    opened.wait_for()
    page.wait_for_timeout(1500)
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "app.png")
    page.get_by_role("button", name="Start", exact=True).last.click()
    page.get_by_text("4 of 4 cells done").wait_for()
    page.wait_for_function(f"() => {own}?._fullData[0].z.flat().every((v) => v !== null)")
    page.screenshot(path=SCREENSHOTS / "app-whole.png", full_page=True)
    page.close()
    assert [said for said in complaints if not any(word in said for word in (*HARMLESS, ICONS))] == []
