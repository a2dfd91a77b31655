"""A run as the Python that repeats it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from labkit.training.experiment import Experiment


def as_code(
    experiment: Experiment,
    events: Iterable[Mapping[str, Any]],
    steps: int,
    loss: str = "",
    to_fill_in: Mapping[str, str] | None = None,
) -> str:
    """Python that makes the same recording again.

    Parameters
    ----------
    experiment : what the run began with. events : changes by hand since, as the recording has them.
    steps : how far the run has gone. loss : the expression that makes a loss of the user's own; empty for the experiment's.
    to_fill_in : arguments of `replay` that have no expression, such as a loss made by hand, and what belongs in their place:
        they are written as `name=...` with that as a comment, and `replay` refuses them until somebody has filled them in.

    Returns
    -------
    str : imports, `experiment = Experiment(...)` with what differs from the defaults, the events, and `recording = ...`.
    """
    sections: list[str] = []
    arguments = _differing(experiment, sections)
    moved = [dict(event) for event in events if "setting" in event]
    lines = ["from labkit.training import Experiment", "from labkit.training.controls import replay"]
    if sections:
        lines.append(f"from labkit.training.sections import {', '.join(sorted(set(sections)))}")
    lines += ["", "experiment = Experiment(", *(f"    {argument}," for argument in arguments), ")"]
    lines += ["events = [", *(f"    {_literal(event)}," for event in moved), "]"] if moved else ["events = []"]
    call = f"experiment, events, steps={steps}" + (f", loss={loss}" if loss else "")
    if to_fill_in:
        lines += ["recording = replay(", f"    {call},"]
        lines += [f"    {name}=...,  # {what}" for name, what in to_fill_in.items()]
        lines += [")", ""]
    else:
        lines += [f"recording = replay({call})", ""]
    return "\n".join(lines)


def _differing(value: Any, sections: list[str]) -> list[str]:
    """`name=value` for each field of a dataclass that differs from its default; notes the sections it names."""
    found = []
    for part in dataclasses.fields(value):
        mine = getattr(value, part.name)
        standard = part.default_factory() if part.default_factory is not dataclasses.MISSING else part.default
        if mine == standard:
            continue
        if dataclasses.is_dataclass(mine):
            sections.append(type(mine).__name__)
            found.append(f"{part.name}={type(mine).__name__}({', '.join(_differing(mine, sections))})")
        else:
            found.append(f"{part.name}={_literal(mine)}")
    return found


def _literal(value: Any) -> str:
    """A setting as Python writes it; infinity and NaN have no literal."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(part)}' for key, part in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
