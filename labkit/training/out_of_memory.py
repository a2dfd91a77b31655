"""Too little memory, told as something that a user can mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from labkit.errors import LabError, said

SIGNS = ("can't allocate memory", "not enough memory", "out of memory", "cannot allocate memory")


@contextmanager
def memory_named(step: int) -> Iterator[None]:
    """Turn what Python, NumPy and torch raise where memory runs out into a LabError that says what to do.

    Parameters
    ----------
    step : optimiser steps done before.
    """
    try:
        yield
    except LabError:
        raise
    except (MemoryError, RuntimeError) as error:
        told = said(error, 160)
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and not any(sign in told.lower() for sign in SIGNS):
            raise
        hint = "Lower data.samples_per_class, memory.size or photos.size; the last checkpoint is whole."
        raise LabError("memory", "enough for a batch and its gradient", f"{told}, after step {step}", hint) from error
