"""Which classes a protocol trains on, chooses by, and judges on, as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.datasets.protocols import fold_of_classes
from labkit.plots.palette import present
from labkit.plots.reading import check_pixels
from labkit.validation import check_number

USES = {"train": "#8CC5E8", "choose the model": "#E69F00", "judge": "#C9C9C9"}


def protocol_picture(
    classes: int = 100, folds: int = 4, *, title: str | None = None, width: int = 860
) -> Any:
    """Bars over the class ids: a model for each fold under MLRC, and the one model of the conventional protocol.

    Parameters
    ----------
    classes : in the training half; as many again are for tests. folds : of MLRC.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : fewer than 2 folds, more folds than classes, or `width` < 10.

    Reference: Musgrave et al., "A Metric Learning Reality Check"; "Deep Metric Learning with Chance Constraints", MLRC.
    """
    check_pixels("width", width)
    check_number("folds", folds, low=2, high=int(check_number("classes", classes, low=2, whole=True)), whole=True)
    edges = np.searchsorted(fold_of_classes(np.arange(classes), folds), np.arange(folds + 1)).tolist()
    bars = []
    for fold in range(folds):
        low, high = edges[fold], edges[fold + 1]
        name = f"MLRC, model {fold + 1}"
        bars += [(name, "train", 0, low), (name, "choose the model", low, high), (name, "train", high, classes)]
        bars.append((name, "judge", classes, 2 * classes))
    bars += [("conventional", "train", 0, classes), ("conventional", "judge", classes, 2 * classes)]
    bars = [bar for bar in bars if bar[3] > bar[2]]
    figure = go.Figure()
    for use, color in USES.items():
        mine = [bar for bar in bars if bar[1] == use]
        figure.add_bar(
            y=[b[0] for b in mine], x=[b[3] - b[2] for b in mine], base=[b[2] for b in mine], orientation="h", name=use,
            marker_color=color, text=[use.split()[0]] * len(mine),
            textposition="inside", insidetextanchor="middle", textangle=0, constraintext="none",
            hovertemplate="%{y}: classes %{base} to %{x}<extra>" + use + "</extra>",
        )  # fmt: skip
    head = title if title is not None else "In each model every class has one use: no test class is ever trained on"
    present(figure, head, f"MLRC makes {folds} models, one for each fold that chooses", width=width, height=340)
    figure.update_layout(barmode="overlay", showlegend=False, xaxis_title="class, in the order of ids", margin_l=120)
    figure.update_yaxes(autorange="reversed")
    return figure
