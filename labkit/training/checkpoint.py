"""A run's state on disk: one file, replaced whole, read without unpickling anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.models.torch_files import read_torch_file

FORMAT = 1


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` (tensors, numbers, strings, lists, dictionaries) in place of the last checkpoint, whole or not at all.

    Raises
    ------
    LabError : the disk is full or read-only; the last checkpoint is still there.
    """
    write_atomically(path, lambda file: torch.save({"format": FORMAT, **state}, file))


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote, onto the CPU.

    Raises
    ------
    LabError : no such file, truncated, corrupt, not a checkpoint, or from a newer labkit.
    """
    where = Path(path)
    if not where.is_file():
        raise LabError(str(path), "a checkpoint written by an earlier run", "nothing there", "Start without --resume.")
    try:
        state = read_torch_file(where)
    except LabError as error:
        raise LabError(str(path), "a whole checkpoint as labkit writes it", error.got, "Delete it and start again.") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise LabError(str(path), f"a checkpoint of format {FORMAT}", f"format {found}")
    return state
