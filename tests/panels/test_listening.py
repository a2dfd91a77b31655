"""What a page that missed something is told when it asks."""

from __future__ import annotations

import importlib
import pkgutil

import anywidget
import pytest

import labkit.panels
from labkit.panels.common import Figure
from labkit.panels.listening import Listening, listening_module
from labkit.panels.playground_sharing import CopyButton


def told(widget, monkeypatch):
    """Messages to the page once it has said that it missed something."""
    sent = []
    monkeypatch.setattr(widget, "_send", lambda message, buffers=None: sent.append(message))
    widget.set_state({"_missed": 3})
    return [message["state"] for message in sent if message["method"] == "update"]


def test_a_figure_tells_what_it_is_now_and_then_that_it_has(monkeypatch):
    figure = Figure([{"x": [1], "y": [2]}])
    figure.data[0].x = [5]
    figure.layout.title.text = "now"
    state, done = told(figure, monkeypatch)
    assert done == {"_told": 3}
    assert [list(trace["x"]) for trace in state["_widget_data"]] == [[5]] and state["_widget_layout"]["title"] == {"text": "now"}
    assert not state["_py2js_update"]  # nothing that would be done twice
    assert not {"_esm", "_css", "_anywidget_id"} & set(state)  # five megabytes that the page has
    figure.close()


def test_every_synced_value_is_among_what_is_told(monkeypatch):
    copy = CopyButton("Copy", lambda: "", lambda allowed: None)
    copy.label = "Copy now"
    state, _ = told(copy, monkeypatch)
    assert set(state) == set(copy.keys) - {"_esm", "_css", "_anywidget_id"} and state["label"] == "Copy now"
    copy.close()


def test_a_closed_widget_tells_nothing_and_does_not_fail(monkeypatch):
    copy = CopyButton("Copy", lambda: "", lambda allowed: None)
    copy.close()
    assert told(copy, monkeypatch) == []


def widgets():
    """Every anywidget of the panels."""
    modules = [importlib.import_module(f"labkit.panels.{found.name}") for found in pkgutil.iter_modules(labkit.panels.__path__)]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    ours = [k for k in kinds if issubclass(k, anywidget.AnyWidget) and k.__module__.startswith("labkit.")]
    return sorted(ours, key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", widgets(), ids=lambda kind: kind.__name__)
def test_every_widget_of_ours_listens(kind):
    assert issubclass(kind, Listening)
    if kind is not Listening:
        assert kind._esm.startswith(listening_module("nothing").split("export default")[0])
        assert kind._esm.count("export default listening(") == 1 and "\nexport default {" not in kind._esm
