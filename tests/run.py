"""Everything that has to hold, in one command: lint, types, notebooks, tests, browser. Says how long each part took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK_OPTIONS = ("--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=300")
PARTS = {
    "lint": ("ruff", "check", "."),
    "types": ("mypy", "--strict", "labkit"),
    "notebooks": ("pytest", *NOTEBOOK_OPTIONS, "notebooks"),
    "tests": ("pytest", "-rs", "--ignore=tests/browser", "tests"),
    "browser": ("pytest", "-rs", "tests/browser"),
}


def main(wanted: list[str]) -> int:
    """Run the parts named on the command line, or all. Returns 1 if any of them failed, else 0."""
    unknown = set(wanted) - set(PARTS)
    if unknown:
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
        return 2
    results = {}
    for name in wanted or PARTS:
        print(f"--- {name}: {' '.join(PARTS[name])}", flush=True)
        started = time.monotonic()
        status = subprocess.run(
            [sys.executable, "-m", *PARTS[name]], cwd=ROOT, env=_environment(), check=False
        ).returncode
        results[name] = (status, time.monotonic() - started)
    for name, (status, seconds) in results.items():
        print(f"{name:10} {'passed' if status == 0 else f'FAILED ({status})':12} {seconds:6.1f} s")
    return int(any(status for status, _ in results.values()))


def _environment() -> dict[str, str]:
    """The caller's, with the notebooks in their quick profile and this Python's programs found first.

    One thread, unless the caller says otherwise: everything here is small, and two threads on a machine that does
    something else as well wait for each other.
    """
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ.get("PATH", "")])
    return {"LABKIT_PROFILE": "quick", "OMP_NUM_THREADS": "1", **os.environ, "PATH": path}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
