"""One notebook open in JupyterLab: run, clicked, looked at, and asked in its own kernel."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.browser.lab import HARMLESS, PATIENCE, SCREENSHOTS, JupyterLab


def steady(page: Any, script: str, given: Any = None, *, seconds: float = PATIENCE) -> Any:
    """What a script gives once three looks in a row agree: on the page things may still be growing or moving."""
    deadline = time.monotonic() + seconds
    looks: list[Any] = []
    while len(looks) < 3 or any(look != looks[-1] for look in looks[-3:-1]):
        assert time.monotonic() < deadline, f"after {seconds} s still moving: {looks[-3:]}"
        page.wait_for_timeout(100)
        looks.append(page.evaluate(script, given))
    return looks[-1]


def until(page: Any, holds: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
    """Wait until something holds, while the page goes on; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"does not hold after {seconds} s"
        page.wait_for_timeout(50)


class Notebook:
    """See `tests.browser.lab` for an example. `page` is playwright's, for whatever is not covered here."""

    def __init__(self, lab: JupyterLab, context: Any, file: str, viewport: tuple[int, int]) -> None:
        self.lab, self.file = lab, file
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.set_viewport_size({"width": viewport[0], "height": viewport[1]})
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self._complain(str(error)))
        self.page.on("console", self._hear)
        self._kernel: Any = None
        self.page.goto(f"{lab.url}/doc/tree/{file}?token={lab.token}")
        self._await_kernel()

    def _hear(self, said: Any) -> None:
        if said.type == "error":
            where = said.location.get("url", "") if said.text.startswith("Failed to load resource") else ""
            self._complain(f"{said.text} {where}".strip())

    def _complain(self, text: str) -> None:
        if not any(word in text for word in HARMLESS):
            self.complaints.append(text)

    def _await_kernel(self) -> None:
        ready = """() => {
            const book = window.jupyterapp?.shell?.currentWidget;
            return book?.context?.isReady && book.sessionContext?.session?.kernel?.status === "idle";
        }"""
        self.page.wait_for_function(ready, timeout=PATIENCE * 1000)

    # ------------------------------------------------------------ cells

    def run(self, *, seconds: float = PATIENCE, allow_errors: bool = False) -> None:
        """Run all cells and wait until the kernel has done them; an exception in a cell fails the test."""
        self.page.set_default_timeout(seconds * 1000)
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.set_default_timeout(PATIENCE * 1000)
        if not allow_errors:
            errors = self.cell_errors()
            assert errors == [], errors

    def cell_errors(self) -> list[str]:
        """Name and value of the exception under each cell that has one."""
        script = """() => {
            const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
            const outputs = cells.flatMap((cell) => (cell.type === "code" ? cell.toJSON().outputs : []));
            return outputs.filter((o) => o.output_type === "error").map((o) => `${o.ename}: ${o.evalue}`);
        }"""
        return list(self.page.evaluate(script))

    def rerun(self, index: int) -> None:
        """Run one cell again, by its place in the notebook."""
        script = """async (index) => {
            window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
            window.jupyterapp.shell.currentWidget.content.deselectAll();
            await window.jupyterapp.commands.execute("notebook:run-cell");
        }"""
        self.page.evaluate(script, index)

    def save(self) -> int:
        """Save the notebook as a user would; gives the file's size in bytes."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return (self.lab.root / self.file).stat().st_size

    def leave_and_come_back(self) -> None:
        """Save, and load the page anew: what a user does who closes the tab while the kernel lives on."""
        self.save()
        self.page.reload()
        self._await_kernel()

    # ------------------------------------------------------------ Python in the same kernel

    @property
    def kernel(self) -> Any:
        """A jupyter_client of this notebook's kernel, beside JupyterLab's own."""
        if self._kernel is None:
            from jupyter_client import BlockingKernelClient

            identity = next(s["kernel"]["id"] for s in self.lab.ask("/api/sessions") if s["path"] == self.file)
            self._kernel = BlockingKernelClient(connection_file=str(self.lab.runtime / f"kernel-{identity}.json"))
            self._kernel.load_connection_file()
            self._kernel.start_channels()
        return self._kernel

    def execute(self, code: str, *, seconds: float = PATIENCE) -> None:
        """Run statements in the notebook's kernel; an exception there is one here."""
        self._answer(code, {}, seconds)

    def value(self, expression: str, *, seconds: float = PATIENCE) -> Any:
        """The value of an expression in the notebook's kernel: anything that `repr` can carry over."""
        given = self._answer("", {"value": f"repr(({expression}))"}, seconds)["user_expressions"]["value"]
        assert given["status"] == "ok", f"{expression}: {given.get('ename')}: {given.get('evalue')}"
        return ast.literal_eval(ast.literal_eval(given["data"]["text/plain"]))

    def _answer(self, code: str, expressions: dict[str, str], seconds: float) -> Any:
        message = self.kernel.execute(code, store_history=False, user_expressions=expressions)
        deadline = time.monotonic() + seconds
        while True:
            reply = self.kernel.get_shell_msg(timeout=max(0.1, deadline - time.monotonic()))
            if reply["parent_header"].get("msg_id") == message:
                content = reply["content"]
                assert content["status"] == "ok", f"{content.get('ename')}: {content.get('evalue')}"
                return content

    def until(self, expression: str, *, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true in the kernel; fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while not self.value(f"bool({expression})"):
            assert time.monotonic() < deadline, f"after {seconds} s still not true: {expression}"
            self.page.wait_for_timeout(50)

    # ------------------------------------------------------------ what is on the screen

    def drawn(self) -> list[Any]:
        """Every plotly figure on the page, in order: its traces as `data` and its axes and shapes as `layout`."""
        script = """() => [...document.querySelectorAll(".js-plotly-plot")].map((plot) => {
            const plain = (value) => ArrayBuffer.isView(value) ? Array.from(value) : value;
            const data = plot._fullData.map((t) => ({
                name: t.name, type: t.type, visible: t.visible, x: plain(t.x) ?? null, y: plain(t.y) ?? null,
            }));
            return {data, title: plot._fullLayout.title?.text ?? ""};
        })"""
        return list(self.page.evaluate(script))

    def until_drawn(self, figures: int = 1, *, seconds: float = PATIENCE) -> None:
        """Wait until so many plotly figures stand on the page, with their axes."""
        script = "(n) => document.querySelectorAll('.js-plotly-plot .main-svg').length >= n"
        self.page.wait_for_function(script, arg=figures, timeout=seconds * 1000)

    def live(self) -> list[Any]:
        """Every live picture on the page, in order: the scene and the curves that it has drawn, and how often."""
        script = """() => [...document.querySelectorAll(".labkit-live")].map(({labkit: view}) => {
            const {scene, course, map, curves} = view.drawn, plain = (values) => Array.from(values ?? []);
            return {
                map, curves, step: scene?.step, title: view.title.textContent, chosenBy: scene?.chosenBy,
                names: view.run.cast?.names,
                samples: plain(scene?.samples), proxies: plain(scene?.proxies), chosen: plain(scene?.chosen),
                steps: plain(course?.steps), loss: plain(course?.values[0]),
                changes: course?.changes ?? [], ends: course?.ends ?? [],
                label: view.map.canvas.getAttribute("aria-label"), told: view.curves.canvas.getAttribute("aria-label"),
                held: Object.keys(view.run.stored).length,
            };
        })"""
        return list(self.page.evaluate(script))

    def until_live(self, pictures: int = 1, *, seconds: float = PATIENCE) -> None:
        """Wait until so many live pictures on the page have been drawn."""
        script = "(n) => [...document.querySelectorAll('.labkit-live')].filter((p) => p.labkit.drawn.curves).length >= n"
        self.page.wait_for_function(script, arg=pictures, timeout=seconds * 1000)

    def hover(self, place: Callable[[], tuple[float, float]], shows: str, *, seconds: float = PATIENCE) -> None:
        """Point at a place until an expression is true in the page, as a user follows what still moves."""
        deadline = time.monotonic() + seconds
        while True:
            x, y = place()
            self.page.mouse.move(x - 4, y)
            self.page.mouse.move(x, y)
            self.page.wait_for_timeout(200)
            if self.page.evaluate(f"() => Boolean({shows})"):
                return
            assert time.monotonic() < deadline, f"after {seconds} s at ({x:.0f}, {y:.0f}) still not true: {shows}"

    def mark(self, sample: int, *, picture: int = 0) -> tuple[float, float]:
        """Where on the page a sample of a live picture lies, scrolled into sight."""
        self.page.locator(".labkit-live").nth(picture).scroll_into_view_if_needed()
        script = """([picture, sample]) => {
            const {map, drawn} = document.querySelectorAll(".labkit-live")[picture].labkit;
            const box = map.canvas.getBoundingClientRect(), xy = drawn.scene.samples;
            return [box.left + map.drawing.across(xy[2 * sample]), box.top + map.drawing.down(xy[2 * sample + 1])];
        }"""
        x, y = steady(self.page, script, [picture, sample])
        return float(x), float(y)

    def pixel(self, trace: int, point: int, *, figure: int = 0) -> tuple[float, float]:
        """Where on the page a point of a trace lies, scrolled into sight: for the mouse to hover or click."""
        self.page.locator(".js-plotly-plot").nth(figure).scroll_into_view_if_needed()
        script = """([figure, trace, point]) => {
            const plot = document.querySelectorAll(".js-plotly-plot")[figure];
            const full = plot._fullData[trace];
            const axis = (letter) => plot._fullLayout[(full[letter + "axis"] ?? letter).replace(letter, letter + "axis")];
            const box = plot.getBoundingClientRect(), x = axis("x"), y = axis("y");
            return [box.left + x._offset + x.d2p(full.x[point]), box.top + y._offset + y.d2p(full.y[point])];
        }"""
        x, y = steady(self.page, script, [figure, trace, point])
        return float(x), float(y)

    def click(self, text: str, *, nth: int = 0) -> None:
        """Press a panel's button by what it says."""
        self.page.locator("button.jupyter-button", has_text=text).nth(nth).click()

    def screenshot(self, name: str, *, selector: str | None = None) -> Path:
        """A picture of the page, or of the first element that a CSS selector names."""
        SCREENSHOTS.mkdir(exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        target = self.page if selector is None else self.page.locator(selector).first
        target.screenshot(path=path)
        return path

    def close(self) -> None:
        """Close the page and end the kernel."""
        if self._kernel is not None:
            self._kernel.stop_channels()
        for session in self.lab.ask("/api/sessions"):
            if session["path"] == self.file:
                self.lab.ask(f"/api/sessions/{session['id']}", "DELETE")
        self.page.close()
