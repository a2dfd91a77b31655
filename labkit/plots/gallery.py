"""The CCP paper's MNIST figure in kind: one picture per proxy problem, with its figures over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from plotly.subplots import make_subplots

from labkit.plots import findings, marks
from labkit.plots.film import Film
from labkit.plots.findings import number
from labkit.plots.palette import present
from labkit.plots.reading import RecordingLike, check_recording, side_of, value_at
from labkit.validation import check_number


@dataclass(frozen=True)
class Picture:
    """One picture of the gallery: the snapshot it shows and its letter, "(a)" for the first problem, "(b.1)" … for
    those after it.

    `running` marks a problem that was still open there; a run that never had a problem has no letter.
    """

    snapshot: int
    letter: str
    running: bool


def pictures_of(recording: RecordingLike, most: int) -> list[Picture]:
    """At most `most` pictures, first and last always among them.

    They show the ends of the problems and, if that is later, where training stands.
    """
    ends = sorted({p.snapshot: p.index for p in recording.problems if 0 <= p.snapshot < len(recording.steps)}.items())
    pictures = [Picture(at, "(a)" if index == 0 else f"(b.{index})", False) for at, index in ends]
    last = len(recording.steps) - 1
    if not pictures or pictures[-1].snapshot < last:
        index = len(recording.problems)
        letter = "" if recording.proxies is None else "(a)" if index == 0 else f"(b.{index})"
        pictures.append(Picture(last, letter, not recording.final))
    if len(pictures) > most:
        pictures = [pictures[i] for i in np.unique(np.linspace(0, len(pictures) - 1, most).round().astype(int))]
    return pictures


def problem_gallery(
    recording: RecordingLike,
    *,
    most: int = 6,
    columns: int | None = None,
    sample: int | None = 1000,
    title: str | None = None,
    width: int | None = None,
) -> Any:
    """Pictures (a), (b.1) … (b.n): the embedding at the end of each proxy problem.

    (a) is the plain proxy problem; each later one started from proxies that K-Center had chosen, the rings of the
    picture before it. Over each picture stand MAP@R, the cover (95 % quantile of the distance from a sample to its
    class's nearest proxy, mean over classes) and E[‖x − x⁻‖], the mean distance between samples of different classes,
    as recorded at that step.

    Parameters
    ----------
    recording : a run, finished or not; a picture of where it stands is added if its last problem is still open.
    most : draw at most so many pictures, the first and last included.
    columns : pictures per row, three at most if not given. sample : samples drawn per picture, evenly per class.
    title : instead of the finding. width : pixels of the whole figure; None: 330 for each picture of a row.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : arrays of the recording that disagree, no recording at all, or a setting out of its range.

    Reference: "Deep Metric Learning with Chance Constraints", MNIST figure.
    """
    check_recording("recording", recording)
    if columns is not None:
        columns = int(check_number("columns", columns, low=1, whole=True))
    pictures = pictures_of(recording, int(check_number("most", most, low=1, whole=True)))
    film = Film(recording, sample)
    columns = min(columns or (2 if len(pictures) == 4 else 3), len(pictures))
    rows = -(-len(pictures) // columns)
    side = side_of(width, columns, usual=330, around=60)
    fig = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[_over(recording, picture) for picture in pictures],
        horizontal_spacing=0.03,
        vertical_spacing=0.13 / rows,
    )
    for index, picture in enumerate(pictures):
        row, col = index // columns + 1, index % columns + 1
        for trace in film.traces(picture.snapshot):
            if trace.mode == "markers" and trace.marker.symbol == "y-down-open":
                trace.update(marker_size=5, showlegend=False)
            elif trace.mode == "markers":
                trace.update(marker_size=7, showlegend=index == 0, legendgroup=trace.name)
            fig.add_trace(trace, row=row, col=col)
        marks.square_axes(fig, film.extent, film.plane, row=row, col=col, bare=True)
    n = recording.embeddings.shape[1]
    notes = [
        "cover: 95 % quantile of the distance from a sample to its class's nearest proxy",
        "E‖x − x⁻‖: mean distance between samples of different classes",
    ]
    shown = sum(not picture.running for picture in pictures)
    if shown < len(recording.problems):
        notes.append(f"{shown} of {len(recording.problems)} problems")
    if len(film.rows) < n:
        notes.append(f"{len(film.rows):,} of {n:,} samples drawn")
    notes += [film.plane.note] if film.plane.note else []
    head = title if title is not None else findings.headline_of(recording)
    size = {"width": round(columns * side + 60), "height": round(rows * (side + 40) + 60)}
    present(fig, head, "; ".join(notes), **size, above=45)
    fig.update_layout(
        margin={"l": 20, "r": 20, "b": 50},
        legend={"orientation": "h", "y": -0.02, "yanchor": "top", "x": 0, "xanchor": "left"},
    )
    fig.update_annotations(font_size=13)
    return fig


def _over(recording: RecordingLike, picture: Picture) -> str:
    step = int(recording.steps[picture.snapshot])
    figures = [
        f"{what} {number(value)}"
        for what, key in (("MAP@R", "map_at_r"), ("cover", "covering_q95"), ("E‖x − x⁻‖", "inter_class_distance"))
        if np.isfinite(value := value_at(recording, key, step))
    ]
    state = f"step {step:,}, still running" if picture.running else f"step {step:,}"
    letter = f"<b>{picture.letter}</b> " if picture.letter else ""
    return f"{letter}{state}<br>{', '.join(figures)}"
