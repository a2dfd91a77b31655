"""A loss under the lens: its profile and its gradient field, redrawn as its settings are dragged."""

from __future__ import annotations

import copy
import html
from functools import partial
from typing import Any

import ipywidgets
from plotly.subplots import make_subplots

from labkit.panels.common import Figure, Panel, close_all, on_value, row
from labkit.panels.lens_settings import KINDS, PRESETS, SCENES, Setting
from labkit.panels.lens_traces import CLICKED, Drawn, blank_traces, draw, readout
from labkit.plots.gradient_fields import circle_shape
from labkit.plots.palette import present
from labkit.plots.probing import check_loss, make_scene, owns_weight
from labkit.plots.reading import float_array, label_array
from labkit.validation import check_number

EXTENT = 1.2
HELP = """
<p>Left: one sample of the chosen class moves over the plane among fixed references (squares: the loss's own proxies; discs:
samples). An arrow shows where gradient descent would move it from there; the tint says who acts (blue: own class pulls,
orange: others push, violet: both); grey lines join places of equal loss. Right: the loss and its derivative against the
distance or the cosine to one reference, of the own class and of another; the marks at the bottom are the distances from
the star to the references on the left.</p>
<ul>
<li><b>Click</b> into the plane, or move the sliders <b>x</b> and <b>y</b>, to place the star. Its line is the way that 60 steps
of gradient descent take from there.</li>
<li>All controls act at once. <b>Log arrows</b> make weak forces visible.</li>
<li>The <b>presets</b> are small experiments: choose one and do what its line says.</li>
</ul>
<p>Keys: Tab goes from control to control, the arrow keys move a slider or a menu.</p>
"""
NORMALIZATIONS = (("l2 (onto the circle)", "l2"), ("lipschitz (into the ball)", "lipschitz"), ("none", None))


class LossLens(Panel):
    """Look at a loss: profile and gradient field follow its settings.

    Parameters
    ----------
    loss : a loss of your own to begin with; it joins the nine in the menu, and its numbers become fields. The panel works
        on a copy of it.
    references : (M, 2) of your own, with `reference_labels` (M,), in place of the scenes; for losses with proxies every
        class needs equally many.

    Attributes
    ----------
    loss : the loss shown. probe : (x, y) of the star. drawn : the numbers shown (`field`, `profile`, `path_from`).

    Raises
    ------
    LabError : something that is no loss, or references that do not fit it.

    Examples
    --------
    >>> LossLens()  # doctest: +SKIP
    """

    def __init__(self, loss: Any = None, references: Any = None, reference_labels: Any = None) -> None:
        self._scenes = dict(SCENES)
        if loss is not None:
            check_loss(loss)
        self._own = copy.deepcopy(loss)
        if references is not None:
            count = len(float_array("references", references, "M, 2"))
            own = label_array("reference_labels", reference_labels, count)
            scene = make_scene(None, references, own, own[0].item())
            self._scenes = {"your references": (scene.references, scene.labels), **SCENES}
        elif loss is not None and owns_weight(loss):
            scene = make_scene(loss, None, None, 0)
            self._scenes = {"the loss's own proxies": (scene.references, scene.labels), **SCENES}
        figure = Figure(
            make_subplots(
                2, 3, specs=[[{"rowspan": 2}, {}, {}], [None, {}, {}]], column_widths=[0.46, 0.27, 0.27],
                horizontal_spacing=0.07, vertical_spacing=0.08, subplot_titles=["", "own class", "another class"],
            )
        )  # fmt: skip
        for trace, at in blank_traces():
            figure.add_trace(trace, row=at[0], col=at[1])
        super().__init__(figure)
        present(figure, "Loss lens", " ", width=1120, height=470, above=30)
        figure.update_layout(showlegend=False, hovermode="closest", uirevision="same")
        figure.update_xaxes(
            title_text="sample, coordinate 1", range=[-EXTENT, EXTENT], constrain="domain", row=1, col=1
        )
        figure.update_yaxes(title_text="coordinate 2", range=[-EXTENT, EXTENT], scaleanchor="x", row=1, col=1)
        figure.data[CLICKED].on_click(self.guarded(self._clicked))
        self._busy = True
        self._controls()
        self._busy = False
        self.guarded(self._choose)()  # a loss that refuses the first scene may take another one

    def _controls(self) -> None:
        wide = {"description_width": "initial"}
        mine = [] if self._own is None else [f"yours · {type(self._own).__name__}"]
        self.kind = ipywidgets.Dropdown(options=[*mine, *KINDS], description="Loss", style=wide)
        self.scene = ipywidgets.Dropdown(options=list(self._scenes), description="Scene", style=wide)
        self.preset = ipywidgets.Dropdown(options=["–", *PRESETS], description="Preset", style=wide)
        self.label = ipywidgets.Dropdown(options=[0], description="Class of the sample", style=wide)
        self.normalize = ipywidgets.Dropdown(options=NORMALIZATIONS, description="Normalisation", style=wide)
        self.axis = ipywidgets.ToggleButtons(options=["distance", "similarity"], style={"button_width": "90px"})
        self.log_arrows = ipywidgets.Checkbox(False, description="Log arrows", indent=False, layout={"width": "auto"})
        where = {"min": -EXTENT, "max": EXTENT, "step": 0.02, "style": wide, "layout": {"width": "230px"}}
        self.x = ipywidgets.FloatSlider(-0.3, description="x", **where)
        self.y = ipywidgets.FloatSlider(-0.5, description="y", **where)
        self.sliders = row()
        self.readout = ipywidgets.HTML()
        on_value(self.kind, self.guarded(self._choose))
        on_value(self.scene, self.guarded(self._choose))
        on_value(self.preset, self.guarded(self._take_preset))
        for widget in (self.label, self.normalize, self.axis, self.log_arrows):
            on_value(widget, self.guarded(self._draw))
        for widget in (self.x, self.y):
            on_value(widget, self.guarded(self._move))
        self.assemble(
            row(self.kind, self.preset, self.scene),
            self.sliders,
            row(self.normalize, self.label, self.axis, self.log_arrows),
            row(self.x, self.y, self.readout),
            help_text=HELP,
        )

    @property
    def probe(self) -> tuple[float, float]:
        """Where the star stands."""
        return float(self.x.value), float(self.y.value)

    def place(self, x: float, y: float) -> None:
        """Put the star at (x, y), at the rim where that lies outside of the picture; LabError for what is no number."""
        across, up = check_number("x", x), check_number("y", y)
        self._busy = True
        self.x.value, self.y.value = (min(max(at, -EXTENT), EXTENT) for at in (across, up))
        self._busy = False
        self._move()

    def _clicked(self, trace: Any, points: Any, state: Any) -> None:
        if points.xs:
            self.place(float(points.xs[0]), float(points.ys[0]))

    def _choose(self, settings: dict[str, float] | None = None, normalize: str | None = None) -> None:
        """Another loss or scene: make it, with its sliders, and keep what can be kept."""
        if self._busy:
            return
        _, labels = self._scenes[self.scene.value]
        classes = sorted({int(c) for c in labels})
        self._busy = True
        try:
            if self.kind.value in KINDS:
                kind = KINDS[self.kind.value]
                self.loss: Any = kind.make(len(classes), len(labels) // len(classes))
                offered = kind.settings
            else:
                self.loss, offered = self._own, ()
            for name, value in (settings or {}).items():
                setattr(self.loss, name, value)
            if normalize is not None:
                self.loss.normalize = normalize
            former = self.sliders.children
            self.sliders.children = [self._slider(setting) for setting in offered] or self._fields()
            for slider in former:
                close_all(slider)
            self.label.options = classes
            way = getattr(self.loss, "normalize", "")
            known = way is None or (isinstance(way, str) and way in dict(NORMALIZATIONS).values())
            self.normalize.disabled = not known  # also where a loss of somebody's own means something else by the name
            self.normalize.value = way if known else "l2"
            self.axis.value = Drawn.native_axis(self.loss)
        finally:
            self._busy = False
        self._draw()

    def _slider(self, setting: Setting) -> Any:
        value = getattr(self.loss, setting.attribute)
        options = {"min": setting.low, "max": setting.high, "step": setting.step, "description": setting.text,
                   "style": {"description_width": "initial"}, "layout": {"width": "300px"}, "readout_format": ".3g"}  # fmt: skip
        kind = ipywidgets.FloatLogSlider if setting.log else ipywidgets.FloatSlider
        slider = kind(value, **options)
        on_value(slider, self.guarded(partial(self._set_from, setting.attribute, slider)))
        return slider

    def _fields(self) -> list[Any]:
        """For a loss of the user's own: a field for each of its numbers."""
        made = []
        for name, value in getattr(self.loss, "__dict__", {}).items():
            if isinstance(value, float) and not name.startswith("_"):
                box = ipywidgets.FloatText(value, description=name, style={"description_width": "initial"})
                on_value(box, self.guarded(partial(self._set_from, name, box)))
                made.append(box)
        return made

    def _set_from(self, name: str, widget: Any) -> None:
        setattr(self.loss, name, widget.value)
        self._draw()

    def _take_preset(self) -> None:
        if self.preset.value == "–" or self._busy:
            return
        preset = PRESETS[self.preset.value]
        self._busy = True
        self.kind.value, self.scene.value = preset.loss, preset.scene
        self.x.value, self.y.value = preset.probe
        self._busy = False
        self._choose(preset.settings, preset.normalize)

    def _draw(self) -> None:
        """Compute everything anew and bring the figure up to date."""
        if self._busy:
            return
        if not self.normalize.disabled:
            self.loss.normalize = self.normalize.value
        references, labels = self._scenes[self.scene.value]
        self.drawn = Drawn.of(self.loss, references, labels, self.label.value, self.axis.value, EXTENT)
        self._show()

    def _move(self) -> None:
        """The star was moved: the field stays."""
        if not self._busy and hasattr(self, "drawn"):
            self._show()

    def _show(self) -> None:
        path = self.drawn.path_from(self.probe)
        with self.figure.batch_update():
            draw(self.figure, self.drawn, path, log=self.log_arrows.value)
            self.figure.layout.shapes = [circle_shape() | {"xref": "x", "yref": "y"}, *self.drawn.shapes()]
        self.readout.value = f'<span role="status">{html.escape(readout(self.drawn, self.probe))}</span>'
        preset = PRESETS.get(self.preset.value)
        shown = preset is not None and (preset.loss, preset.scene) == (self.kind.value, self.scene.value)
        self.say_notice(preset.notice if shown and preset is not None else self.drawn.notice)
