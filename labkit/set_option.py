"""What `--set name=value` says: read by the commands, written by a report that tells how to repeat its run."""

from __future__ import annotations

import json
import shlex
from typing import Any

from labkit.errors import LabError


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """{"a.b": value} from ["a.b=value"]; a value is read as JSON where it is JSON, else as text.

    Raises
    ------
    LabError : a pair without "=" or without a name.
    """
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise LabError("--set", "name=value, e.g. projections.patience=5", repr(pair))
        try:
            settings[name.strip()] = json.loads(text)
        except (ValueError, RecursionError):  # no JSON, a number too long to be read, or brackets too deep
            settings[name.strip()] = text.strip()
    return settings


def setting_pair(key: str, value: Any) -> str:
    """`key=value` for a shell, such that the command reads this value; a word stands as it is where it is read as one."""
    plain = f"{key}={value}"
    return shlex.quote(plain if parse_settings([plain]) == {key: value} else f"{key}={json.dumps(value)}")
