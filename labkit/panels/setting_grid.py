"""Two settings at once: a grid of runs, trained while you watch or long ago, each a click away."""

from __future__ import annotations

import asyncio
import contextlib
import html
import threading
from typing import Any

import ipywidgets
import numpy as np

from labkit.errors import LabError
from labkit.panels.common import Panel, button, on_value, row
from labkit.panels.embedding_explorer import EmbeddingExplorer
from labkit.panels.playground_sharing import CopyButton
from labkit.panels.setting_grid_figure import GridFigure
from labkit.plots.setting_grid import MEASURES, what_matters
from labkit.training import Grid, Recording
from labkit.training.as_code import as_code
from labkit.training.grid_cells import Axis
from labkit.validation import check_choice, check_flag, describe

TICK = 0.25  # seconds between two looks at a grid that trains
HELP = """
<p><b>Start</b> trains the cells that are hatched, one after the other, in the background; <b>Stop</b> gives up the one at work
and keeps those that are done; Start goes on. Each cell shows how far it is, then its figure; <b>Figure</b> chooses which.</p>
<p>A click on a cell, or the two sliders (Tab, then the arrow keys), choose a run: its curves stand at the right, with dotted
lines where a proxy problem ended and all other runs in grey, and its recording opens below, to be scrubbed, hovered and
clicked. For a cell that has not been trained yet, <b>Train this one next</b> puts it first.</p>
<p>In the map all figures are those of the chosen model (best on held-out pictures) on the test pictures; covering figures and
spread are measured on the recorded sample. <b>Copy as code</b> gives the Python that repeats the chosen run.</p>
"""


class SettingGrid(Panel):
    """A heat map of runs over two settings that fills while they are trained; a click opens a run.

    Parameters
    ----------
    grid : a `labkit.training.Grid`; `shipped_grid("lambda-by-k")` is one whose runs are all there.
    measure : the figure in the map: "map_at_r", "p_at_1", "covering_max", "covering_q95" or "proxy_spread".
    explore : whether the chosen run opens in an `EmbeddingExplorer` below.

    Attributes
    ----------
    grid : the grid. chosen : (row, column) of the chosen cell. explorer : the explorer of its recording, or None.

    Raises
    ------
    LabError : no grid, or an unknown figure.

    Examples
    --------
    >>> SettingGrid(shipped_grid("lambda-by-k"))  # doctest: +SKIP
    """

    def __init__(self, grid: Grid, *, measure: str = "map_at_r", explore: bool = True) -> None:
        if not isinstance(grid, Grid):
            hint = "Grid(experiment, {setting: [value, …], setting: [value, …]}) makes one."
            raise LabError("grid", "a labkit.training.Grid", describe(grid), hint)
        check_choice("measure", measure, MEASURES)
        self.grid = grid
        self.explorer: EmbeddingExplorer | None = None
        self._explore = check_flag("explore", explore)
        self._picture = GridFigure(grid)
        super().__init__(self._picture.widget)
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._lock = threading.RLock()  # callbacks and cells may run in different threads
        self._version, self._busy = -1, False
        self._opened: Recording | None = None
        self._build_widgets(measure)
        for trace in self._picture.cells:
            trace.on_click(self.guarded(lambda _, points, __: self._clicked(points)))
        self.choose(*self._best())
        if grid.running:
            self._wake()

    def _build_widgets(self, measure: str) -> None:
        self.start_button = button(
            "Start", self.guarded(self.start), tooltip="Train the cells that are not done", style="primary"
        )
        self.stop_button = button("Stop", self.guarded(self.stop), tooltip="Give up the cell at work; what is done stays")
        self.next_button = button("Train this one next", self.guarded(self.train_next), tooltip="Begin with the chosen cell")
        self.bar = ipywidgets.FloatProgress(min=0, max=len(self.grid.cells), layout={"width": "220px"})
        self.said = ipywidgets.Label()
        self.measure = ipywidgets.Dropdown(
            options=[(what.name, key) for key, what in MEASURES.items()], value=measure, description="Figure",
            layout={"width": "290px"}, style={"description_width": "52px"},
        )  # fmt: skip
        self.row_slider, self.column_slider = _slider(self.grid.rows), _slider(self.grid.columns)
        for widget in (self.row_slider, self.column_slider):
            on_value(widget, self.guarded(lambda: None if self._busy else self.refresh()))
        on_value(self.measure, self.guarded(self.refresh))
        copy = CopyButton("Copy as code", self._show_code, self._copied, "Python that repeats the chosen run")
        self.code_text = ipywidgets.Textarea(layout={"width": "100%", "height": "130px", "display": "none"})
        self._head = ipywidgets.HTML()
        self.below = ipywidgets.VBox([self._head])
        self.assemble(
            row(self.start_button, self.stop_button, self.bar, self.said),
            row(self.measure, self.row_slider, self.column_slider, self.next_button, copy),
            help_text=HELP,
        )
        fold = self.children[-1]
        self.children = (*self.children[:-1], self.code_text, self.below, fold)

    def _best(self) -> tuple[int, int]:
        """The cell that is shown first: the highest MAP@R, or the first one where none is done."""
        figures = self.grid.figures("map_at_r")
        at = int(np.nanargmax(figures)) if np.isfinite(figures).any() else 0
        return at // figures.shape[1], at % figures.shape[1]

    # ------------------------------------------------------------ training

    def start(self) -> None:
        """Train what is not done yet."""
        self.grid.start()
        self._wake()

    def train_next(self) -> None:
        """Train the chosen cell first, or next."""
        self.grid.start(first=self.chosen)
        self._wake()

    def stop(self) -> None:
        """Give up the cell at work; what is done stays."""
        self.grid.stop()
        self.refresh()

    def _wake(self) -> None:
        """Look at the grid from the event loop until it is done; without a loop (no kernel) nobody does."""
        self.say_error(None)  # what has failed is tried anew
        self.refresh()
        if self._task is None or self._task[1].done() or not self._task[0].is_running():
            with contextlib.suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                self._task = (loop, loop.create_task(self._watch()))

    async def _watch(self) -> None:
        going = True
        while going:
            await asyncio.sleep(TICK)
            going = self.grid.running  # first, so that the last change is seen
            if self.comm is not None and (not going or self.grid.version != self._version):
                self.refresh()

    # ------------------------------------------------------------ choosing

    @property
    def chosen(self) -> tuple[int, int]:
        """Row and column of the chosen cell."""
        row, column = int(self.row_slider.index), int(self.column_slider.index)
        return row, column

    def choose(self, row: int, column: int) -> None:
        """Choose a cell, as a click on it does; LabError where there is none."""
        self.grid.cell(row, column)  # which raises
        self._busy = True
        try:
            self.row_slider.index, self.column_slider.index = row, column
        finally:
            self._busy = False
        self.refresh()

    def _clicked(self, points: Any) -> None:
        if points.xs and points.ys:
            self.choose(round(points.ys[0]), round(points.xs[0]))

    def code(self) -> str:
        """Python that repeats the chosen run."""
        experiment = self.grid.cell(*self.chosen).experiment
        return as_code(experiment, (), experiment.steps)

    def _show_code(self) -> str:
        self.code_text.layout.display = ""
        self.code_text.value = code = self.code()
        return code

    def _copied(self, allowed: bool) -> None:
        self.said.value = "Copied." if allowed else "The page may not use the clipboard: copy it from the field below."

    # ------------------------------------------------------------ the picture

    def refresh(self) -> None:
        """Bring everything to what is known now."""
        with self._lock:
            grid, cell = self.grid, self.grid.cell(*self.chosen)
            self._version = grid.version
            self._picture.draw(self.measure.value, self.chosen)
            self.bar.value = grid.progress
            self.start_button.disabled = grid.running or all(c.state == "done" for c in grid.cells)
            self.stop_button.disabled = not grid.running
            self.next_button.disabled = cell.state in ("done", "running")
            self.said.value = self._standing()
            said = what_matters(grid.figures(self.measure.value), *self._picture.sides, self.measure.value)
            self.say_notice(f"{said}. {self._idle()}")
            failed = next((c for c in grid.cells if c.error is not None), None)
            if failed is not None:
                self.say_error(RuntimeError(f"{grid.words(failed)}: {failed.error}"))
            self._open()

    def _standing(self) -> str:
        """How far the grid is, in words."""
        grid, at_work = self.grid, [c for c in self.grid.cells if c.state == "running"]
        done = f"{sum(c.done for c in grid.cells)} of {len(grid.cells)} cells done"
        return "; ".join([done, *(f"{grid.words(c)}: step {c.step:,} of {c.experiment.steps:,}" for c in at_work)])

    def _idle(self) -> str:
        """In which cells λ has had nothing to do, and that one seed is one seed."""
        grid, known = self.grid, [c.recording for c in self.grid.cells if c.recording is not None]
        single = sum(len(recording.problems) < 2 for recording in known)
        settings = (grid.rows.setting, grid.columns.setting)
        acts = f"In {single} of {len(known)} runs no second problem began, so that λ had nothing to do. "
        told = acts if single and "projections.projection_weight" in settings else ""
        seed = grid.experiment.seed
        return told + ("" if "seed" in settings or not known else f"All with seed {seed}: another seed gives other figures.")

    def _open(self) -> None:
        """The chosen run in an explorer, if it is done; another one only when another run is chosen."""
        recording = self.grid.cell(*self.chosen).recording
        if not self._explore or recording is self._opened:
            return
        self._opened, former = recording, self.explorer
        self.explorer = None if recording is None else EmbeddingExplorer(recording)
        if self.comm is not None:
            name = html.escape(self.grid.words(self.grid.cell(*self.chosen)))
            self._head.value = "" if self.explorer is None else f"<b>The run at {name}</b>"
            self.below.children = (self._head,) if self.explorer is None else (self._head, self.explorer)
        if former is not None:
            former.close()

    def close(self) -> None:
        """Stop the grid's thread, and free the panel's widgets."""
        if "grid" in self.__dict__:  # absent where the panel could not be built
            self.grid.stop()
        if task := self.__dict__.get("_task"):
            with contextlib.suppress(RuntimeError):  # a loop that is closed
                task[0].call_soon_threadsafe(task[1].cancel)
        if explorer := self.__dict__.get("explorer"):
            explorer.close()
        super().close()


def _slider(axis: Axis) -> Any:
    """A slider over an axis's values: with the keyboard, the arrow keys."""
    return ipywidgets.SelectionSlider(
        options=[(word, place) for place, word in enumerate(axis.words())], description=axis.label, continuous_update=False,
        layout={"width": "215px"}, style={"description_width": "initial"},
    )  # fmt: skip
