"""A whole recording as one figure with play, pause and a scrubber."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from labkit.errors import LabError
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
    at: int | None = None,
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
    at : the recorded step that the figure shows until it is played; None: the first. The scrubber stands there.
    sample : draw about so many samples at most, evenly per class; None draws all.
    title : instead of the finding. width : pixels of the whole figure, 150 of them beside the picture.

    Returns
    -------
    plotly.graph_objects.Figure with T frames; frames carry positions only (single precision, 3 decimals).

    Raises
    ------
    LabError : arrays of the recording that disagree, an empty recording or none at all, a setting out of its range, or
        a step `at` that was not recorded.
    """
    size = round(check_pixels("width", width, around=BESIDE)) - BESIDE
    check_number("milliseconds", milliseconds, low=0)
    film = Film(recording, sample)
    shown = 0 if at is None else _snapshot_of(film, at)
    pictures = None
    if thumbnails and recording.thumbnails is not None:
        pictures = braille(
            grey_images("recording.thumbnails", recording.thumbnails, recording.embeddings.shape[1])[film.rows]
        )
    fig = go.Figure(film.traces(shown, pictures))
    moving = list(range(len(fig.data)))
    fig.frames = [
        go.Frame(name=str(place), traces=moving, data=[_moved(trace) for trace in film.traces(place)])
        for place in range(len(film.steps))
    ]
    marks.square_axes(fig, film.extent, film.plane)
    head = title if title is not None else findings.headline_of(recording)
    present(fig, head, _how_to_read(film), width=size + BESIDE, height=size + 70)
    fig.update_layout(
        legend={"title": {"text": "class (click to hide)"}, "tracegroupgap": 0},
        margin={"b": 140},
        updatemenus=[_buttons(milliseconds)],
        sliders=[_scrubber(film.captions, shown)],
    )
    _chapters(fig, film)
    return fig


def _snapshot_of(film: Film, at: int) -> int:
    """Place of the snapshot of step `at`."""
    step = int(check_number("at", at, low=0, whole=True))
    if step not in film.steps:
        nearest = min(film.steps, key=lambda recorded: abs(recorded - step))
        span = f"{film.steps[0]} to {film.steps[-1]}"
        raise LabError("at", f"a recorded step, from {span}", step, f"The nearest is {nearest}.")
    return film.steps.index(step)


def _how_to_read(film: Film) -> str:
    """What the marks mean, of those that the film has."""
    notes = [] if all(p is None for p in film.proxies) else ["squares are proxies"]
    if film.closing:
        notes.append("n▾ over the slider: problem n ends")
    if any(f is not None for f in film.following):
        notes.append("rings, at such a step: the next problem's proxies")
    return "; ".join(notes + ([film.plane.note] if film.plane.note else []))


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


def _scrubber(captions: list[str], shown: int) -> dict[str, Any]:
    return {
        "active": shown,
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
