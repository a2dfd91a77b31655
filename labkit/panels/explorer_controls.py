"""The explorer's controls, not yet connected to anything."""

from __future__ import annotations

import ipywidgets

from labkit.panels.explored import Explored
from labkit.validation import check_number

LAYOUTS = {"2-D as it is": "raw", "PCA": "pca", "UMAP (some seconds)": "umap", "t-SNE (some seconds)": "tsne"}
HELP = """
<ul>
<li><b>Point</b> at a sample to see its picture. <b>Click</b> it, or type its number under "Neighbours of", to see its
nearest neighbours in all dimensions: a solid frame and a tick where the class is the same, a dashed frame and a cross
where it is not; rings and crosses show where they lie.</li>
<li><b>Lasso</b>: draw around samples; <code>explorer.selection</code> is then an index for your arrays, and
<code>explorer.selection.frame</code> a table. "Select what is shown" does it without the mouse, with the filters
beside it also exactly. "Clear" lets go.</li>
<li><b>Show</b> some classes only (hold Ctrl for several), let one <b>stand out</b>, or see <b>errors only</b>: samples
whose nearest neighbour is of another class.</li>
<li><b>Layout</b>: UMAP and t-SNE take up to a minute the first time, and the kernel is busy meanwhile. They lay out at
most 500 samples of five snapshots, tied to each other, so that a sample keeps its place while the timeline moves.</li>
</ul>
"""
NOBODY = -1  # a menu loses sight of an entry whose value is None
HINT = "<i>Click a sample to see its neighbours here, or draw around some.</i>"


class ExplorerControls:
    """Widgets by name. `layout`, `timeline` and `when` say what is drawn; `show`, `highlight` and `errors_only` filter it;
    `anchor` and `count` ask for neighbours; `hovered` and `gallery` hold pictures."""

    def __init__(self, data: Explored, neighbours: int) -> None:
        neighbours = int(check_number("neighbours", neighbours, low=1, whole=True))
        wide = {"description_width": "initial"}
        last = len(data.labels) - 1
        known = {name: way for name, way in LAYOUTS.items() if way != "raw" or data.x.shape[2] == 2}
        classes = [(name, code) for code, name in enumerate(data.names)]
        self.layout = ipywidgets.Dropdown(options=known, description="Layout", style=wide)
        self.timeline = ipywidgets.IntSlider(
            0, 0, 0, description="Snapshot", style=wide, readout=False, layout={"width": "420px"}
        )
        self.when = ipywidgets.Label()
        self.show = ipywidgets.SelectMultiple(
            options=classes, value=[c for _, c in classes], rows=min(len(classes) + 1, 11), description="Show", style=wide,
            layout={"width": "150px"},
        )  # fmt: skip
        self.highlight = ipywidgets.Dropdown(
            options=[("none", NOBODY), *classes], description="Stand out", style=wide, layout={"width": "190px"}
        )
        self.errors_only = ipywidgets.Checkbox(False, description="Errors only", indent=False, layout={"width": "auto"})
        self.anchor = ipywidgets.BoundedIntText(
            0, 0, last, description="Neighbours of", style=wide, layout={"width": "190px"}
        )
        self.count = ipywidgets.BoundedIntText(
            min(neighbours, last), 1, min(50, last), description="how many", style=wide, layout={"width": "130px"}
        )
        self.hovered = ipywidgets.HTML("<i>Point at a sample to see it here.</i>", layout={"min_height": "150px"})
        self.gallery = ipywidgets.HTML(HINT, layout={"width": "520px"})

    @property
    def standing_out(self) -> int | None:
        """The class that stands out, if one does."""
        value = self.highlight.value
        return None if value == NOBODY else int(value)
