"""The report's worst queries: what was asked, and what lies next to it, as pictures where there are any."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.geometry import pairwise_distance
from labkit.plots.reading import RecordingLike, Runs
from labkit.report_sections import chip, judged_rows
from labkit.training.recorded_sample import recorded_pictures
from labkit.training.recording import Recording

SHOWN, NEIGHBOURS, SIDE = 6, 8, 96  # queries of a run, pictures beside each, pixels of each
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """A query, row `row` of the recorded sample, with its `neighbours` (rows, the nearest first), its AP@R, and R."""

    row: int
    neighbours: Rows
    score: float
    relevant: int


def worst_queries(recording: RecordingLike, shown: int = SHOWN, neighbours: int = NEIGHBOURS) -> tuple[list[Asked], int]:
    """The queries of the last snapshot with the lowest AP@R, the worst of a class and no two of one class.

    Among equals that one is worse whose nearest neighbour of its own class is farther behind the nearest of another.
    Where a run has classes that it was never trained on, they alone are asked and answer.

    Returns
    -------
    list, int : the queries, the worst first, and among how many samples they were looked for.
    """
    labels = np.asarray(recording.labels)
    rows = judged_rows(recording)
    points, owners = torch.as_tensor(np.asarray(recording.embeddings[-1], dtype=np.float32)[rows]), labels[rows]
    counts = dict(zip(*np.unique(owners, return_counts=True), strict=True))
    worst: dict[int, tuple[tuple[float, float], Asked]] = {}
    longest = max(neighbours, max(counts.values()) - 1)
    for start in range(0, len(rows), 512):
        distances = pairwise_distance(points[start : start + 512], points)
        own = torch.arange(start, start + len(distances))
        distances[torch.arange(len(distances)), own] = torch.inf
        order = distances.argsort(dim=1, stable=True)[:, : min(longest, len(rows) - 1)].numpy()
        for i, nearest in enumerate(order):
            query = start + i
            relevant = int(counts[owners[query]]) - 1
            if relevant == 0 or len(counts) == 1:
                continue
            right = owners[nearest] == owners[query]
            score = _average_precision(right[:relevant], relevant)
            values = distances[i].numpy()
            same = owners == owners[query]
            same[query] = False
            behind = float(values[same].min() - values[owners != owners[query]].min())
            key, label = (score, -behind), int(owners[query])
            if label not in worst or key < worst[label][0]:
                worst[label] = key, Asked(int(rows[query]), rows[nearest[:neighbours]], score, relevant)
    ranked = sorted(worst.values(), key=lambda pair: (pair[0], pair[1].row))
    return [asked for _, asked in ranked[:shown]], len(rows)


def worst_queries_section(runs: Runs) -> str:
    """Each run's worst queries as HTML."""
    return "".join(f"<p>{chip(name, index)}</p>{_of_run(recording)}" for index, (name, recording) in enumerate(runs.items()))


def _of_run(recording: RecordingLike) -> str:
    queries, among = worst_queries(recording)
    if not queries:
        return "<p>No recorded sample has another of its class beside it.</p>"
    rows = np.unique(np.concatenate([np.append(asked.neighbours, asked.row) for asked in queries]))
    tiles, missing = _tiles(recording, rows)
    lines = "".join(_line(recording, asked, tiles) for asked in queries)
    said = f"At the last snapshot, among {among:,} recorded samples; at most one query of a class."
    note = f'<p class="why">{escape(missing)}</p>' if missing else ""
    return f'<p class="why">{said}</p>{note}<div class="queries">{lines}</div>'


def _line(recording: RecordingLike, asked: Asked, tiles: dict[int, str]) -> str:
    labels = np.asarray(recording.labels)
    mine = int(labels[asked.row])
    cells = []
    for place, row in enumerate(asked.neighbours, start=1):
        right = int(labels[row]) == mine
        kind, mark, words = ("right", "✓", "right class") if right else ("wrong", "✗", "wrong class")
        cells.append(_cell(recording, int(row), tiles, kind, f"{mark} {place}", f"neighbour {place}, {words}"))
    score = f"AP@R {asked.score:.2f}, R {asked.relevant:,}"
    query = _cell(recording, asked.row, tiles, "asked", f"? {score}", "query")
    return f'<div class="query">{query}{"".join(cells)}</div>'


def _cell(recording: RecordingLike, row: int, tiles: dict[int, str], kind: str, mark: str, words: str) -> str:
    label = int(np.asarray(recording.labels)[row])
    name = recording.class_names[label] if 0 <= label < len(recording.class_names) else f"class {label}"
    said = escape(f"{words}: {name}, sample {row}", quote=True)
    named = f'<span class="none" title="{said}">{escape(name)}</span>'
    picture = f'<img alt="{said}" src="{tiles[row]}">' if row in tiles else named
    return f'<figure class="{kind}">{picture}<figcaption><b>{escape(mark)}</b> {escape(name)}</figcaption></figure>'


def _tiles(recording: RecordingLike, rows: Rows) -> tuple[dict[int, str], str]:
    """Pictures of these rows as data URLs, from the recording or from the data root; and what to do where there are none."""
    if recording.thumbnails is not None:
        pictures = np.asarray(recording.thumbnails)[rows]
        return {int(row): _url(picture, "PNG") for row, picture in zip(rows, pictures, strict=True)}, ""
    found: NDArray[np.uint8] | None = None
    try:
        found = recorded_pictures(cast(Recording, recording), rows, side=SIDE)
    except LabError:  # a recording whose settings name no photographs
        return {}, "The recording has no pictures of its samples."
    if found is None:
        source = dict(recording.experiment.get("data") or {}).get("source", "the data set")
        hint = "Set LABKIT_DATA to the folder that holds them and write the report again to see them."
        return {}, f"The photographs of {source} are not in the data root, so classes are named instead. {hint}"
    return {int(row): _url(picture, "JPEG") for row, picture in zip(rows, found, strict=True)}, ""


def _url(picture: NDArray[np.uint8], kind: str) -> str:
    from PIL import Image

    image: Any = Image.fromarray(picture)
    data = io.BytesIO()
    image.save(data, kind, **({"quality": 80} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data.getvalue()).decode()}"


def _average_precision(right: NDArray[np.bool_], relevant: int) -> float:
    """AP@R of a ranked list: the mean over its first R places of the precision there, 0 at a wrong one."""
    places = np.arange(1, len(right) + 1)
    return float((np.cumsum(right) / places * right).sum() / relevant)
