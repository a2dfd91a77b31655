"""Look around in an embedding: hover for the picture, click for the neighbours, lasso for a selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets
import numpy as np

from labkit.panels.common import Figure, Panel, button, on_value, row
from labkit.panels.explored import Explored, Selection
from labkit.panels.explorer_controls import HELP, HINT, ExplorerControls
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.explorer_traces import (
    TRACES,
    blank_traces,
    explorer_notice,
    neighbour_updates,
    number_notes,
    sample_updates,
)
from labkit.plots.neighbourhood import framed, nearest_to, neighbour_gallery, selection_gallery
from labkit.plots.palette import present
from labkit.plots.projections import MOST_SAMPLES, Projection, project
from labkit.plots.reading import Floats, Ints


class EmbeddingExplorer(Panel):
    """Explore embeddings, or a recording snapshot by snapshot.

    Parameters
    ----------
    source : a Recording, or embeddings (n, D) or (T, n, D). labels : whole numbers (n,), for embeddings.
    images : uint8 pictures (n, h, w), (n, 1, h, w), (n, h, w, 3) or (n, 3, h, w); a recording brings its own.
    class_names : by label. neighbours : how many to show. seed : of the layouts that draw lots (UMAP, t-SNE).

    Attributes
    ----------
    selection : the samples in the lasso: an index for arrays, with `.indices` and, as a DataFrame, `.frame`.
    snapshot : index of the snapshot in sight. shown : (m,) rows of the samples in sight.

    Raises
    ------
    LabError : embeddings without labels, arrays that disagree, NaN, names that are no list, or `neighbours` < 1.

    Examples
    --------
    >>> explorer = EmbeddingExplorer(load_shipped("mnist-2d-ccp-seed0"))  # doctest: +SKIP
    """

    def __init__(
        self, source: Any, labels: Any = None, images: Any = None, *,
        class_names: Sequence[str] | None = None, neighbours: int = 10, seed: int = 0,
    ) -> None:  # fmt: skip
        self._data = Explored(source, labels, images, class_names)
        self._seed, self._layouts = seed, dict[str, Projection]()
        self._clicked_row: int | None = None
        self._chosen: Ints = np.zeros(0, dtype=np.int64)
        figure = Figure(blank_traces())
        super().__init__(figure)
        present(figure, "", "", width=620, height=560)
        figure.update_layout(
            dragmode="lasso", legend={"orientation": "h", "y": 0, "yanchor": "top", "yref": "container"}
        )
        samples = figure.data[TRACES["samples"]]
        samples.on_hover(lambda _, points, __: self._hovered(points.point_inds))
        samples.on_click(self.guarded(lambda _, points, __: self._clicked(points.point_inds)))
        samples.on_selection(self.guarded(lambda _, points, __: self._lassoed(points.point_inds)))
        samples.on_deselect(self.guarded(lambda *_: self._lassoed(())))
        self._outlined = self._expects_nothing = self._busy = False
        self._sent: tuple[bytes, int | None] = (b"", None)  # of the samples: which, and the class that stands out
        self.controls = ExplorerControls(self._data, neighbours)
        self._connect()
        self._lay_out()

    def _connect(self) -> None:
        c = self.controls
        on_value(c.layout, self.guarded(self._lay_out))
        for widget in (c.timeline, c.show, c.highlight, c.errors_only):
            on_value(widget, self.guarded(self._draw))
        on_value(c.anchor, self.guarded(self.show_neighbours))
        on_value(c.count, self.guarded(lambda: self.show_neighbours() if self._clicked_row is not None else None))
        buttons = [
            button("Show neighbours", self.guarded(self.show_neighbours)),
            button("Select what is shown", self.guarded(lambda: self.select(self.shown))),
            button("Clear", self.guarded(self.clear)),
        ]
        self.assemble(
            row(c.layout, c.timeline, c.when),
            row(c.highlight, c.errors_only, c.anchor, c.count, *buttons),
            beside=ipywidgets.VBox([row(c.show, c.hovered), c.gallery]),
            help_text=HELP,
        )

    @property
    def projection(self) -> Projection:
        """Where the samples lie in the present layout."""
        return self._layouts[self.controls.layout.value]

    @property
    def snapshot(self) -> int:
        """Index of the snapshot in sight."""
        return int(self.projection.snapshots[self.controls.timeline.value])

    @property
    def selection(self) -> Selection:
        """What is selected."""
        return Selection(self._chosen, self._data, self.snapshot, self._positions(self._chosen))

    def _lay_out(self) -> None:
        """Another layout, computed when it is first asked for."""
        method, data = self.controls.layout.value, self._data
        if method not in self._layouts:
            if method in ("umap", "tsne"):
                self.say_notice("The layout is being computed; the kernel is busy until it is done, up to a minute.")
            rows = data.drawn if method in ("raw", "pca") else evenly_per_class(data.codes, MOST_SAMPLES)
            self._layouts[method] = project(data.x, method, rows, seed=self._seed)
        layout = self.projection
        self._busy = True
        try:
            self.controls.timeline.max = len(layout.snapshots) - 1
            self.controls.timeline.value = self.controls.timeline.max
            self.controls.timeline.disabled = self.controls.timeline.max == 0
        finally:
            self._busy = False
        low, high = layout.xy.min(axis=(0, 1)), layout.xy.max(axis=(0, 1))
        middle, half = (low + high) / 2, 0.56 * max(float((high - low).max()), 1e-6)
        with self.figure.batch_update():
            for axis, name, at in zip(
                (self.figure.layout.xaxis, self.figure.layout.yaxis), layout.axes, middle, strict=True
            ):
                axis.update(range=[float(at - half), float(at + half)], title_text=name, constrain="domain")
            self.figure.layout.yaxis.update(scaleanchor="x", scaleratio=1)
        self._draw()

    def _draw(self) -> None:
        """Bring the picture to the present snapshot and filters; what is selected or clicked stays so."""
        if self._busy:
            return
        data, layout, c = self._data, self.projection, self.controls
        wrong = data.misread(self.snapshot, layout.rows)
        inside = np.isin(data.codes[layout.rows], c.show.value)
        if c.errors_only.value:
            inside &= wrong
        self.shown: Ints = layout.rows[inside]
        updates = sample_updates(
            self._positions(self.shown), data.codes[self.shown], self.shown, data.names, wrong[inside],
            highlight=c.standing_out, errors=not c.errors_only.value,
        )  # fmt: skip
        if self._sent == (look := (self.shown.tobytes(), c.standing_out)):
            del updates["samples"]["text"], updates["samples"]["marker"]  # as they were: scrubbing sends positions only
        self._sent = look
        when = f"step {data.steps[self.snapshot]:,}" if data.steps else f"snapshot {self.snapshot + 1} of {len(data.x)}"
        places = self._positions(layout.rows), data.codes[layout.rows]
        with self.figure.batch_update():
            self._put(updates | self._neighbour_updates())
            self.figure.layout.annotations = number_notes(*places, np.array(c.show.value, int), data.names)
            self.figure.layout.title.text = f"<b>{when}: {wrong.mean():.1%} misread</b>"
        self._mark_selection()
        c.when.value = when
        self.say_notice(explorer_notice(wrong, places[1], data.names, len(self.shown), layout.note))

    def _positions(self, rows: Ints) -> Floats:
        """Where samples lie now (m, 2); NaN for those that the layout leaves out."""
        where = np.full((len(self._data.labels), 2), np.nan)
        where[self.projection.rows] = self.projection.xy[self.controls.timeline.value]
        return where[rows]

    def _put(self, updates: dict[str, dict[str, Any]]) -> None:
        with self.figure.batch_update():
            for name, update in updates.items():
                self.figure.data[TRACES[name]].update(update)

    def _hovered(self, places: Sequence[int]) -> None:
        if places and places[0] < len(self.shown):
            i = int(self.shown[places[0]])
            words = f"class {self._data.names[self._data.codes[i]]}, sample {i}"
            picture = None if self._data.images is None else self._data.images[i]
            self.controls.hovered.value = framed(picture, words, None, size=112)

    def _clicked(self, places: Sequence[int]) -> None:
        if places and places[0] < len(self.shown):
            i = int(self.shown[places[0]])
            if self.controls.anchor.value != i:
                self.controls.anchor.value = i  # which shows its neighbours
            else:
                self.show_neighbours()

    def show_neighbours(self) -> None:
        """The nearest neighbours of the sample whose number stands under "Neighbours of"."""
        data, i = self._data, int(self.controls.anchor.value)
        self._clicked_row = i
        found, distances = nearest_to(data.x[self.snapshot], i, int(self.controls.count.value))
        self.controls.gallery.value = neighbour_gallery(i, found, distances, data.codes, data.names, data.images)
        self._put(self._neighbour_updates())

    def _neighbour_updates(self) -> dict[str, dict[str, Any]]:
        i, data = self._clicked_row, self._data
        if i is None:
            return neighbour_updates(None, np.zeros((0, 2)), np.zeros(0, bool))
        found, _ = nearest_to(data.x[self.snapshot], i, int(self.controls.count.value))
        at = self._positions(np.append(i, found))
        return neighbour_updates(at[0], at[1:], data.codes[found] == data.codes[i])

    def _lassoed(self, places: Sequence[int]) -> None:
        """The page tells what is inside the outline. Nothing is: a lasso around nothing, or our taking the outline away."""
        if places:
            self._outlined, self._expects_nothing = True, False
            self._choose(self.shown[[p for p in places if p < len(self.shown)]])
        elif self._expects_nothing:
            self._expects_nothing = False
            self._mark_selection()  # what plotly has just taken away with the outline
        else:
            self.clear()

    def select(self, rows: Any) -> None:
        """Select samples by their rows (m,), as a lasso would; LabError for what is no row."""
        self._choose(self._data.rows_among(rows))
        self._mark_selection()

    def _choose(self, rows: Ints) -> None:
        data, self._chosen = self._data, rows
        self.controls.gallery.value = selection_gallery(
            rows, data.codes, data.names, data.images, data.misread(self.snapshot, rows)
        )

    def clear(self) -> None:
        """Let go of what is selected and of the clicked sample."""
        self._chosen, self._clicked_row = np.zeros(0, dtype=np.int64), None
        self.controls.gallery.value = HINT
        self._put(self._neighbour_updates())
        self._mark_selection()

    def _mark_selection(self) -> None:
        """Let the selected samples stand out instead of the lasso's outline."""
        if self._outlined:
            self._outlined, self._expects_nothing = False, True
            self.figure.forget_outlines()
        places = np.flatnonzero(np.isin(self.shown, self._chosen)).tolist()
        with self.figure.batch_update():
            for trace in self.figure.data:
                trace.selectedpoints = None
            self.figure.data[TRACES["samples"]].selectedpoints = places if len(self._chosen) else None
