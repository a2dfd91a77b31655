"""The parts of the report that are text: each takes runs and gives HTML. Whatever a user or a file said is escaped."""

from __future__ import annotations

import math
from html import escape
from typing import cast

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.plots import findings
from labkit.plots.findings import Moments, number
from labkit.plots.palette import RUN_DASHES, run_line
from labkit.plots.reading import RecordingLike, Runs, value_at
from labkit.training.recorded_sample import recorded_sides
from labkit.training.recording import Recording

_COLUMNS = (
    ("map_at_r", "MAP@R"),
    ("covering_mean", "cover,<br>mean"),
    ("covering_q95", "cover,<br>95 %"),
    ("covering_max", "cover,<br>max"),
    ("proxy_spread", "proxy<br>spread"),
    ("inter_class_distance", "inter-class<br>distance"),
)
_STROKES = dict(zip(RUN_DASHES, ("", "6 4", "2 3", "7 3 2 3", "10 4", "10 3 2 3"), strict=True))
_MARKS = {
    "sample": '<path d="M8 8 L2 4 M8 8 L14 4 M8 8 L8 15" stroke="#009E73" stroke-width="1.6" fill="none"/>',
    "proxy": '<rect x="3" y="3" width="10" height="10" fill="#009E73" stroke="#222" stroke-width="1.5"/>',
    "ring": '<circle cx="8" cy="8" r="5" fill="#fff" stroke="#009E73" stroke-width="2.5"/>',
}


def chip(name: str, index: int) -> str:
    """A run's name behind a piece of its line, as the curves show it."""
    line = run_line(index)
    stroke = f'stroke="{line["color"]}" stroke-width="3" stroke-dasharray="{_STROKES[line["dash"]]}"'
    piece = f'<svg width="30" height="6" aria-hidden="true"><path d="M0 3H30" {stroke}/></svg>'
    return f'<span class="run">{piece}{escape(name)}</span>'


def judged_rows(recording: RecordingLike) -> NDArray[np.int64]:
    """Rows of the recorded sample (m,) of classes that were never trained on; all rows where there are no such classes."""
    try:
        return recorded_sides(cast(Recording, recording)).test
    except LabError:
        return np.arange(len(recording.labels))


def looking_at(runs: Runs) -> str:
    """What the marks mean and what the runs did, in a few sentences."""
    first = next(iter(runs.values()))
    samples, size = first.embeddings.shape[1:]
    proxied = any(r.proxies is not None for r in runs.values())
    items = [("sample", "a sample: colour and number are its class")]
    if proxied:
        items += [("proxy", "a proxy of that class"), ("ring", "a proxy of the next problem, chosen by K-Center")]
    marks = "".join(
        f'<li><svg width="16" height="16" aria-hidden="true">{_MARKS[mark]}</svg>{text}</li>' for mark, text in items
    )
    data = first.environment.get("data")
    origin = f'<p class="why">{escape(str(data))}</p>' if data else ""
    space = "the plane" if size == 2 else f"{size} dimensions"
    text = [
        f"<p>A network places each picture as a point in {space}, and training is to bring pictures of one class "
        "together and to keep "
        + f"classes apart. Here are {samples:,} pictures{_whose(first)}, always the same ones, as it places "
        + f"them.</p>{origin}",
        f'<ul class="marks">{marks}</ul>',
    ]
    if proxied:
        text.append(
            "<p>Training does not compare pictures with pictures but with a few <b>proxies</b> per class, points "
            "that learn as well. "
            "Training against one set of proxies until MAP@R no longer improves is a <b>proxy problem</b>. "
            "Alternating projections (CCP) then take fresh samples as new proxies, those that are farthest from "
            "the old ones "
            "(greedy K-Center), and train on. The dotted circle is the unit ball, into which all points are "
            "normalised.</p>"
        )
    if any(r.proxies is not None and not findings.has_learned_proxies(r) for r in runs.values()):
        text.append(
            "<p>In a run with anchor samples the squares are pictures of the training set, "
            "embedded afresh at every step, in the place of proxies that learn.</p>"
        )
    text.append(
        "<p><b>MAP@R</b> (0 to 1): how well each held-out picture's nearest neighbours are of its own class. "
        "<b>Cover</b>: the distance from a "
        "sample to its class's nearest proxy. <b>Proxy spread</b>: mean distance between the proxies of one class. "
        "<b>Inter-class distance</b>: mean distance between pictures of different classes.</p>"
    )
    return "".join(text)


def _whose(recording: RecordingLike) -> str:
    unseen, samples = len(judged_rows(recording)), len(recording.labels)
    if unseen == samples:
        return " that it was not trained on"
    return f", {samples - unseen:,} of classes that it is trained on and {unseen:,} of classes that it never sees"


def table(runs: Runs) -> str:
    """The figures of each run at its start, after the first problem and at the end, as one table."""
    rows = []
    origin = findings.common_origin(runs)
    for index, (name, recording) in enumerate(runs.items()):
        moments = Moments.of(recording)
        moment_names = [(moments.begin, "start"), (moments.end, "end")]
        if moments.several_problems:
            moment_names.insert(1, (moments.first, "after problem 1"))
        elif origin is not None and (moments.begin or 0) < origin < (moments.end or 0):
            moment_names.insert(1, (origin, "meanwhile"))
        if moments.begin == moments.end:
            moment_names = moment_names[:1]
        for step, what in moment_names:
            if step is None:
                rows.append(
                    f"<tr><td>{chip(name, index)}</td><td class='text'>not evaluated "
                    f"yet</td>{'<td>–</td>' * len(_COLUMNS)}</tr>"
                )
                break
            cells = "".join(f"<td>{number(value_at(recording, key, step))}</td>" for key, _ in _COLUMNS)
            rows.append(f"<tr><td>{chip(name, index)}</td><td class='text'>{what}, step {step:,}</td>{cells}</tr>")
    head = "".join(f"<th>{label}</th>" for _, label in _COLUMNS)
    caption = (
        "MAP@R on held-out pictures, the rest on the pictures shown; distances in units of the embedding; cover: "
        "within each class, "
        "then the mean over classes. A dash: not measured, e.g. because the method has no proxies."
    )
    if any(_starts_huddled(recording) for recording in runs.values()):
        caption += (
            " At the start all distances are small because an untrained network puts all pictures close together."
        )
    final = "".join(_final(name, index, recording) for index, (name, recording) in enumerate(runs.items()))
    return (
        f'<div class="scroll"><table><caption>{caption}</caption>'
        f'<thead><tr><th>run</th><th class="text">when</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{final}"
    )


def _starts_huddled(recording: RecordingLike) -> bool:
    moments = Moments.of(recording)
    ends = [
        value_at(recording, "inter_class_distance", step) for step in (moments.begin, moments.end) if step is not None
    ]
    return len(ends) == 2 and ends[0] < 0.5 * ends[1]


def _final(name: str, index: int, recording: RecordingLike) -> str:
    figures = {"map_at_r": "MAP@R", "p_at_1": "P@1", "p_at_r": "P@R"}
    parts = [
        f"{label} {number(float(recording.final[key]), 4)}"
        for key, label in figures.items()
        if key in recording.final and math.isfinite(float(recording.final[key]))
    ]
    return (
        f"<p>{chip(name, index)}: the chosen model on the whole test set: <b>{', '.join(parts)}</b>.</p>"
        if parts
        else ""
    )


def notice(runs: Runs) -> str:
    """Sentences computed from the runs, each with why it matters."""
    blocks = []
    origin = findings.common_origin(runs)
    for index, (name, recording) in enumerate(runs.items()):
        since = None if Moments.of(recording).several_problems else origin
        lines: list[tuple[str, str]] = []
        if recording.proxies is not None:
            method = str(recording.experiment.get("method", "ccp"))
            if method != "samples":  # whose anchors are embedded anew at every step: nothing draws them together
                said, why = findings.collapse(recording), "Proxies on one point say no more than a single proxy would."
                lines.append((said, "" if said == findings.ALONE else why))
            if recording.experiment.get("method") == "ccp" and lines[0][0] != findings.ALONE:
                lines.append((findings.spread_again(recording), "Spread proxies speak for more of their class."))
            why = "The smaller, the better the proxies stand for all samples of their class."
            lines.append((findings.change(recording, "covering_q95", "The 95 % cover", since=since), why))
        lines.append((findings.change(recording, "map_at_r", "MAP@R", since=since, points=True), ""))
        lines.append(
            (findings.change(recording, "inter_class_distance", "The distance between classes", since=since), "")
        )
        items = "".join(f'<li>{escape(said)}. <span class="why">{escape(why)}</span></li>' for said, why in lines)
        blocks.append(f"<p>{chip(name, index)}</p><ul>{items}</ul>")
    compared = findings.compare(runs)
    if compared:
        blocks.append(f"<p><b>Side by side</b></p><ul>{''.join(f'<li>{escape(line)}.</li>' for line in compared)}</ul>")
    return f'<div class="notice">{"".join(blocks)}</div>'
