"""How large the notebooks run: quick (two cores, a minute or so) or full (the paper's size)."""

from __future__ import annotations

import os
from typing import TypeVar

from labkit.validation import check_choice

VARIABLE = "LABKIT_PROFILE"
T = TypeVar("T")


def profile() -> str:
    """ "quick" or "full", from the environment variable LABKIT_PROFILE; quick where it is not set.

    Raises
    ------
    LabError : LABKIT_PROFILE is something else.
    """
    return check_choice(VARIABLE, os.environ.get(VARIABLE, "quick") or "quick", ("quick", "full"))


def by_profile(*, quick: T, full: T) -> T:
    """The value for the profile in use."""
    return full if profile() == "full" else quick
