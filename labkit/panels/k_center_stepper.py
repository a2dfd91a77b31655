"""Greedy K-Center, one pick at a time: the ball, the farthest sample, and the radius against random and best picks."""

from __future__ import annotations

from functools import partial
from typing import Any

import ipywidgets
import numpy as np
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.panels.common import Figure, Panel, button, on_value, row
from labkit.plots.covering_figure import frame_plane, name_classes, what_marks_mean
from labkit.plots.covering_steps import CoveringSteps, class_sets, example_sets
from labkit.plots.covering_traces import TRACES, blank_traces, label_radii, notice, trace_updates
from labkit.plots.palette import plain, present
from labkit.plots.plane import Plane
from labkit.plots.reading import RecordingLike, check_recording, float_array, label_array
from labkit.validation import check_number

MOST_PICKS = 16  # of the slider, where nobody has asked for more
ALL, GIVEN = "all classes at once", "given embeddings"
HELP = """
<p>Greedy K-Center takes, again and again, the sample that is farthest from its nearest centre (the star), until it has k.
The balls around the centres all have the covering radius: the smallest with which they hold every sample.</p>
<ul>
<li><b>Next / Back</b> or the slider step through the picks; numbers over the rings are their order, given for one class
where all are shown: the one with the largest radius to begin with.</li>
<li><b>From the proxies</b>: squares are centres that are there already, as CCP starts from its converged proxies.</li>
<li><b>Pool</b>: so many samples per class are drawn to choose from (b in the CCP paper); the seed decides which.</li>
<li>On the right the radius after each pick: greedy, the band of 90 % of 50 random choices, and, for small sets, the best
possible, found exactly. Greedy never needs more than twice the best radius (dotted: half of its own).</li>
</ul>
<p>Keys: Tab goes from control to control, the arrow keys move a slider, Space presses a button.</p>
"""


class KCenterStepper(Panel):
    """Step through greedy K-Center selection.

    Parameters
    ----------
    source : a Recording (its problems' converged proxies are the initial centres), embeddings (n, D) with `labels`, or
        None for small examples only.
    labels : whole numbers (n,). proxies : (C, K, D) initial centres, for embeddings.
    k : picks to begin with. pool_size : samples drawn per class to begin with; of both, as many as there are samples at most.
    seed : of the pool and the random picks.

    Attributes
    ----------
    step : picks made. steps : the numbers shown, a `labkit.plots.covering_steps.CoveringSteps`.

    Raises
    ------
    LabError : embeddings without labels, shapes that disagree, NaN, an empty recording, or a setting out of its range.

    Reference: Algorithm 2 of "Deep Metric Learning with Chance Constraints".

    Examples
    --------
    >>> KCenterStepper(load_shipped("mnist-2d-ccp-seed0"))  # doctest: +SKIP
    """

    def __init__(
        self, source: Any = None, labels: Any = None, proxies: Any = None, *,
        k: int = 8, pool_size: int = 16, seed: int = 0,
    ) -> None:  # fmt: skip
        k, pool_size = (int(check_number(name, v, low=1, whole=True)) for name, v in (("k", k), ("pool_size", pool_size)))
        seed = int(check_number("seed", seed, low=0, high=10**6, whole=True))
        self._sources = _sources(source, labels, proxies)
        figure = Figure(make_subplots(rows=1, cols=2, column_widths=[0.54, 0.46], horizontal_spacing=0.1))
        for trace, column in blank_traces():
            figure.add_trace(trace, row=1, col=column)
        super().__init__(figure)
        present(figure, "Greedy K-Center", "what the marks mean", width=1040, height=450)
        label_radii(figure)
        self._busy = False
        self._wanted = {"picks": k, "pool": pool_size}  # also while a small set does not have as many
        self._most_picks = max(MOST_PICKS, k)
        self._controls(k, pool_size, seed)
        self._choose_source()

    def _controls(self, k: int, pool_size: int, seed: int) -> None:
        wide = {"description_width": "initial"}
        self.source = ipywidgets.Dropdown(options=list(self._sources), description="Samples", style=wide)
        self.classes = ipywidgets.Dropdown(description="Class", style=wide)
        self.pool = ipywidgets.IntSlider(pool_size, 1, pool_size, description="Pool b", style=wide, continuous_update=False)
        self.picks = ipywidgets.IntSlider(k, 1, k, description="Picks k", style=wide, continuous_update=False)
        self.seed = ipywidgets.BoundedIntText(seed, 0, 10**6, description="Seed", style=wide, layout={"width": "130px"})
        self.from_proxies = ipywidgets.Checkbox(True, description="From the proxies", indent=False)
        self.compare_random = ipywidgets.Checkbox(True, description="Random picks", indent=False)
        self.compare_best = ipywidgets.Checkbox(True, description="Best picks", indent=False)
        for box in (self.from_proxies, self.compare_random, self.compare_best):
            box.layout.width = "auto"
        self.slider = ipywidgets.IntSlider(0, 0, k, description="Step", style=wide, layout={"width": "320px"})
        self.buttons = [
            button("Start over", self.guarded(lambda: self.go(0))),
            button("◀ Back", self.guarded(lambda: self.go(self.step - 1))),
            button("Next ▶", self.guarded(lambda: self.go(self.step + 1)), style="primary"),
            button("To the end", self.guarded(lambda: self.go(self.picks.value))),
        ]
        on_value(self.source, self.guarded(self._choose_source))
        for widget, name in ((self.pool, "pool"), (self.picks, "picks")):
            on_value(widget, self.guarded(partial(self._want, name, widget)))
        for widget in (self.classes, self.seed, self.from_proxies):
            on_value(widget, self.guarded(self._restart))
        for widget in (self.slider, self.compare_random, self.compare_best):
            on_value(widget, self.guarded(self._draw))
        self.assemble(
            row(self.source, self.classes, self.from_proxies),
            row(self.pool, self.picks, self.seed, self.compare_random, self.compare_best),
            row(*self.buttons, self.slider),
            help_text=HELP,
        )

    @property
    def step(self) -> int:
        """Picks made so far."""
        return int(self.slider.value)

    def go(self, step: int) -> None:
        """Show the state after `step` picks; beyond either end, that end."""
        self.slider.value = min(max(step, 0), self.slider.max)

    def _choose_source(self) -> None:
        """Another set of samples: its classes, whether it has proxies, and the pool's bounds."""
        sets = self._sources[self.source.value](None, 0)
        self._busy = True
        try:
            self.classes.options = ([ALL] if len(sets) > 1 else []) + [s.name for s in sets]
            self.classes.value = self.classes.options[0]
            self.pool.max = most = max(len(s.points) for s in sets)
            self.pool.value = min(self._wanted["pool"], most)
            self.pool.disabled = self.source.value in example_sets()
            self.from_proxies.disabled = all(s.initial is None for s in sets)
        finally:
            self._busy = False
        self._restart()

    def _want(self, name: str, widget: Any) -> None:
        """Somebody moved the slider of the pool or of the picks."""
        if not self._busy:
            self._wanted[name] = int(widget.value)
            self._restart()

    def _restart(self) -> None:
        """Choose anew: everything but the step was changed."""
        if self._busy:
            return
        pool = None if self.pool.disabled else self.pool.value
        everything = self._sources[self.source.value](pool, self.seed.value)
        chosen = [s for s in everything if self.classes.value in (ALL, s.name)]
        most = min(len(s.points) for s in chosen)
        k = min(self._wanted["picks"], most)
        self.steps = CoveringSteps(chosen, k, use_initial=self.from_proxies.value, seed=self.seed.value)
        self._busy = True
        try:
            self.picks.max = max(1, min(self._most_picks, most))
            self.picks.value = k
            self.slider.max = k
            self.slider.value = 0
        finally:
            self._busy = False
        self._plane = Plane.of(np.concatenate([s.points for s in everything]))
        with self.figure.batch_update():
            self.figure.layout.shapes = self.figure.layout.annotations = ()
            extent = frame_plane(self.figure, self.steps, self._plane)
        name_classes(self.figure, self.steps, self._plane, extent)  # a batch would keep only the last
        self._draw()

    def _draw(self) -> None:
        """Bring the figure and the notice to the present step."""
        if self._busy:
            return
        steps, step = self.steps, self.step
        best = steps.optimum if self.compare_best.value else None
        updates = trace_updates(steps, step, self._plane, random=self.compare_random.value, best=best is not None)
        with self.figure.batch_update():
            for name, update in updates.items():
                self.figure.data[TRACES[name]].update(update, overwrite=False)
            key = f"<br><span style='font-size:12px;color:#555'>{plain(what_marks_mean(steps, step))}</span>"
            self.figure.layout.title.text = f"<b>{step} of {steps.k} picks</b>{key}"
        self.say_notice(notice(steps, step, random=self.compare_random.value, best=self.compare_best.value))


def _sources(source: Any, labels: Any, proxies: Any) -> dict[str, Any]:
    """What can be chosen: by name, a function of pool size and seed that gives a list of sets."""
    made: dict[str, Any] = {}
    if isinstance(source, RecordingLike):
        check_recording("source", source)
        float_array("source.embeddings", source.embeddings, "T, n, D")
        if source.proxies is not None:
            float_array("source.proxies", source.proxies, "T, C, K, D")
        for problem in source.problems:
            made[f"after problem {problem.index + 1}, step {problem.end:,}"] = _pool_of(
                source.embeddings[problem.snapshot], source.labels, problem.proxies, source.class_names
            )
        if not made:
            last = None if source.proxies is None else source.proxies[-1]
            made[f"step {int(source.steps[-1]):,}"] = _pool_of(
                source.embeddings[-1], source.labels, last, source.class_names
            )
    elif source is not None:
        x = float_array("source", source, "n, D")
        if labels is None:
            raise LabError("labels", f"one label per embedding, shape ({len(x)},)", "None")
        made[GIVEN] = _pool_of(x, label_array("labels", labels, len(x)), proxies, None)
        made[GIVEN](None, 0)
    for name, sets in example_sets().items():
        made[name] = lambda pool, seed, sets=sets: sets
    return made


def _pool_of(x: Any, y: Any, proxies: Any, names: Any) -> Any:
    return lambda pool, seed: class_sets(x, y, proxies, class_names=names, pool_size=pool, seed=seed)
