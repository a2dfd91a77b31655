"""What a launcher of several processes has written into the environment, looked at before anybody counts on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from labkit.errors import LabError, said

HINT = "A launcher sets it; to train with one process, unset RANK and WORLD_SIZE."
MEANINGS = {
    "RANK": "the number of this process, from 0",
    "WORLD_SIZE": "how many processes train",
    "LOCAL_RANK": "the number of this process on its machine, from 0",
    "MASTER_PORT": "a port of the machine of process 0, 0 to 65535",
}


def launched() -> bool:
    """Whether a launcher has started this process as one of several.

    Raises
    ------
    LabError : names the variable of the environment that says something impossible, or is missing.
    """
    if not os.environ.get("RANK") or os.environ.get("WORLD_SIZE", "") in ("", "0", "1"):
        return False
    size, rank = launched_as("WORLD_SIZE"), launched_as("RANK")
    if size < 2:
        return False
    if rank >= size:
        raise LabError("RANK", f"a number below WORLD_SIZE, {size}", rank, HINT)
    launched_as("LOCAL_RANK", default="0")
    if launched_as("MASTER_PORT", default="0") > 65535:
        raise LabError("MASTER_PORT", MEANINGS["MASTER_PORT"], os.environ["MASTER_PORT"], HINT)
    return True


def launched_as(name: str, default: str = "") -> int:
    """The whole number >= 0 that the environment has under `name`; `default` where it has none.

    Raises
    ------
    LabError : something else.
    """
    text = os.environ.get(name) or default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise LabError(name, f"{MEANINGS[name]}, as a variable of the environment", repr(text)[:60], HINT)
    return int(text)


@contextmanager
def launch_errors_named() -> Iterator[None]:
    """Around the beginning together: what the launcher's other variables lead to, such as no address of process 0.

    Raises
    ------
    LabError : whatever accelerate or torch refuses.
    """
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        names = "MASTER_ADDR, MASTER_PORT and those of MPI"
        hint = "To train with one process, unset RANK and WORLD_SIZE."
        raise LabError("the launcher", f"{names} as processes need them to find each other", said(error), hint) from error
