"""What a web page needs to play a recording: an embedding map and, packed, the positions of every snapshot."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import plotly.graph_objects as go

from labkit.plots import marks
from labkit.plots.film import Film
from labkit.plots.palette import present
from labkit.plots.reading import Floats

_FULL = 32000  # of the 16-bit range; what lies outside stands for "nothing to draw"
_NOTHING = -32768


def player_map(film: Film, name: str) -> Any:
    """The first snapshot as a go.Figure without buttons or hover labels of its own: the page moves and explains it."""
    fig = go.Figure(film.traces(0))
    for trace in fig.data[: len(film.classes)]:
        trace.update(hoverinfo="none", hovertemplate=None, customdata=None)
    marks.square_axes(fig, film.extent, film.plane)
    present(fig, name, film.plane.note, width=540, height=500)
    fig.update_layout(showlegend=False)
    return fig


def player_data(film: Film) -> dict[str, Any]:
    """Positions of every snapshot in 16 bits per coordinate, and what is said about each.

    Returns
    -------
    dict, ready for JSON: `steps`, `captions`, `ends` (snapshots that close a problem), `rows` (of each drawn sample),
    `names` and `groups` (drawn samples) of each class, `scale` (units per 16-bit step) and, as base64 of little-endian int16,
    `samples` (T, n, 2), `numbers` (T, C, 2), `proxies` and `rings` (T, C·K, 2; -32768 where there is nothing; null
    where there never is).
    """
    scale = 1.25 * film.extent / _FULL
    count = range(len(film.steps))
    proxies = [p.reshape(-1, 2) for p in film.proxies if p is not None]
    rings = [film.rings(at) for at in count]
    return {
        "steps": film.steps,
        "captions": film.captions,
        "ends": sorted(film.closing),
        "rows": film.rows.tolist(),
        "names": film.names,
        "groups": [np.flatnonzero(film.labels == c).tolist() for c in film.classes],
        "scale": scale,
        "samples": _packed(film.xy, scale),
        "numbers": _packed(np.stack(film.numbers), scale),
        "proxies": _packed(np.stack(proxies), scale) if len(proxies) == len(film.steps) else None,
        "rings": _packed(np.stack([r.reshape(-1, 2) for r in rings if r is not None]), scale)
        if rings[0] is not None
        else None,
    }


def _packed(values: Floats, scale: float) -> str:
    whole = np.where(np.isfinite(values), np.clip(np.nan_to_num(values) / scale, -_FULL, _FULL).round(), _NOTHING)
    return base64.b64encode(whole.astype("<i2").tobytes()).decode()
