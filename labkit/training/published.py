"""Figures that others published, from published.toml, to stand beside our own."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.training.experiment import Experiment


@dataclass(frozen=True)
class Published:
    """A row of a published table.

    Parameters
    ----------
    title : as the paper calls the method. source : paper and setting.
    figures : name of a figure -> value in 0 ... 1; MLRC's are named `concatenated_...` and `separated_...`.
    """

    title: str
    source: str
    figures: dict[str, float]


def published(row: str, data: str) -> Published | None:
    """The published row of a method on a data set; None where there is none.

    Parameters
    ----------
    row : as in published.toml, e.g. "c2-ccp-l" or "rll-h". data : "cub", "cars", "sop" or "in-shop".
    """
    for table in _tables().values():
        found = table["rows"].get(row)
        if found is None or data not in found:
            continue
        values, figures = found[data], {}
        kinds = {f"{kind}_": numbers for kind, numbers in values.items()} if isinstance(values, dict) else {"": values}
        for kind, numbers in kinds.items():
            for name, number in zip(table["columns"], numbers, strict=True):
                figures[f"{kind}{name}"] = number / 100
        return Published(found["title"], table["source"], figures)
    return None


def published_beside(experiment: Experiment) -> Published | None:
    """The published row of an experiment that still has its preset's name, `<data>-<row>`; None where there is none."""
    source = experiment.data.source
    return published(experiment.name.removeprefix(f"{source}-"), source)


def published_line(experiment: Experiment) -> str:
    """The published figures (fractions) of an experiment's row as a line that names paper and protocol; "" without any."""
    row = published_beside(experiment)
    if row is None:
        return ""
    figures = ", ".join(f"{name} {value:.4f}" for name, value in row.figures.items())
    return f"Published, {row.title}: {figures} ({row.source})"


@functools.cache
def _tables() -> dict[str, Any]:
    text = resources.files("labkit.training").joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
