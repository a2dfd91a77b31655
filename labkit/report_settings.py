"""How to repeat the runs of a report: their commands, and their settings side by side."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from labkit.errors import LabError
from labkit.plots.comparison import flat
from labkit.plots.reading import RecordingLike, Runs
from labkit.set_option import setting_pair

OPTION = "loss.options."


def settings(runs: Runs, command: str) -> str:
    """How to repeat the runs: commands, settings side by side (differences marked), environment."""
    lines = [command] if command else [c for c in (train_command(r) for r in runs.values()) if c]
    text = f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""
    for title, parts in (
        ("Settings", [flat(r.experiment) for r in runs.values()]),
        ("Environment", [flat(r.environment) for r in runs.values()]),
    ):
        keys = list(dict.fromkeys(key for part in parts for key in part))
        if not keys:
            continue
        rows = []
        for key in keys:
            values = [part.get(key, "–") for part in parts]
            mark = ' class="differs"' if any(value != values[0] for value in values) else ""
            cells = "".join(f"<td>{escape(_text(value))}</td>" for value in values)
            rows.append(f"<tr{mark}><td><code>{escape(key)}</code></td>{cells}</tr>")
        head = "".join(f"<th>{escape(name)}</th>" for name in runs)
        note = " (differences are marked)" if len(runs) > 1 else ""
        text += (
            f"<details><summary>{title}{note}</summary><div class='scroll'><table "
            f"class='settings'><thead><tr><th></th>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div></details>"
        )
    events = [(name, e) for name, r in runs.items() for e in r.events]
    if events:
        said = "".join(
            f"<li>{escape(n)}, step {escape(str(e.get('step', '?')))}: {escape(str(e.get('what', '')))}</li>"
            for n, e in events
        )
        text += f"<details><summary>Changed while running</summary><ul>{said}</ul></details>"
    return text


def train_command(recording: RecordingLike) -> str:
    """The command line that trains this run again; empty where its name is no preset's."""
    from labkit.training.experiment import Experiment

    try:
        preset = flat(Experiment.preset(str(recording.experiment.get("name"))).to_dict())
    except LabError:
        return ""
    mine = flat(recording.experiment)
    changes = {key: value for key, value in mine.items() if key not in preset or value != preset[key]}
    loss = recording.experiment.get("loss")
    options = loss.get("options") if isinstance(loss, Mapping) else None
    if options is not None and any(key.startswith(OPTION) and key not in mine for key in preset):  # the preset's go
        changes = {key: value for key, value in changes.items() if not key.startswith(OPTION)}
        changes["loss.options"] = options
    options = [f"--set {setting_pair(*item)}" for item in changes.items()]
    return " ".join(["labkit train", str(recording.experiment["name"]), *options])


def _text(value: Any) -> str:
    """A value in a table: a real number as short as it can be told without another one being meant."""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return str(value) if isinstance(value, float) and float(short) != value else short
