"""A run, or runs side by side, as one HTML page that needs nothing else: no network, no server, no other file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.metrics import covering_curve
from labkit.plots import covering_curves, distance_histograms, metric_strips, problem_gallery, proxy_spread_over_time
from labkit.plots.bounds import margins_at
from labkit.plots.film import Film
from labkit.plots.findings import Moments, common_origin, headline_of
from labkit.plots.palette import class_color, legible, run_line
from labkit.plots.player import player_data, player_map
from labkit.plots.reading import RecordingLike, Runs, named_runs, series
from labkit.report_page import Page, bare
from labkit.report_queries import worst_queries_section
from labkit.report_sections import chip, judged_rows, looking_at, notice, table
from labkit.report_settings import settings
from labkit.validation import check_path, check_word

POSITIONS = 1_800_000  # bytes of packed sample positions that a page may carry; more samples than that are thinned
MARKS = 4000  # samples in all maps together: what a browser moves without effort
MOST = 3000  # samples per map
COVERING = (
    "<p>How many samples of a class, chosen greedily by K-Center, must stand for it so that none of the others is farther "
    "than a radius: thin for each class, thick for their mean. The lower the curve, the fewer do. Where some classes were "
    "never trained on, the curves are theirs.</p>"
)
WORST = (
    "<p>Recorded samples whose nearest neighbours are least of their own class. On the left what was asked, then its "
    "neighbours, the nearest first: <b>✓</b> and a full frame for the right class, <b>✗</b> and a dashed one for a wrong one.</p>"
)


def write_report(
    path: str | os.PathLike[str],
    recordings: RecordingLike | Runs,
    *,
    title: str = "",
    partial: bool = False,
    command: str = "",
) -> Path:
    """Write a report: pictures that play, figures, what to notice, settings; plotly.js is inside the page.

    Parameters
    ----------
    path : the HTML file to write; whole or not at all. Missing folders are made.
    recordings : one recording, or a dict of them by the name they shall have; two stand side by side and are played
        together.
    title : of the page; made from the experiment's name if empty.
    partial : the runs were interrupted: the page says so. It shows whatever there is (no closed problem, no final
        figures).
    command : the command that made the runs, for the section on how to repeat them; worked out from the settings if
        empty.

    Returns
    -------
    Path : `path`.

    Raises
    ------
    LabError : no recording, arrays that disagree, no text for a title, no path, or a disk that is full or read-only.
    """
    if not check_path("path", path).name:
        raise LabError("path", "the name of a file", repr(os.fspath(path)))
    page = report_html(recordings, title=title, partial=partial, command=command).encode()
    return write_atomically(path, lambda file: file.write(page))


def report_html(recordings: RecordingLike | Runs, *, title: str = "", partial: bool = False, command: str = "") -> str:
    """The page that `write_report` writes, as text."""
    runs = named_runs(recordings)
    for name, text in (("title", title), ("command", command)):
        check_word(name, text)
    title = title or ", ".join(dict.fromkeys(str(r.experiment.get("name", name)) for name, r in runs.items()))
    page = Page()
    lead = "".join(
        f"<p class='lead'>{chip(name, i)} {escape(_headline(runs, r))}</p>" for i, (name, r) in enumerate(runs.items())
    )
    banner = _banner(runs) if partial else ""
    body = [
        f"<header><h1>{escape(title)}</h1>{lead}{banner}</header><main>",
        f"<h2>What you are looking at</h2>{looking_at(runs)}",
        f"<h2>The figures</h2>{table(runs)}",
        f"<section><h2>Watch it learn</h2>{_player(page, runs)}</section>",
        f"<h2>What to notice</h2>{notice(runs)}",
        f"<h2>Over the steps</h2>{_curves(page, runs)}",
        f"<h2>Problem by problem</h2>{_galleries(page, runs)}",
        f"<h2>Covering curves</h2>{_covering(page, runs)}",
        f"<h2>How far apart</h2>{_distances(page, runs)}",
        f"<h2>The worst queries and their neighbours</h2>{WORST}{worst_queries_section(runs)}",
        f"<h2>Settings and how to repeat it</h2>{settings(runs, command)}",
        "<footer>Written by labkit. The page holds everything it shows and loads nothing.</footer></main>",
        '<div id="card" role="status"></div>',
    ]
    return legible(page.finish(title, "".join(body)))


def _headline(runs: Runs, recording: RecordingLike) -> str:
    return headline_of(recording, None if Moments.of(recording).several_problems else common_origin(runs))


def _banner(runs: Runs) -> str:
    lines = []
    for name, recording in runs.items():
        done, planned = int(recording.steps[-1]), recording.experiment.get("steps", "?")
        closed = len(recording.problems)
        state = (
            f"{closed} proxy problem{'s' if closed != 1 else ''} closed" if closed else "no proxy problem closed yet"
        )
        lines.append(f"{name} was recorded up to step {done:,} of {planned}, {state}")
    said = escape("; ".join(lines))
    return f'<p class="banner"><b>Unfinished.</b> {said}. All that follows describes the runs so far.</p>'


def _player(page: Page, runs: Runs) -> str:
    data, maps = [], []
    named: dict[tuple[str, ...], list[int]] = {}  # runs by the names of their classes
    for index, (name, recording) in enumerate(runs.items()):
        frames = max(1, len(recording.steps) * len(runs))
        film = Film(recording, min(MOST, MARKS // len(runs), max(100, 3 * POSITIONS // (16 * frames))))
        data.append(player_data(film) | {"name": name, "color": run_line(index)["color"], "sheet": page.sheet(recording)})
        fig = player_map(film, name)
        bare(fig)
        page.block(f"map-figure-{index}", fig.to_json())
        named.setdefault(tuple(film.names), []).append(index)
        notes = [film.plane.note] if film.plane.note else []
        if len(film.rows) < recording.embeddings.shape[1]:
            notes.append(f"{len(film.rows):,} of {recording.embeddings.shape[1]:,} samples drawn")
        note = f"<div class='why'>{escape('; '.join(notes))}</div>" if notes else ""
        maps.append(
            f'<div class="map"><h3>{chip(name, index)}</h3>'
            f'<div class="now" id="now-{index}">{escape(film.captions[0])}</div>'
            f'<div class="stage"><div class="plot" id="map-{index}" style="height:{fig.layout.height}px"></div>'
            f'<div class="halo" id="halo-{index}"></div></div>{note}</div>'
        )
    page.block("film", json.dumps({"runs": data}))
    together = " The maps move together; the same picture is ringed in each." if len(runs) > 1 else ""
    return (
        "<p>Press play or drag the bar; the numbers above the bar mark where a proxy problem ends. Point at a mark "
        "to see its picture."
        f'{together}</p><div class="player"><div class="controls"><button class="play" id="play">▶ Play</button>'
        '<button id="earlier" title="to the end of the problem before">◀ problem</button>'
        '<button id="later" title="to the end of this problem">problem ▶</button>'
        '<span class="step" id="step"></span></div>'
        '<div class="track"><div class="chapters" id="chapters"></div>'
        '<input type="range" id="scrubber" min="0" value="0" step="1" aria-label="training step"></div></div>'
        f'{_class_buttons(runs, named)}<div class="maps">{"".join(maps)}</div>'
    )


def _class_buttons(runs: Runs, named: Mapping[tuple[str, ...], list[int]]) -> str:
    """A row of buttons for each list of class names, which says whose they are where there are several lists."""
    rows, names = "", list(runs)
    for classes, indices in named.items():
        whose = "".join(chip(names[i], i) for i in indices) if len(named) > 1 else ""
        buttons = "".join(
            f'<button aria-pressed="true" style="color:{class_color(i)};border-color:currentColor">{escape(name)}</button>'
            for i, name in enumerate(classes)
        )
        mine = " ".join(map(str, indices))
        rows += f'<div class="classes" data-runs="{mine}">{whose}Classes (click to hide): {buttons}</div>'
    return rows


def _curves(page: Page, runs: Runs) -> str:
    parts = []
    if any(len(series(r, "step")[0]) for r in runs.values()):
        parts.append(page.figure(metric_strips(runs)))
    if any(len(series(r, "proxy_spread")[0]) for r in runs.values()):
        parts.append(page.figure(proxy_spread_over_time(runs)))
    return "".join(parts) or "<p>Nothing has been evaluated yet.</p>"


def _galleries(page: Page, runs: Runs) -> str:
    text = ""
    for index, (name, recording) in enumerate(runs.items()):
        fig = problem_gallery(recording, title=_headline(runs, recording))
        text += (
            f"<p>{chip(name, index)}</p>{page.figure(fig, sheet=page.sheet(recording), picture=fig.layout.width + 60)}"
        )
    return text


def _covering(page: Page, runs: Runs) -> str:
    curves = {name: _curve(recording, -1) for name, recording in runs.items()}
    if len(runs) == 1:
        name, recording = next(iter(runs.items()))
        moments = Moments.of(recording)
        if moments.several_problems:
            curves = {
                "end of the run": curves[name],
                "end of problem 1": _curve(recording, recording.problems[0].snapshot),
            }
    return COVERING + page.figure(covering_curves(curves))


def _distances(page: Page, runs: Runs) -> str:
    text = ""
    for index, (name, recording) in enumerate(runs.items()):
        fig = distance_histograms(recording.embeddings[-1], recording.labels, *_margins(recording))
        text += f"<p>{chip(name, index)}, last snapshot</p>{page.figure(fig)}"
    return text


def _curve(recording: RecordingLike, at: int) -> Any:
    rows = judged_rows(recording)
    chosen = np.asarray(recording.embeddings[at])[rows], np.asarray(recording.labels)[rows]
    return covering_curve(*(torch.as_tensor(values) for values in chosen))


def _margins(recording: RecordingLike) -> tuple[float | None, float | None]:
    """m⁺ and m⁻ of the contrastive loss C2, whose distances these are, at the last snapshot; no margins for other losses."""
    loss = recording.experiment.get("loss")
    if not isinstance(loss, Mapping) or str(loss.get("name")).lower() != "c2":
        return None, None
    low, high = margins_at(recording, recording.steps[-1:])
    return float(low[0]), float(high[0])
