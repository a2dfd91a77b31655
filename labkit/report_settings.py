"""How to repeat the runs of a report: their commands, and their settings side by side."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from labkit.errors import LabError
from labkit.plots.reading import RecordingLike, Runs


def settings(runs: Runs, command: str) -> str:
    """How to repeat the runs: commands, settings side by side (differences marked), environment."""
    lines = [command] if command else [c for c in (train_command(r) for r in runs.values()) if c]
    text = f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""
    for title, parts in (
        ("Settings", [_flat(r.experiment) for r in runs.values()]),
        ("Environment", [_flat(r.environment) for r in runs.values()]),
    ):
        keys = list(dict.fromkeys(key for part in parts for key in part))
        if not keys:
            continue
        rows = []
        for key in keys:
            values = [part.get(key, "–") for part in parts]
            mark = ' class="differs"' if len(set(values)) > 1 else ""
            rows.append(
                f"<tr{mark}><td><code>{escape(key)}</code></td>{''.join(f'<td>{escape(v)}</td>' for v in values)}</tr>"
            )
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
        preset = _flat(Experiment.preset(str(recording.experiment.get("name"))).to_dict())
    except LabError:
        return ""
    mine = _flat(recording.experiment)
    changes = [f"--set {key}={mine[key]}" for key in mine if mine[key] != preset.get(key)]
    return " ".join(["labkit train", str(recording.experiment["name"]), *changes])


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = f"{value:g}" if isinstance(value, float) else str(value)
    return flat
