"""The figures of a run as a table that any program reads: metrics.csv, one row an evaluation."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labkit.files import storage_error, write_atomically

WHOLE = ("step", "problem")  # columns of whole numbers


class MetricsTable:
    """Keeps a CSV file beside the figures of a run.

    A row is appended in one write, so that a process that is killed leaves whole rows. Where the file's rows are not those
    that are known to be in it (a new run, a resumed one, another set of columns), it is written anew, whole or not at all.

    Parameters
    ----------
    path : the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = 0
        self._columns: list[str] = []

    def write(self, metrics: Mapping[str, Sequence[float]]) -> None:
        """Bring the file up to `metrics`, a list per column and an entry per evaluation.

        Raises
        ------
        LabError : the disk is full or read-only.
        """
        columns = list(metrics)
        count = len(metrics[columns[0]]) if columns else 0
        anew = columns != self._columns or count < self._rows or not self.path.is_file()
        first = 0 if anew else self._rows
        rows = "".join(_line(_cell(name, metrics[name][row]) for name in columns) for row in range(first, count))
        if anew:
            text = (_line(columns) + rows).encode()
            write_atomically(self.path, lambda file: file.write(text))
        elif rows:
            self._append(rows.encode())
        self._columns, self._rows = columns, count

    def _append(self, rows: bytes) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
            try:
                before = os.fstat(descriptor).st_size
                if os.write(descriptor, rows) < len(rows):  # no room for all: what is there stays a table
                    os.ftruncate(descriptor, before)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
        except OSError as error:
            self._columns = []
            raise storage_error(self.path, error) from error


def _line(cells: Iterable[str]) -> str:
    return ",".join(cells) + "\n"


def _cell(name: str, value: float) -> str:
    """The shortest text that reads back as the same number; nothing for NaN."""
    if math.isnan(value):
        return ""
    return str(int(value)) if name in WHOLE else repr(float(value))
