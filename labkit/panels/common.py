"""What every panel is made of: a box that can be closed, its help fold, its line of what to notice, and one figure."""

from __future__ import annotations

import html
import json
import sys
import weakref
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, ParamSpec, TypeVar

import ipywidgets
import plotly
import plotly.graph_objects as go
from plotly.basedatatypes import Undefined
from plotly.serializers import custom_serializers

from labkit.errors import LabError
from labkit.panels.listening import Listening, listening_module
from labkit.plots.palette import FONT

P = ParamSpec("P")
T = TypeVar("T")
_TEXT = f"font-family:{FONT};font-size:13px;line-height:1.45;max-width:980px"

# plotly's own module is loaded once a page, however many figures there are: it is five megabytes.
_PLOTLY = """
const source = %s, version = %s;
async function load() {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try { return (await import(address)).default; } finally { URL.revokeObjectURL(address); }
}
async function plotlyFigure() {
  const loaded = (globalThis.labkitPlotly ??= {});
  const figure = await (loaded[version] ??= load());
  return typeof figure === "function" ? figure() : figure;
}
"""


def _plotly_module() -> str:
    source = json.dumps(str(go.FigureWidget._esm), ensure_ascii=False)
    return listening_module("plotlyFigure", _PLOTLY % (source, json.dumps(plotly.__version__)))


class Figure(Listening, go.FigureWidget):  # type: ignore[misc]
    """A FigureWidget that is freed with its panel, hears its kernel, and keeps its colours.

    plotly gives its JavaScript as a file, and anywidget then ties every figure to the file for as long as the kernel
    lives (anywidget issue 929). Given as text it ties nothing.

    A `batch_update` sends one table of properties by traces. Where a trace does not change a property that another one
    does, the page's copy of the figure loses it: here the table says what the trace has instead.

    A page that is opened again asks for the figure's state, which plotly brings up to date only where the figure itself is
    displayed, not where it stands in a box: here the state is always the present one.
    """

    _esm = _plotly_module()

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """The widget's state, with the traces and the layout as they are now where more than one name is asked for."""
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        if not isinstance(key, str) and hasattr(self, "_layout_obj"):
            now = {"_widget_data": self._data, "_widget_layout": self._layout_obj._props}
            asked = {name: value for name, value in now.items() if name in state}
            state |= {name: custom_serializers["to_json"](deepcopy(value), self) for name, value in asked.items()}
        return state

    def _build_update_params_from_batch(self) -> Any:
        restyle, relayout, traces = super()._build_update_params_from_batch()
        for path, values in restyle.items():
            for place, trace in enumerate(traces):
                if values[place] is Undefined:
                    values[place] = _at(self._data[trace], path)
        return restyle, relayout, traces

    def forget_outlines(self) -> None:
        """Take away what was drawn with lasso or box, which would select anew whenever the figure changes.

        The page keeps these outlines to itself, so that setting `layout.selections` to nothing seems no change here.
        """
        self._send_relayout_msg({"selections": []})


def _at(properties: Any, path: str) -> Any:
    """What a trace has at a path such as "marker.line.color"; `Undefined` where it has nothing."""
    for name in path.replace("[", ".").replace("]", "").split("."):
        properties = properties.get(name) if isinstance(properties, dict) else None
    return Undefined if properties is None else properties


class Panel(ipywidgets.VBox):  # type: ignore[misc]
    """A panel: naming it in a cell displays it, once or several times; `close()` removes it and frees what it holds.

    Running a notebook's cell again closes the panels that its earlier run made.

    Attributes
    ----------
    figure : the panel's only figure, a FigureWidget.
    notice : the line of what to notice. message : the line of what went wrong, empty while nothing did.

    A panel's methods raise what they refuse; the widgets that call them tell it in the message line.
    """

    def __init__(self, figure: Any) -> None:
        super().__init__()
        self.figure = figure
        self.notice = ipywidgets.HTML()
        self.message = ipywidgets.HTML()
        _take_the_place_of_former(self)

    def assemble(self, *rows: Any, help_text: str, beside: Any = None) -> None:
        """Stack rows of widgets, the notice, the message, the figure (`beside` at its right) and the help fold."""
        middle = self.figure
        if beside is not None:
            middle = row(self.figure, beside)
            middle.layout.align_items = "flex-start"
        self.children = (*rows, self.notice, self.message, middle, help_fold(help_text))

    def say_notice(self, text: str) -> None:
        """Set what to notice: plain text, of which a screen reader is told."""
        self.notice.value = notice_line(text)

    def say_error(self, error: Exception | None) -> None:
        """Show an exception in the panel; None clears the line."""
        text = "" if error is None else html.escape(str(error))
        self.message.value = f'<div role="alert" style="{_TEXT};color:#B00020">{text}</div>' if text else ""

    def guarded(self, does: Callable[P, T]) -> Callable[P, T | None]:
        """`does` for a widget to call: a LabError goes to the message line, which is emptied first.

        What a widget calls has nobody to raise it to: without this, an error would stand in the kernel's log only.
        """

        def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
            self.say_error(None)
            try:
                return does(*args, **kwargs)
            except LabError as error:
                self.say_error(error)
                return None

        return guarded

    def close(self) -> None:
        """Take the panel off the page and free its widgets."""
        below = [widget for widget in _tree(self) if widget is not self]
        if self.comm is not None:
            self.children = ()  # off the page first: a view that outlives its widget complains on the console
        for widget in below:
            widget.close()
        super().close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, a panel>"


def notice_line(text: str) -> str:
    """The "What to notice" line as HTML; `text` is plain."""
    return f'<div role="status" style="{_TEXT}"><b>What to notice.</b> {html.escape(text)}</div>'


def help_fold(text: str) -> Any:
    """A fold that opens by mouse or keyboard; `text` is HTML of ours, never of a user's."""
    return ipywidgets.HTML(f'<details style="{_TEXT}"><summary>How to use this panel</summary>{text}</details>')


def row(*widgets: Any) -> Any:
    """Widgets side by side, onto the next line where the page is narrow."""
    return ipywidgets.HBox(widgets, layout={"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 10px"})


def button(text: str, does: Callable[[], Any], *, tooltip: str = "", style: str = "") -> Any:
    """A button that calls `does()`, which in a panel is `guarded`."""
    made = ipywidgets.Button(
        description=text, tooltip=tooltip or text, button_style=style, layout={"width": "auto", "min_width": "64px"}
    )
    made.on_click(lambda _: does())
    return made


def on_value(widget: Any, does: Callable[[], Any]) -> None:
    """Call `does()`, which in a panel is `guarded`, whenever the widget's value changes."""
    widget.observe(lambda _: does(), names="value")


def close_all(widget: Any) -> None:
    """Free a widget and everything below it, layouts and styles too: `Widget.close` frees the widget alone."""
    for each in list(_tree(widget)):
        each.close()


def _tree(widget: Any) -> Iterable[Any]:
    """A widget and everything below it, its layouts and styles too, inner ones first."""
    for child in getattr(widget, "children", ()):
        yield from _tree(child)
    for part in ("layout", "style"):
        if isinstance(own := getattr(widget, part, None), ipywidgets.Widget):
            yield own
    yield widget


# Open panels by the notebook cell that made them, with the run of the cell; a closed panel is forgotten.
_MADE_BY: dict[str, tuple[str, weakref.WeakSet[Panel]]] = {}


def _take_the_place_of_former(panel: Panel) -> None:
    """Close what an earlier run of this cell has left open."""
    cell, run = _running_cell()
    if not cell:
        return
    former_run, panels = _MADE_BY.get(cell, ("", weakref.WeakSet()))
    if former_run != run:
        for former in list(panels):
            former.close()
        panels = weakref.WeakSet()
    panels.add(panel)
    _MADE_BY[cell] = (run, panels)


def _running_cell() -> tuple[str, str]:
    """The notebook cell that is running and the run itself, as the page named them; empty outside of one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)() or {}
    cell = str(parent.get("metadata", {}).get("cellId", ""))
    return cell, str(parent.get("header", {}).get("msg_id", ""))
