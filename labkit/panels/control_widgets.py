"""The playground's kinds of controls: how each shows a setting's value, and what somebody meant who moved it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import ipywidgets

_LOOK: Mapping[str, Any] = {"layout": {"width": "auto"}, "style": {"description_width": "96px"}}


class LogSlider(ipywidgets.FloatLogSlider):  # type: ignore[misc]
    """A slider over powers of ten. Where it has words for zero, its left end is zero, and says so."""

    min: Any
    max: Any

    def __init__(self, label: str, low: float, high: float, zero: str = "") -> None:
        super().__init__(
            base=10, min=low, max=high, step=0.05, readout_format=".2g", continuous_update=False, description=label, **_LOOK
        )
        self._label, self._zero = label, zero

    def meant(self) -> float:
        """The value that it stands at, as its readout shows it; 0 at its left end."""
        return 0.0 if self._zero and self.value <= self._end() else float(f"{self.value:.2g}")

    def put(self, value: float) -> None:
        """Stand at a value; where it lies beyond an end the slider is made longer."""
        if value > 0:
            steps = math.log10(value) / self.step
            below = math.floor(steps - 0.5) if self._zero else math.floor(steps + 1e-9)  # a step for zero below every value
            self.min = min(self.min, self.step * below)
            self.max = max(self.max, self.step * math.ceil(steps - 1e-9))
        self.value = value if value > 0 else self._end()
        self.say()

    def say(self) -> None:
        """Let the description say zero where it is meant, and no readout another number."""
        zero = bool(self._zero) and self.value <= self._end()
        self.description, self.readout = (self._zero, False) if zero else (self._label, True)

    def _end(self) -> float:
        return float(self.base**self.min)


def log_slider(label: str, low: float, high: float, zero: str = "") -> Any:
    """From 10 ** low to 10 ** high; `zero` : what it says at its left end, if that is zero."""
    return LogSlider(label, low, high, zero)


def whole_slider(label: str, low: int, high: int) -> Any:
    """Whole numbers."""
    return ipywidgets.IntSlider(min=low, max=high, continuous_update=False, description=label, **_LOOK)


def slider(label: str, low: float, high: float) -> Any:
    """Numbers in steps of a hundredth."""
    return ipywidgets.FloatSlider(min=low, max=high, step=0.01, continuous_update=False, description=label, **_LOOK)


def field(label: str, value: float, low: int | None = None, high: int | None = None) -> Any:
    """A field to type a number into; a whole one where there are bounds."""
    if low is None:
        return ipywidgets.FloatText(value=value, description=label, **_LOOK)
    return ipywidgets.BoundedIntText(value=value, min=low, max=high, description=label, **_LOOK)


def menu(label: str, entries: Iterable[tuple[str, str]]) -> Any:
    """Entries, each with what the menu calls it before it."""
    return ipywidgets.Dropdown(options=list(entries), description=label, **_LOOK)


def typed(widget: Any, value: Any) -> Any:
    """The value that somebody meant who moved a widget: powers of ten by two digits, anything else as it is."""
    if isinstance(widget, LogSlider):
        return widget.meant()
    return float(f"{value:.12g}") if isinstance(widget, ipywidgets.FloatSlider) else value  # its 0.57 is 0.5700000000000001


def put(widget: Any, value: Any) -> None:
    """Show a value; a slider that does not reach so far is made longer, so that it never shows another one."""
    if isinstance(widget, LogSlider):
        widget.put(value)
        return
    if hasattr(widget, "min"):
        widget.min, widget.max = min(widget.min, value), max(widget.max, value)
    widget.value = value


def grid(widgets: Iterable[Any] = ()) -> Any:
    """As many columns as there is room for."""
    columns = "repeat(auto-fill, minmax(225px, 1fr))"
    return ipywidgets.GridBox(tuple(widgets), layout={"grid_template_columns": columns, "grid_gap": "0 10px"})


def group(title: str, note: str, inside: Any) -> Any:
    """A grid under its title and a note beside it."""
    head = ipywidgets.HTML(f'<b>{title}</b> <span style="color:#555;font-size:11px">{note}</span>')
    return ipywidgets.VBox([head, inside], layout={"flex": "1 1 480px", "overflow": "hidden"})
