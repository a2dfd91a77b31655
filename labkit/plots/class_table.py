"""Classes by themselves as a table, worst first."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import LabError
from labkit.plots.reading import names_of
from labkit.validation import check_number

if TYPE_CHECKING:
    import pandas as pd
    from pandas.io.formats.style import Styler

TINT = "#BFDDEE"


def class_table(
    figures: Any, class_names: Sequence[str] | None = None, *, before: Any = None, most: int | None = None
) -> pd.DataFrame:
    """A row for each class, lowest MAP@R first.

    Parameters
    ----------
    figures : `labkit.metrics.ClassFigures`. class_names : by label. before : figures of the same classes at another
        moment; two columns then say by how much MAP@R and the curve have changed. most : so many rows only.

    Returns
    -------
    DataFrame, indexed by class: samples, MAP@R, P@1, curve (mean of the k-Center curve), the class it is taken for and
    the share of its first R neighbours that are of that class; empty where no other class holds any.

    Raises
    ------
    LabError : `before` of other classes, `most` below 1.
    """
    import pandas as pd

    classes = np.asarray(figures.classes)
    names = np.array(names_of(classes, class_names), dtype=object)
    other = np.searchsorted(classes, np.asarray(figures.taken_for))
    share = np.asarray(figures.share, dtype=np.float64)
    columns: dict[str, Any] = {
        "samples": np.asarray(figures.samples),
        "MAP@R": np.asarray(figures.map_at_r),
        "P@1": np.asarray(figures.p_at_1),
        "curve": np.asarray(figures.covering),
        "taken for": np.where(share > 0, names[other], ""),
        "share": share,
    }
    if before is not None:
        if not np.array_equal(np.asarray(before.classes), classes):
            raise LabError("before", f"the same {len(classes)} classes", f"{len(np.asarray(before.classes))} others")
        columns["change in MAP@R"] = columns["MAP@R"] - np.asarray(before.map_at_r)
        columns["change in curve"] = columns["curve"] - np.asarray(before.covering)
    table = pd.DataFrame(columns, index=pd.Index(names, name="class")).sort_values("MAP@R", kind="stable")
    return table if most is None else table.head(int(check_number("most", most, low=1, whole=True)))


def shaded(table: pd.DataFrame) -> Styler:
    """The table with three decimals, changes with their sign, and a bar behind each MAP@R and P@1."""
    formats = {name: "{:+.3f}" if name.startswith("change") else "{:.3f}" for name in table.select_dtypes("floating").columns}
    bars = [name for name in ("MAP@R", "P@1") if name in table]
    mark = f"classes{zlib.crc32('|'.join(map(str, table.index)).encode()):08x}"  # a chance one would change at every run
    style = table.style.format(formats, na_rep="–").set_uuid(mark)
    return style.bar(subset=bars, color=TINT, vmin=0, vmax=1) if bars else style
