"""Which of many classes stand out in a picture: forty cannot have forty colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import LabError
from labkit.plots.palette import class_color, plain
from labkit.plots.reading import Ints, names_of
from labkit.validation import check_number

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "cross", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "1px,4px")
PALE = "#BBBBBB"
MOST = len(SYMBOLS)


@dataclass(frozen=True)
class StandOut:
    """A class with a look of its own. label : of the class. name : to be shown. color, symbol, dash : never colour alone."""

    label: int
    name: str
    color: str
    symbol: str
    dash: str


def choose_classes(figures: Any, most: int = MOST) -> list[int]:
    """Labels of the classes to look at: the worst by MAP@R, each followed by the class that it is taken for, up to three
    quarters of them; the rest are the best.

    Parameters
    ----------
    figures : `labkit.metrics.ClassFigures`. most : how many, 1 to 8.

    Raises
    ------
    LabError : `most` out of range.
    """
    most = int(check_number("most", most, low=1, high=MOST, whole=True))
    scores = np.asarray(figures.map_at_r)
    order = np.argsort(scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    labels = np.asarray(figures.classes)
    chosen: list[int] = []
    for at in order:
        for label in (int(labels[at]), int(figures.taken_for[at])):
            if label not in chosen and len(chosen) < max(1, 3 * most // 4):
                chosen.append(label)
    best = [int(labels[at]) for at in order[::-1] if int(labels[at]) not in chosen]
    return chosen + best[: most - len(chosen)]


def looks(stand_out: Sequence[int] | None, labels: Ints, class_names: Sequence[str] | None) -> list[StandOut]:
    """The look of each class that stands out: all of them, where there are at most eight and none was asked for.

    Raises
    ------
    LabError : a class that is not among the labels, more than eight, or names that are no list.
    """
    classes = np.unique(labels)
    if stand_out is None:
        stand_out = classes.tolist() if len(classes) <= MOST else []
    asked = list(dict.fromkeys(int(check_number("stand_out", label, whole=True)) for label in stand_out))
    missing = [label for label in asked if label not in classes]
    if missing:
        raise LabError("stand_out", "classes that are among the labels", missing[0])
    if len(asked) > MOST:
        raise LabError("stand_out", f"at most {MOST} classes, which colours and shapes can tell apart", len(asked))
    names = names_of(np.array(asked, dtype=np.int64), class_names)
    return [
        StandOut(label, plain(name), class_color(i), SYMBOLS[i], DASHES[i])
        for i, (label, name) in enumerate(zip(asked, names, strict=True))
    ]
