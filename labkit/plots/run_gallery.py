"""Several runs side by side: where each has brought the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly.subplots import make_subplots

from labkit.plots import marks
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.findings import number
from labkit.plots.palette import plain, present
from labkit.plots.plane import Plane
from labkit.plots.reading import RecordingLike, Runs, check_sample, named_runs, names_of, side_of, value_at
from labkit.validation import check_number


def run_gallery(
    recordings: RecordingLike | Runs,
    *,
    columns: int = 3,
    sample: int | None = 700,
    title: str | None = None,
    width: int | None = None,
) -> Any:
    """Draw where each run has brought its samples, over it its name and MAP@R.

    A run that was judged on test pictures is shown at the recorded snapshot nearest to the step whose weights were
    chosen, best on the held-out pictures, with their MAP@R on the test pictures; any other at its last snapshot, with
    the last MAP@R on held-out pictures, and says so.

    Parameters
    ----------
    recordings : a dict of recordings by name, or one. columns : pictures in a row. sample : samples drawn in each,
        evenly per class. title : instead of the finding, the best run and the worst. width : pixels of the whole figure;
        None: 300 for each picture of a row.

    Returns
    -------
    plotly.graph_objects.Figure; runs of more than two dimensions are drawn in their two first principal components.

    Raises
    ------
    LabError : no recordings, something that is none, or a setting out of its range.
    """
    runs = named_runs(recordings)
    columns = min(int(check_number("columns", columns, low=1, whole=True)), len(runs))
    side = side_of(width, columns, usual=300, around=60)
    check_sample(sample)
    scores = {name: _score(run) for name, run in runs.items()}
    heads = [f"<b>{plain(name)}</b><br>{scores[name][1]}" for name in runs]
    rows = -(-len(runs) // columns)
    fig = make_subplots(rows, columns, subplot_titles=heads, horizontal_spacing=0.03, vertical_spacing=0.12 / rows)
    for index, run in enumerate(runs.values()):
        where = {"row": index // columns + 1, "col": index % columns + 1}
        x, y = np.asarray(run.embeddings[_shown(run)], dtype=np.float64), np.asarray(run.labels)
        plane, classes = Plane.of(x), np.unique(y)
        xy, kept = plane(x), evenly_per_class(y, sample)
        names = names_of(classes, run.class_names)
        for trace in marks.sample_traces(xy[kept], y[kept], classes, names, size=5, legend=False):
            fig.add_trace(trace, **where)
        extent = marks.extent_of(plane, xy)
        places = marks.number_positions(xy, y, classes, marks.NUMBER_GAP * extent)
        places = marks.kept_apart(places, 0.14 * extent, 0.93 * extent)  # small pictures: a number's height
        fig.add_trace(marks.number_trace(places, names, size=14), **where)
        marks.square_axes(fig, extent, plane, bare=True, **where)
    judged = all("chosen_step" in run.final for run in runs.values())
    moment = "at the chosen step" if judged else "at the chosen step, or the last"
    note = f"the recorded sample {moment}; a class is named at its edge"
    head = title if title is not None else _finding(scores)
    present(fig, head, note, width=round(columns * side + 60), height=round(rows * (side + 40) + 20), above=40)
    fig.update_layout(margin={"l": 20, "r": 20, "b": 20})
    fig.update_annotations(font_size=13)
    return fig


def _shown(run: RecordingLike) -> int:
    """The snapshot nearest to the step whose weights the run's final figures are of; the last where it has none."""
    if "chosen_step" not in run.final or "map_at_r" not in run.final:
        return len(run.steps) - 1
    return int(np.abs(np.asarray(run.steps) - run.final["chosen_step"]).argmin())


def _score(run: RecordingLike) -> tuple[float, str]:
    """MAP@R of a run, and how to write it."""
    if "map_at_r" in run.final:
        value = float(run.final["map_at_r"])
        return value, f"test MAP@R {number(value)}"
    value = value_at(run, "map_at_r", int(run.steps[-1]))
    return value, f"held-out MAP@R {number(value)}" if np.isfinite(value) else "not judged yet"


def _finding(scores: dict[str, tuple[float, str]]) -> str:
    judged = {name: score for name, score in scores.items() if np.isfinite(score[0])}
    if len(judged) < 2:
        return "; ".join(f"{name}: {text}" for name, (_, text) in scores.items())
    best, worst = max(judged, key=lambda n: judged[n][0]), min(judged, key=lambda n: judged[n][0])
    return f"From {worst} ({judged[worst][1]}) to {best} ({judged[best][1]})"
