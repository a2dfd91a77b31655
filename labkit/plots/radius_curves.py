"""Curves: k-Center radius against the number of centres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch

from labkit.errors import LabError
from labkit.metrics.covering import mean_radii
from labkit.plots.palette import plain, present, run_line, translucent
from labkit.plots.reading import Floats, check_pixels, float_array
from labkit.validation import check_number, describe


def covering_curves(
    curves: Mapping[str, Sequence[Any]] | Sequence[Any],
    *,
    at: Sequence[int] = (1, 4, 16),
    title: str | None = None,
    width: int = 860,
) -> Any:
    """k-Center radius against k: thin for each class, thick for the mean over classes.

    Parameters
    ----------
    curves : what `labkit.metrics.covering_curve` gives, a list of (n_c,) radii for k = 1 … n_c per class, or a dict of
        such lists by name.
    at : values of k whose mean radius the title names.
    title : instead of the finding. width : pixels.

    Returns
    -------
    plotly.graph_objects.Figure. A class is covered without rest from k = n_c on, so its radius counts as 0 there.

    Raises
    ------
    LabError : no curves, one that is empty, not one-dimensional or not finite, a k below 1, or `width` < 10.

    Reference: "Deep Metric Learning with Chance Constraints", covering radius in the test domain.
    """
    check_pixels("width", width)
    named = {
        str(name): _listed("curves", c) for name, c in (curves if isinstance(curves, Mapping) else {"": curves}).items()
    }
    marked = [int(check_number("at", k, low=1, whole=True)) for k in _listed("at", at)]
    if not named or any(len(group) == 0 for group in named.values()):
        raise LabError("curves", "at least one class with its radii", "none")
    fig = go.Figure()
    sentences, averages = [], []
    for index, (name, group) in enumerate(named.items()):
        classes = [float_array("curves", radii, "n") for radii in group]
        mean = mean_curve(classes)
        line = run_line(index)
        k = np.concatenate([np.append(np.arange(1, len(c) + 1), 0).astype(float) for c in classes])
        thin = np.concatenate([np.append(c, np.nan) for c in classes])
        gap = np.isnan(thin)
        fig.add_scatter(
            x=[None if g else v for v, g in zip(k.tolist(), gap, strict=True)],
            y=[None if g else round(v, 4) for v, g in zip(thin.tolist(), gap, strict=True)],
            mode="lines", line={"color": translucent(line["color"], 0.35), "width": 1},
            name=f"{plain(name)} each class".strip(),
            hoverinfo="skip",
        )  # fmt: skip
        fig.add_scatter(
            x=np.arange(1, len(mean) + 1), y=mean.round(4), mode="lines", line=line | {"width": 4},
            name=f"{plain(name)} mean".strip(),
            hovertemplate="k = %{x}: mean radius %{y:.3f}<extra>" + "</extra>",
        )  # fmt: skip
        points = ", ".join(f"{mean[k - 1]:.3f} with k = {k}" for k in marked if k <= len(mean))
        sentences.append(f"{name}: {points}" if name else points)
        averages.append(f"{name} {mean.mean():.3f}".strip())
    head = title if title is not None else "Mean radius " + "; ".join(sentences)
    present(fig, head, f"mean over k and classes: {', '.join(averages)}", width=width, height=400, above=35)
    fig.update_layout(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    fig.update_xaxes(type="log", title_text="k, centres taken greedily per class (logarithmic)")
    fig.update_yaxes(rangemode="tozero", title_text="covering radius (distance)")
    return fig


def _listed(name: str, values: Any) -> list[Any]:
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__") or isinstance(values, (str, Mapping)):
        raise LabError(name, "a list, one entry per class" if name == "curves" else "a list of k", describe(values))
    return list(values)


def mean_curve(classes: list[Floats]) -> Floats:
    """`labkit.metrics.covering.mean_radii` of arrays."""
    mean: Floats = mean_radii([torch.from_numpy(radii) for radii in classes]).numpy()
    return mean
