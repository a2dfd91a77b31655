"""Panels are freed when they are closed, tell what a user did wrong, and give way to a later run of their cell."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import ipywidgets
import pytest
from plotly.basedatatypes import Undefined

from labkit.errors import LabError
from labkit.panels import common


class Small(common.Panel):
    """A panel with a figure, a slider, and a method that can fail."""

    def __init__(self) -> None:
        super().__init__(common.Figure([{"type": "scattergl", "x": [0], "y": [1]}]))
        self.slider = ipywidgets.IntSlider(max=9)
        common.on_value(self.slider, self.guarded(self.moved))
        self.figure.data[0].on_click(self.guarded(lambda *_: self.moved()))
        self.assemble(common.row(self.slider, common.button("Go", self.guarded(self.moved))), help_text="<p>Move it.</p>")

    def moved(self) -> None:
        """Fails at 3."""
        if self.slider.value == 3:
            raise LabError("slider", "anything but 3", "<3>")
        self.say_notice(f"now at {self.slider.value} < 9")


def test_a_batch_says_for_every_trace_what_it_has():
    """A trace that does not change a property which another one does would lose it on the page."""
    figure = common.Figure(
        [{"marker": {"color": "red"}, "x": [0]}, {"marker": {"color": "blue"}}, {"line": {"width": 3}}]
    )
    sent = []
    figure._send_update_msg = lambda **message: sent.append((message["restyle_data"], message["trace_indexes"]))
    with figure.batch_update():
        figure.data[0].marker.color = "green"
        figure.data[1].x = [5]
        figure.data[2].x = [6]
    ((restyle, traces),) = sent
    assert list(traces) == [0, 1, 2]
    assert restyle["marker.color"][:2] == ["green", "blue"] and restyle["marker.color"][2] is Undefined
    assert [list(v) for v in restyle["x"]] == [[0], [5], [6]]
    assert figure.data[1].marker.color == "blue" and tuple(figure.data[0].x) == (0,)
    figure.close()


def test_the_state_that_a_page_asks_for_is_the_present_one():
    figure = common.Figure()
    figure.add_scatter(x=[1], y=[2])
    figure.data[0].x = [5]
    figure.layout.title.text = "now"
    state = figure.get_state()
    assert [list(trace["x"]) for trace in state["_widget_data"]] == [[5]]
    assert state["_widget_layout"]["title"] == {"text": "now"}
    assert set(figure.get_state("_config")) == {"_config"}
    figure.close()


def open_widgets() -> int:
    from ipywidgets.widgets.widget import _instances

    return len(_instances)


def test_a_closed_panel_leaves_no_widget_and_is_collected():
    Small().close()  # whatever is made once for all panels is there now
    gc.collect()
    before = open_widgets()
    panel = Small()
    assert open_widgets() > before + 5
    watched = [weakref.ref(panel), weakref.ref(panel.figure), weakref.ref(panel.slider)]
    panel.close()
    del panel
    gc.collect()
    assert [reference() for reference in watched] == [None, None, None]
    assert open_widgets() == before


def test_a_mistake_is_shown_in_the_panel_until_the_next_change():
    panel = Small()
    panel.slider.value = 3
    assert "anything but 3; got &lt;3&gt;." in panel.message.value and 'role="alert"' in panel.message.value
    panel.slider.value = 4
    assert panel.message.value == "" and "now at 4 &lt; 9" in panel.notice.value
    panel.close()


def test_a_method_raises_what_a_widget_would_only_show():
    panel = Small()
    panel.slider.value = 3
    panel.say_error(None)
    with pytest.raises(LabError, match="anything but 3"):
        panel.moved()
    assert panel.message.value == ""
    panel.close()


def test_close_all_frees_what_lies_below_with_layouts_and_styles():
    from ipywidgets.widgets.widget import _instances

    before = set(_instances)
    common.close_all(common.row(ipywidgets.HTML("a"), ipywidgets.VBox([common.button("b", print)])))
    assert set(_instances) == before


def test_a_later_run_of_the_cell_closes_the_panels_of_the_earlier_one(monkeypatch):
    run = ["cell a", "run 1"]
    monkeypatch.setattr(common, "_running_cell", lambda: tuple(run))
    first, second = Small(), Small()
    run[:] = "cell b", "run 2"
    other = Small()
    run[:] = "cell a", "run 3"
    third = Small()
    assert [p.comm is None for p in (first, second, other, third)] == [True, True, False, False]
    for panel in (other, third):
        panel.close()


def test_outside_a_notebook_nothing_is_closed():
    assert common._running_cell() == ("", "")
    first, second = Small(), Small()
    assert first.comm is not None and second.comm is not None
    first.close(), second.close()


def test_importing_the_room_loads_no_widgets():
    program = "import labkit.panels, sys; print('ipywidgets' in sys.modules, 'plotly' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_name_that_is_no_panel():
    import labkit.panels

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = labkit.panels.Nothing
    assert set(labkit.panels.__all__) <= set(dir(labkit.panels))
