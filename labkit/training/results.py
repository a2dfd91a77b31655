"""The tables of recorded studies that come with the checkout: one row a run, and means over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.datasets.roots import recorded_folder
from labkit.errors import LabError
from labkit.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd


def results_folder() -> Path:
    """`data/results` of the checkout that labkit runs from.

    Raises
    ------
    LabError : labkit runs from an installed package without a checkout.
    """
    return recorded_folder("results")


def recorded_studies() -> list[str]:
    """Names of the studies that come with labkit."""
    return sorted(path.stem for path in results_folder().glob("*.json"))


def load_results(name: str) -> pd.DataFrame:
    """A study as `notebooks/record.py` wrote it.

    Parameters
    ----------
    name : of the study, e.g. "losses".

    Returns
    -------
    DataFrame, one row a run: what the run was (the study's keys, `seed` among them), its figures on the test pictures
    (`map_at_r`, `p_at_1`, `nmi`, …; NaN where a run has none of it) and `seconds`. Its `attrs` hold `command`,
    `machine` and `data`, one line each.

    Raises
    ------
    LabError : no study of that name.
    """
    import pandas as pd

    check_choice("name", name, recorded_studies())
    found = json.loads((results_folder() / f"{name}.json").read_text(encoding="utf-8"))
    frame = pd.DataFrame([{**row["key"], **row["figures"], "seconds": row["seconds"]} for row in found["rows"]])
    data = sorted({str(row["data"]) for row in found["rows"]})
    frame.attrs = {"command": found["command"], "machine": found["machine"], "data": " / ".join(data)}
    return frame


def summary(
    rows: pd.DataFrame, by: str | Sequence[str], figures: Sequence[str], *, digits: int = 3, seeds: bool = True
) -> pd.DataFrame:
    """Mean ± standard deviation over the runs of each group.

    Parameters
    ----------
    rows : a study, or a part of it. by : the column, or columns, that name the groups, which keep the order in which they
        first come. figures : columns to average. digits : behind the point. seeds : whether the first column counts runs.

    Returns
    -------
    DataFrame of strings, indexed by group, e.g. "0.912 ± 0.004"; a single run has no spread, a figure that no run of
    the group has is blank.

    Raises
    ------
    LabError : a column that `rows` lacks, or no rows.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"loss": ["a", "a", "b"], "p_at_1": [0.5, 0.7, 0.25]})
    >>> summary(rows, "loss", ["p_at_1"]).loc["a", "p_at_1"]
    '0.600 ± 0.141'
    """
    keys = [by] if isinstance(by, str) else list(by)
    for column in (*keys, *figures):
        check_choice("column", column, list(rows.columns))
    if not len(rows) or not keys:
        raise LabError("rows", "at least one run and one column to group by", f"{len(rows)} runs, by {keys}")
    groups = rows.groupby(keys, sort=False, dropna=False)
    table = groups[[]].first()
    if seeds:
        table["seeds"] = groups.size()
    for figure in figures:
        means, spreads = groups[figure].mean(), groups[figure].std(ddof=1)
        table[figure] = [_text(m, s, digits) for m, s in zip(means, spreads, strict=True)]
    return table


def paired_differences(
    rows: pd.DataFrame, by: str, base: str, figures: Sequence[str], *, pair: str = "seed"
) -> pd.DataFrame:
    """Each group's figures less those of `base` in the run with the same seed: what the seed does to both cancels.

    Parameters
    ----------
    rows : a study, or a part of it. by : the column that names the groups. base : the group that is subtracted.
    figures : columns to compare. pair : the column that pairs the runs.

    Returns
    -------
    DataFrame, one row for each group but `base` that shares a seed with it: `pairs`, then for each figure the mean
    difference and in how many pairs it is above 0.

    Raises
    ------
    LabError : a column that `rows` lacks, a group of that name that is not there.
    """
    import pandas as pd

    for column in (by, pair, *figures):
        check_choice("column", column, list(rows.columns))
    check_choice("base", base, [str(name) for name in rows[by].unique()])
    mine = rows[rows[by] == base].set_index(pair)
    table = {}
    for name in [n for n in rows[by].unique() if n != base]:
        theirs = rows[rows[by] == name].set_index(pair)
        shared = theirs.index.intersection(mine.index)
        if not len(shared):
            continue
        entry: dict[str, float | int] = {"pairs": len(shared)}
        for figure in figures:
            difference = theirs.loc[shared, figure] - mine.loc[shared, figure]
            entry |= {figure: float(difference.mean()), f"{figure} higher": int((difference > 0).sum())}
        table[name] = entry
    return pd.DataFrame.from_dict(table, orient="index")


def _text(mean: float, spread: float, digits: int) -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:.{digits}f}" + ("" if math.isnan(spread) else f" ± {spread:.{digits}f}")
