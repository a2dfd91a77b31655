"""A whole recording as one figure with play, pause and a scrubber."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from labkit.plots import findings, marks
from labkit.plots.film import Film
from labkit.plots.palette import FAINT, INK, present
from labkit.plots.reading import RecordingLike, check_pixels
from labkit.plots.thumbnails import braille, grey_images
from labkit.validation import check_number

_LEFT, _LENGTH = 0.34, 0.66  # where the scrubber lies, in widths of the picture; the buttons are left of it
_BELOW = -0.15
BESIDE = 150  # pixels of axis and legend


def animation(
    recording: RecordingLike,
    *,
    thumbnails: bool = True,
    milliseconds: int = 250,
    sample: int | None = 3000,
    title: str | None = None,
    width: int = 770,
) -> Any:
    """Play a recording: samples, live proxies (squares) and, at a problem's end, the next problem's proxies (rings).

    Parameters
    ----------
    recording : with T >= 1 snapshots; proxies may be missing (sample-based runs), a run may be unfinished.
    thumbnails : show each sample's picture in the hover label, where the recording has any.
    milliseconds : time per frame while playing.
    sample : draw about so many samples at most, evenly per class; None draws all.
    title : instead of the finding. width : pixels of the whole figure, 150 of them beside the picture.

    Returns
    -------
    plotly.graph_objects.Figure with T frames; frames carry positions only (single precision, 3 decimals).

    Raises
    ------
    LabError : arrays of the recording that disagree, an empty recording or none at all, or a setting out of its range.
    """
    size = round(check_pixels("width", width, around=BESIDE)) - BESIDE
    check_number("milliseconds", milliseconds, low=0)
    film = Film(recording, sample)
    pictures = None
    if thumbnails and recording.thumbnails is not None:
        pictures = braille(
            grey_images("recording.thumbnails", recording.thumbnails, recording.embeddings.shape[1])[film.rows]
        )
    fig = go.Figure(film.traces(0, pictures))
    moving = list(range(len(fig.data)))
    fig.frames = [
        go.Frame(name=str(at), traces=moving, data=[_moved(trace) for trace in film.traces(at)])
        for at in range(len(film.steps))
    ]
    marks.square_axes(fig, film.extent, film.plane)
    name = str(recording.experiment.get("name", "run"))
    notes = [f"{name}: proxies are squares, at a problem's end (n▾ over the slider) the next ones are rings"]
    notes += [film.plane.note] if film.plane.note else []
    head = title if title is not None else findings.headline_of(recording)
    present(fig, head, "; ".join(notes), width=size + BESIDE, height=size + 70)
    fig.update_layout(
        legend={"title": {"text": "class (click to hide)"}, "tracegroupgap": 0},
        margin={"b": 140},
        updatemenus=[_buttons(milliseconds)],
        sliders=[_scrubber(film.captions)],
    )
    _chapters(fig, film)
    return fig


def _moved(trace: Any) -> Any:
    return {"type": trace.type, "x": trace.x, "y": trace.y}


def _jump(duration: int) -> dict[str, Any]:
    return {
        "mode": "immediate",
        "fromcurrent": True,
        "transition": {"duration": 0},
        "frame": {"duration": duration, "redraw": False},
    }


def _buttons(milliseconds: int) -> dict[str, Any]:
    return {
        "type": "buttons",
        "direction": "left",
        "x": 0,
        "xanchor": "left",
        "y": _BELOW,
        "yanchor": "top",
        "pad": {"t": 36},
        "showactive": False,
        "buttons": [
            {"label": "▶ play", "method": "animate", "args": [None, _jump(milliseconds)]},
            {"label": "❚❚ pause", "method": "animate", "args": [[None], _jump(0)]},
        ],
    }


def _scrubber(captions: list[str]) -> dict[str, Any]:
    return {
        "active": 0,
        "x": _LEFT,
        "len": _LENGTH,
        "y": _BELOW,
        "yanchor": "top",
        "pad": {"t": 0, "b": 10, "l": 0, "r": 0},
        "currentvalue": {"xanchor": "left", "font": {"size": 15, "color": INK}, "offset": 26},
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},  # the ticks' own labels would be as long as the caption
        "ticklen": 4,
        "minorticklen": 4,
        "tickcolor": FAINT,
        "steps": [
            {"label": text, "method": "animate", "args": [[str(at)], _jump(0)]} for at, text in enumerate(captions)
        ],
    }


def _chapters(fig: Any, film: Film) -> None:
    """A mark over the scrubber where each problem ends."""
    last = max(len(film.steps) - 1, 1)
    for at, problem in sorted(film.closing.items()):
        fig.add_annotation(
            text=f"{problem.index + 1}▾", x=_LEFT + _LENGTH * at / last, y=_BELOW, xref="paper", yref="paper",
            xanchor="right", xshift=5, yanchor="top", yshift=-24, showarrow=False, font={"size": 11, "color": "#555"},
        )  # fmt: skip
