"""The embedding space as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from labkit.datasets.images import PER_CLASS
from labkit.errors import LabError
from labkit.plots import marks
from labkit.plots.palette import present
from labkit.plots.plane import Plane
from labkit.plots.reading import (
    Floats,
    Ints,
    check_pixels,
    check_sample,
    float_array,
    label_array,
    names_of,
    proxies_by_class,
)
from labkit.plots.thumbnails import braille, grey_images
from labkit.validation import check_choice

Balls = Literal["q95", "max"]
BESIDE = 130  # pixels of axis and legend
_BALL_TEXT = {"q95": "95 % quantile of", "max": "largest"}


def nearest_own_proxy(embeddings: Floats, labels: Ints, proxies: Floats, classes: Ints) -> list[Floats]:
    """For each of `classes` the (n_c,) distances from its samples to its nearest own proxy of (C, K, D)."""
    return [
        np.linalg.norm(embeddings[labels == c][:, None] - own[None], axis=2).min(axis=1)
        for c, own in zip(classes, proxies, strict=True)
    ]


def cover_sentence(radii: Floats) -> str:
    """The finding of a map with proxies; `radii` (C,): each class's 95 % quantile of the distance to its nearest proxy."""
    return f"95 % of a class's samples lie within {float(radii.mean()):.3f} of its nearest proxy"


def evenly_per_class(labels: Ints, sample: int | None) -> Ints:
    """Rows of at most `sample` samples, spread evenly over each class and in order; all rows for None.

    Each class gives its share, rounded, and one sample at least. Of more classes than that only some give anything, at
    even distances, as many as leave 8 samples for each: single samples would show of no class what it looks like.
    """
    n, sample = len(labels), check_sample(sample)
    if sample is None or sample >= n:
        return np.arange(n)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) > sample:
        wanted = min(sample, max(2, sample // min(PER_CLASS, n // len(classes))))
        rows = np.flatnonzero(np.isin(labels, classes[np.arange(wanted) * len(classes) // wanted]))
        return rows[evenly_per_class(labels[rows], sample)]
    kept = []
    for c, count in zip(classes, _shares(counts, sample), strict=True):
        rows = np.flatnonzero(labels == c)
        kept.append(rows[np.linspace(0, len(rows) - 1, count).round().astype(int)])
    return np.sort(np.concatenate(kept))


def _shares(counts: Ints, sample: int) -> Ints:
    """(C,) how many samples each class gives, at least 1 each and at most `sample` >= C in all."""
    exact = sample * counts / counts.sum()
    shares: Ints = np.maximum(exact.round(), 1).astype(np.int64)
    for _ in range(int(shares.sum()) - sample):
        gained = np.where(shares > 1, shares - exact, -np.inf)
        shares[len(shares) - 1 - gained[::-1].argmax()] -= 1  # of those that rounding has given most, the last
    return shares


def embedding_map(
    embeddings: Any,
    labels: Any,
    proxies: Any = None,
    next_proxies: Any = None,
    *,
    balls: bool | Balls = False,
    thumbnails: Any = None,
    class_names: Sequence[str] | None = None,
    sample: int | None = None,
    title: str | None = None,
    width: int = 770,
) -> Any:
    """Draw samples, proxies and the proxies to come, as the CCP paper's MNIST figure does.

    At most 500 samples without any proxies get a filled shape for each class instead of the paper's small marks.

    Parameters
    ----------
    embeddings : (n, D), after the loss's normalisation; D > 2 is drawn in its two first principal components and says
        so.
    labels : (n,) whole numbers.
    proxies : (C, K, D) converged proxies, squares; row c belongs to class c.
    next_proxies : (C, K, D) what K-Center chose for the next problem, rings.
    balls : True or "q95": around each proxy a ball whose radius is the 95 % quantile of the distance from the class's
        samples to their nearest own proxy; "max": the largest such distance, the covering radius itself. Measured in
        all D dimensions.
    thumbnails : (n, h, w) uint8, shown in the hover label as braille dots.
    class_names : name of each class; its number if not given.
    sample : draw at most so many samples, evenly per class; the figures in the title still use all.
    title : instead of the finding. width : pixels of the whole figure, 130 of them beside the picture.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : shapes that disagree, NaN, numbers beyond 1e30, balls without proxies, `sample` < 1 or `width` < 140.

    Reference: "Deep Metric Learning with Chance Constraints", MNIST figure (samples, proxies, K-Center's choice).
    """
    size = round(check_pixels("width", width, around=BESIDE)) - BESIDE
    x = float_array("embeddings", embeddings, "n, D")
    y = label_array("labels", labels, len(x))
    classes = np.unique(y)
    names = names_of(classes, class_names)
    own = proxies_by_class("proxies", proxies, classes, x.shape[1])
    following = proxies_by_class("next_proxies", next_proxies, classes, x.shape[1])
    plane = Plane.of(x)
    kept = evenly_per_class(y, sample)
    pictures = braille(grey_images("thumbnails", thumbnails, len(x))[kept]) if thumbnails is not None else None
    xy, own_xy, following_xy = (
        plane(x),
        None if own is None else plane(own),
        None if following is None else plane(following),
    )
    extent = marks.extent_of(plane, xy, own_xy, following_xy)
    fig = go.Figure()
    notes = [plane.note] if plane.note else []
    if balls:
        traces, note = _balls(x, y, own, own_xy, classes, names, balls)
        fig.add_traces(traces)
        notes.append(note)
        rims = [abs(v) for trace in traces for v in (*trace.x, *trace.y) if v is not None]
        extent = max(extent, 1.02 * max(rims))
    shapes = own is None and following is None and len(kept) <= marks.FEW
    fig.add_traces(marks.sample_traces(xy[kept], y[kept], classes, names, pictures, shapes=shapes))
    if own is not None:
        fig.add_trace(marks.proxy_trace(own_xy, names))
    if following is not None:
        fig.add_trace(marks.proxy_trace(following_xy, names, following=True))
    gap = marks.NUMBER_GAP * (1 if max(map(len, names)) <= marks.WORD else 2.2)  # words are wider than numbers
    places = marks.number_positions(xy, y, classes, gap * extent)
    fig.add_trace(marks.number_trace(places, names))
    legend = 45 + 7 * max(map(len, names))  # pixels that it takes from the picture
    marks.square_axes(fig, marks.room_for_names(extent, places, names, max(size / 2, size + 50 - legend)), plane)
    head = title if title is not None else _finding(x, y, own, classes)
    present(fig, head, "; ".join(notes), width=size + BESIDE, height=size)
    fig.update_layout(legend={"title": {"text": "class (click to hide)"}, "tracegroupgap": 0})
    return fig


def _balls(
    x: Floats, y: Ints, own: Floats | None, own_xy: Floats | None, classes: Ints, names: list[str], balls: bool | Balls
) -> tuple[list[Any], str]:
    if own is None or own_xy is None:
        raise LabError("balls", "proxies to draw balls around", "proxies=None")
    kind = "q95" if balls is True else check_choice("balls", balls, _BALL_TEXT)
    distances = nearest_own_proxy(x, y, own, classes)
    radii = np.array([np.quantile(d, 0.95) if kind == "q95" else d.max() for d in distances])
    measured = "the distance from a class's samples to their nearest own proxy"
    note = f"ball: {_BALL_TEXT[kind]} {measured} (mean {radii.mean():.3f})"
    return marks.ball_traces(own_xy, radii, names, "covering balls" if kind == "max" else "95 % balls"), note


def _finding(x: Floats, y: Ints, own: Floats | None, classes: Ints) -> str:
    if own is None:
        return f"{len(classes)} classes, {len(x):,} samples"
    return cover_sentence(np.array([np.quantile(d, 0.95) for d in nearest_own_proxy(x, y, own, classes)]))
