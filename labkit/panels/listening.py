"""Widgets that hear their kernel however long the page took to load them: the kernel's side of `labkit/assets/listening.js`."""

from __future__ import annotations

from importlib import resources
from typing import Any

import anywidget
import traitlets

MODULE = frozenset({"_esm", "_css", "_anywidget_id"})  # what a page that asks anything has already


class Listening(anywidget.AnyWidget):
    """An anywidget whose page can ask for what it missed; its module is `listening_module(…)`.

    The page sets `_missed` to a number that no other page will have thought of, and is sent the whole state, then `_told`,
    the same number.
    """

    _missed = traitlets.Int(0).tag(sync=True)
    _told = traitlets.Int(0).tag(sync=True)

    @traitlets.observe("_missed")
    def _tell_all(self, change: Any) -> None:
        if self.comm is not None:
            self.send_state([name for name in self.keys if name not in MODULE])
        self._told = change["new"]


def listening_module(make: str, *parts: str) -> str:
    """A widget's module.

    Parameters
    ----------
    make : JavaScript, a function that gives anywidget's { initialize, render }, or a promise of it.
    parts : JavaScript that stands before it.
    """
    return "\n".join([asset("listening.js"), *parts, f"export default listening({make});\n"])


def asset(name: str) -> str:
    """The text of a file in `labkit/assets`."""
    return (resources.files("labkit") / "assets" / name).read_text("utf-8")
