"""A sample's nearest neighbours and the samples that are misread, as numbers and as pictures."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from labkit.metrics.neighbours import NeighbourSearch
from labkit.plots.findings import number
from labkit.plots.palette import legible
from labkit.plots.reading import Floats, Ints
from labkit.plots.thumbnails import picture_png

RIGHT, WRONG = "#007A55", "#D55E00"


def nearest_to(embeddings: Floats, row: int, k: int) -> tuple[Ints, Floats]:
    """The k samples nearest to one of (n, D), nearest first and itself left out, and their distances."""
    distance = np.linalg.norm(embeddings - embeddings[row], axis=1)
    distance[row] = np.inf
    order = np.argsort(distance, kind="stable")[: min(k, len(distance) - 1)]
    return order, distance[order]


def misread(embeddings: Floats, labels: Ints, asked: Ints | None = None) -> NDArray[np.bool_]:
    """(m,) whether a sample's nearest other sample is of another class: the errors that P@1 counts. n >= 2.

    asked : (m,) rows of the samples that are looked at, among all; None: all n of them.
    """
    rows = np.ascontiguousarray(embeddings, dtype=np.float32)
    search = NeighbourSearch(rows, rows, exclude_self=True)
    walk = search.walk(np.arange(len(rows)) if asked is None else asked, 1)
    wrong = [labels[nearest[:, 0]] != labels[part] for part, nearest in walk]
    return np.concatenate([np.zeros(0, dtype=np.bool_), *wrong])


def picture_tag(image: NDArray[np.uint8] | None, alt: str, *, size: int = 56) -> str:
    """One picture as HTML, or a grey box with the words where there is none."""
    words = html.escape(legible(alt))
    if image is None:
        box = f"width:{size}px;height:{size}px;background:#EEE;font-size:11px;overflow:hidden"
        return f'<div style="{box}">{words}</div>'
    data = base64.b64encode(picture_png(image)).decode()
    style = (
        f"width:{size}px;height:{size}px;object-fit:contain;image-rendering:pixelated;background:black;display:block"
    )
    return f'<img alt="{words}" style="{style}" src="data:image/png;base64,{data}">'


def framed(image: NDArray[np.uint8] | None, caption: str, right: bool | None, *, size: int = 56) -> str:
    """A picture that is told right (solid frame, a tick) from wrong (dashed frame, a cross); None: neither."""
    color, line, mark = {
        True: (RIGHT, "solid", "✓ "), False: (WRONG, "dashed", "✗ "), None: ("#8A8A8A", "solid", ""),
    }[right]  # fmt: skip
    spoken = {True: "right, ", False: "wrong, ", None: ""}[right]
    words = html.escape(legible(caption)).replace("_", "_<wbr>")  # names of files and folders have no other place to break
    around = (
        f"margin:2px;display:inline-block;vertical-align:top;text-align:center;width:{size + 16}px;font-size:12px;"
        "line-height:1.3;overflow-wrap:anywhere;color:#222"
    )
    picture = picture_tag(image, spoken + caption, size=size)
    return (
        f'<figure style="{around}">'
        f'<div style="display:inline-block;border:3px {line} {color};padding:1px">{picture}</div>'
        f'<figcaption><b style="color:{color}">{mark}</b>{words}</figcaption></figure>'
    )


def neighbour_gallery(
    row: int,
    neighbours: Ints,
    distances: Floats,
    labels: Ints,
    names: Sequence[str],
    images: NDArray[np.uint8] | None,
    *,
    asked: str = "",
) -> str:
    """A sample and its neighbours in order of distance, right ones (of its class) told from wrong ones.

    names : of each class, by label index. images : (n, h, w) or (n, h, w, 3), or None. asked : what was asked for, such as
        a file's name, where the sample's number means nothing.
    """
    picture = [None if images is None else images[i] for i in (row, *neighbours)]
    own = names[labels[row]]
    right = labels[neighbours] == labels[row]
    what = html.escape(legible(f"Asked for: {asked}, class {own}" if asked else f"Sample {row}, class {own}"))
    head = f"<b>{what}</b>: {right.sum()} of its {len(neighbours)} nearest are right"
    tiles = [framed(picture[0], f"class {own}", None, size=84)]
    for i, distance, good, image in zip(neighbours, distances, right, picture[1:], strict=True):
        tiles.append(framed(image, f"{names[labels[i]]} · {number(distance)}", bool(good)))
    return f"<div style='line-height:1.4'>{head}</div><div>{tiles[0]}</div><div>{''.join(tiles[1:])}</div>"


def selection_gallery(
    rows: Ints,
    labels: Ints,
    names: Sequence[str],
    images: NDArray[np.uint8] | None,
    wrong: NDArray[np.bool_],
    *,
    most: int = 24,
) -> str:
    """How many samples of which class are selected, and the first pictures, misread ones marked.

    rows : (m,) selected samples, rows of `labels` (n,) and of `images`. wrong : (m,) whether each of them is misread.
    """
    classes, counts = np.unique(labels[rows], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    parts = ", ".join(f"{html.escape(legible(names[classes[i]]))} ({counts[i]})" for i in order)
    head = f"<b>{len(rows)} selected</b>, {int(wrong.sum())} misread; by class: {parts or 'none'}"
    tiles = [
        framed(None if images is None else images[i], names[labels[i]], False if missed else None, size=44)
        for i, missed in zip(rows[:most], wrong, strict=False)
    ]
    more = f"<div>and {len(rows) - most} more</div>" if len(rows) > most else ""
    return f"<div style='line-height:1.4'>{head}</div><div>{''.join(tiles)}</div>{more}"
