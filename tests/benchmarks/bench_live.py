"""The playground in a real browser on this machine: does it keep up?

    python tests/benchmarks/bench_live.py [--points 2000] [--seconds 10] [--webgl]
    python tests/benchmarks/bench_live.py --notebook notebooks/02_proxy_collapse_animation.ipynb [...]

Starts a JupyterLab and a headless Chromium (which draws without a graphics card, so both share the processor's cores with
the training), plays the preset "ccp" with the small net and prints, with the goal beside each: training steps a second,
frames a second that the page has drawn (each counted in the page, in the callback of `requestAnimationFrame` that drew
it), the median time from a key press on a slider until its mark is drawn on the curves, the time that another cell takes to
answer while it trains, frames a second while the slider over time is moved through stored snapshots by key, and how large
the saved notebook is. The playground draws without WebGL; `--webgl` starts the browser as the tests do, with a WebGL that
is computed by software, which makes whatever is drawn dearer. With fewer test pictures than asked for (the digits that a
package carries have 1,000), all are drawn; `LABKIT_DATA` names a folder with the full MNIST. With `--notebook`, instead: each
notebook as it is, run from top to bottom, and what its panels then weigh; where it has a playground named `panel`, also how
that keeps up.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.browser import chromium
from tests.browser.lab import JupyterLab
from tests.browser.notebook import Notebook

VIEW = "document.querySelector('.labkit-live').labkit"
FRAMES, CURVES = f"() => {VIEW}.drawn.map", f"() => {VIEW}.drawn.curves"
MARKS = f"() => {VIEW}.drawn.course.changes.length"


def play(book: Notebook, seconds: float) -> tuple[float, float, float]:
    """Training steps, drawn maps and drawn curves a second."""
    book.click("Play")
    book.until("panel.session.snapshot.step >= 30", seconds=60)
    began, first = time.perf_counter(), book.value("panel.session.snapshot.step")
    drawn = [book.page.evaluate(count) for count in (FRAMES, CURVES)]
    book.page.wait_for_timeout(1000 * seconds)
    steps = book.value("panel.session.snapshot.step") - first
    maps, curves = (book.page.evaluate(count) - before for count, before in zip((FRAMES, CURVES), drawn, strict=True))
    took = time.perf_counter() - began
    return steps / took, maps / took, curves / took


def latency(book: Notebook, times: int) -> float:
    """Median milliseconds from a key press on the learning rate's slider until its dashed line is drawn."""
    label = book.page.locator(".widget-label", has_text="Learning rate")
    book.page.locator(".widget-slider", has=label).locator(".noUi-handle").first.focus()
    found = []
    for _ in range(times):
        before = book.page.evaluate(MARKS)
        began = time.perf_counter()
        book.page.keyboard.press("ArrowLeft")
        book.page.wait_for_function(f"() => ({MARKS})() > {before}", polling=5, timeout=20_000)
        found.append(1000 * (time.perf_counter() - began))
        book.page.wait_for_timeout(400)
    return statistics.median(found)


def answers(book: Notebook, times: int) -> float:
    """Largest milliseconds that a cell takes to answer."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        book.value("1 + 1")
        found.append(1000 * (time.perf_counter() - began))
        book.page.wait_for_timeout(100)
    return max(found)


def scrub(book: Notebook, snapshots: int) -> float:
    """Frames a second while the slider over time is moved from snapshot to snapshot."""
    book.page.locator(".widget-slider", has_text="Snapshot").locator(".noUi-handle").first.focus()
    book.page.keyboard.press("Home")
    book.until("panel._at == 0")
    book.page.wait_for_function(f"() => Object.keys({VIEW}.run.stored).length > {snapshots}", timeout=60_000)
    drawn, began = book.page.evaluate(FRAMES), time.perf_counter()
    for _ in range(snapshots):
        book.page.keyboard.press("ArrowRight")
    wanted = book.value(f"panel.session.snapshot.stored[{snapshots}].step")
    book.page.wait_for_function(f"(step) => {VIEW}.drawn.scene.step === step", arg=wanted, polling=5, timeout=60_000)
    return float(book.page.evaluate(FRAMES) - drawn) / (time.perf_counter() - began)


def measure(book: Notebook, seconds: float) -> list[tuple[str, str, str]]:
    """Everything, as (what, how much, goal)."""
    book.run()
    book.until_live()
    points = book.value("len(panel.session.snapshot.labels)")
    steps, frames, curves = play(book, seconds)
    delay, answer = latency(book, 9), answers(book, 20)
    book.click("Pause")
    book.until("panel.session.state == 'paused'")
    every_step = "panel.session.reset(panel.session.snapshot.settings.replace(evaluate_every=1))"
    book.execute(f"{every_step}; panel.step(100)")
    book.until("len(panel.session.snapshot.stored) > 100 and panel.session.state == 'paused'", seconds=120)
    book.execute("panel.refresh()")
    rate = scrub(book, 100)
    return [
        ("points drawn", f"{points:,}", ""),
        ("training steps a second", f"{steps:.1f}", ">= 20"),
        ("frames drawn a second", f"{frames:.1f}", ">= 8"),
        ("curves drawn a second", f"{curves:.1f}", ""),
        ("slider to its mark, median", f"{delay:.0f} ms", "<= 200 ms"),
        ("another cell answers, slowest of 20", f"{answer:.0f} ms", "<= 300 ms"),
        ("scrubbing, frames a second", f"{rate:.1f}", ">= 15"),
        ("saved notebook", f"{book.save() / 1e3:.0f} kB", "< 2 MB"),
    ]


def measure_notebook(book: Notebook, seconds: float) -> list[tuple[str, str, str]]:
    """What can be told of any notebook, as (what, how much, goal)."""
    began = time.perf_counter()
    book.run(seconds=400)
    took = time.perf_counter() - began
    figures, pictures = (book.page.locator(kind).count() for kind in (".js-plotly-plot", ".labkit-live"))
    rows = [
        ("run from top to bottom", f"{took:.0f} s", ""),
        ("figures, live pictures on the page", f"{figures}, {pictures}", ""),
    ]
    if pictures:
        book.until_live()
        book.page.locator(".labkit-live").first.scroll_into_view_if_needed()
        steps, frames, _ = play(book, seconds)
        rows += [
            ("training steps a second", f"{steps:.1f}", ">= 20"),
            ("frames drawn a second", f"{frames:.1f}", ">= 8"),
            ("slider to its mark, median", f"{latency(book, 9):.0f} ms", "<= 200 ms"),
        ]
    rows.append(("another cell answers, slowest of 20", f"{answers(book, 20):.0f} ms", "<= 300 ms"))
    if pictures:
        book.click("Pause")
    return [*rows, ("saved notebook", f"{book.save() / 1e3:.0f} kB", "< 2 MB")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--webgl", action="store_true")
    parser.add_argument("--notebook", type=Path, nargs="+", default=[])
    given = parser.parse_args()
    source = "auto" if given.points > 1000 else "mnist-5k"
    call = f"Playground('ccp', sample_size={given.points}, **{{'data.source': {source!r}}})"
    cell = f"from labkit.panels import Playground\npanel = {call}\npanel"
    load: Any = os.getloadavg() if hasattr(os, "getloadavg") else ()
    print(f"{os.cpu_count()} cores; load average before: {', '.join(f'{v:.1f}' for v in load)}")
    with chromium.browser(webgl=given.webgl) as browser, tempfile.TemporaryDirectory() as folder:
        lab = JupyterLab(Path(folder))
        try:
            for path in given.notebook or [None]:
                file = lab.place(cell) if path is None else lab.place(notebook=path)
                book = Notebook(lab, browser, file, (1280, 1000))
                print("" if path is None else f"\n{path.name}")
                rows = measure(book, given.seconds) if path is None else measure_notebook(book, given.seconds)
                for what, found, goal in rows:
                    print(f"{what:38} {found:>10}   {goal}", flush=True)
                book.close()
        finally:
            lab.stop()


if __name__ == "__main__":
    main()
