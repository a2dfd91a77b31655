"""Runs beside each other: their maps at the same step, their curves over each other, and a table of both ends."""

from __future__ import annotations

from typing import Any

import ipywidgets
from plotly.subplots import make_subplots

from labkit.panels.common import Figure, Panel, button, on_value, row
from labkit.plots import marks
from labkit.plots.comparison import comparison_table, runs_of, shared_steps, snapshot_at, standing
from labkit.plots.comparison_traces import (
    CURVES,
    MOST_MAPS,
    PARTS,
    column,
    curve_axis,
    curve_traces,
    grid,
    map_positions,
    map_traces,
    remark,
    without_spread,
)
from labkit.plots.film import Film
from labkit.plots.findings import identical_until
from labkit.plots.palette import INK, plain, present

HELP = """
<p>One <b>timeline</b> moves all maps: each shows its run's last snapshot up to that step, and a line in the curves stands
where you are. Squares are the proxies; where a proxy problem ends, rings are the proxies to come and the curves have a
diamond. Drag the slider, use the arrow keys on it, or play. A click on a name in the legend hides that run's curves.</p>
<p>MAP@R is drawn by what is missing to 1, cover and spread on logarithmic axes. The table lists only the settings that
differ, and the figures of the chosen models on the test set.</p>
"""


class RunComparison(Panel):
    """Compare recorded runs.

    Parameters
    ----------
    recordings : a dict of recordings by name, a list of them, or one; at most six, of which the first four have maps.
    sample : samples drawn per map at most, evenly per class.

    Attributes
    ----------
    step : the step in sight. runs : the recordings by name. table : the settings that differ and the final figures.

    Raises
    ------
    LabError : no recordings, more than six, something that is none, or `sample` < 1.

    Examples
    --------
    >>> RunComparison({"CCP": load_shipped("mnist-2d-ccp-seed0"),
    ...                "one problem": load_shipped("mnist-2d-proxy-seed0")})  # doctest: +SKIP
    """

    _link: Any = None  # between the play button and the timeline

    def __init__(self, recordings: Any, *, sample: int = 600) -> None:
        self.runs = runs_of(recordings)
        self._steps = shared_steps(self.runs)
        self._alike = identical_until(self.runs) if len(self.runs) > 1 else ""
        self._films = {name: Film(r, sample) for name, r in list(self.runs.items())[:MOST_MAPS]}
        maps = len(self._films)
        specs = grid(maps)
        figure = Figure(
            make_subplots(
                rows=2, cols=len(specs[0]), specs=specs, row_heights=[0.66, 0.34], vertical_spacing=0.06,
                horizontal_spacing=0.06, subplot_titles=[" "] * maps,
            )
        )  # fmt: skip
        super().__init__(figure)
        self._fill(maps)
        last = len(self._steps) - 1
        self.timeline = ipywidgets.IntSlider(
            last, 0, last, description="Step", readout=False, style={"description_width": "initial"},
            layout={"width": "460px"},
        )  # fmt: skip
        self.play = ipywidgets.Play(value=last, min=0, max=last, interval=400, layout={"width": "auto"})
        self._link = ipywidgets.jslink((self.play, "value"), (self.timeline, "value"))
        self.when = ipywidgets.Label()
        self.table = ipywidgets.HTML(comparison_table(self.runs))
        on_value(self.timeline, self.guarded(self._draw))
        steps = [button("◀", lambda: self.go(-1), tooltip="one snapshot back"),
                 button("▶", lambda: self.go(1), tooltip="one snapshot on")]  # fmt: skip
        self.assemble(row(self.play, *steps, self.timeline, self.when), help_text=HELP)
        self.children = (*self.children[:-1], self.table, self.children[-1])
        self._draw()

    def close(self) -> None:
        """Take the panel off the page and free its widgets."""
        if self._link is not None:
            self._link.close()
        super().close()

    @property
    def step(self) -> int:
        """The step in sight."""
        return int(self._steps[self.timeline.value])

    def go(self, snapshots: int) -> None:
        """Move so many snapshots on, or back; to the end where there are fewer."""
        self.timeline.value = min(max(self.timeline.value + snapshots, 0), self.timeline.max)

    def _fill(self, maps: int) -> None:
        """All traces and axes; what moves gets its place from `_draw`."""
        figure = self.figure
        for place, film in enumerate(self._films.values()):
            where = {"row": 1, "col": column(place, maps, maps)}
            for trace in map_traces(film):
                figure.add_trace(trace, **where)
            marks.square_axes(figure, film.extent, film.plane, bare=True, **where)
        self._cursor = len(figure.layout.shapes)
        for place, (key, label, logarithmic) in enumerate(CURVES):
            where = {"row": 2, "col": column(place, len(CURVES), maps)}
            for trace in curve_traces(self.runs, key, logarithmic, legend=place == 0):
                figure.add_trace(trace, **where)
            figure.update_yaxes(title_font_size=12, **curve_axis(self.runs, key, label, logarithmic), **where)
            figure.update_xaxes(title_text="step", **where)
            figure.add_vline(x=0, line={"color": INK, "width": 1.5}, **where)
            if key == "proxy_spread" and (text := without_spread(self.runs)):
                figure.add_annotation(remark(text, maps + place + 1))
        present(figure, "", "", width=1060, height=640, above=45)
        figure.update_layout(legend={"orientation": "h", "y": 0, "yanchor": "bottom", "yref": "container", "x": 0})
        figure.update_layout(margin={"b": 80})

    def _draw(self) -> None:
        """Bring every map, the lines in the curves and the notice to the present step."""
        step, figure = self.step, self.figure
        with figure.batch_update():
            for place, (name, film) in enumerate(self._films.items()):
                at = snapshot_at(self.runs[name], step)
                for part, update in enumerate(map_positions(film, at)):
                    figure.data[place * len(PARTS) + part].update(update)
                caption = film.captions[at].replace(", MAP@R", "<br>MAP@R")
                figure.layout.annotations[place].update(text=f"<b>{plain(name)}</b><br>{caption}", font={"size": 12})
            for place in range(len(CURVES)):
                figure.layout.shapes[self._cursor + place].update(x0=step, x1=step)
        self.when.value = f"step {step:,}"
        self.say_notice(standing(self.runs, step) + (f" {self._alike}." if self._alike else ""))
