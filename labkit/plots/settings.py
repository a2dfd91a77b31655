"""What one setting does: figures of recorded runs over its values, beside published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.errors import LabError
from labkit.plots.palette import FAINT, INK, plain, present, run_line
from labkit.plots.reading import check_pixels
from labkit.validation import check_choice, check_flag, describe

NAMES = {"map_at_r": "MAP@R", "p_at_1": "P@1", "p_at_r": "P@R", "nmi": "NMI", "proxy_spread": "proxy spread"}


def setting_effect(
    rows: Any,
    figures: Sequence[str] = ("map_at_r", "p_at_1"),
    *,
    setting: str,
    by: str = "value",
    default: Any = None,
    published: Mapping[Any, float] | None = None,
    published_name: str = "published",
    ordered: bool = True,
    title: str | None = None,
    width: int | None = None,
) -> Any:
    """Draw a panel for each figure over the values of a setting: a dot each run, a line through the means; and beside them
    published figures, on an axis of their own, since data and network differ.

    Parameters
    ----------
    rows : DataFrame, a row a run, as `labkit.training.load_results` gives it. figures : its columns to draw.
    setting : its name on the axis. by : column with its values, whose places on the axis are even. default : the value
        that the other settings' runs have, marked by a dotted line.
    published : {value: figure}; `published_name` says what it is, where, whose. ordered : whether the values have an order;
        without one no line joins their means.
    title : instead of the finding, where a figure is highest and lowest: P@1 beside published ones (which are of it), else the
        first. width : pixels; None: 300 for each panel, and at least 560.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    LabError : no rows, no figures, a column that is not there, or one that is empty, a default that no run has, or
        `width` < 10.
    """
    columns = list(getattr(rows, "columns", ()))
    if not columns or not len(rows):
        raise LabError("rows", "a DataFrame with a row for each run", describe(type(rows).__name__))
    if isinstance(figures, str) or not figures:
        raise LabError("figures", "a list of columns", describe(figures))
    for name in (by, *figures):
        check_choice("column", name, columns)
    values, joined = list(dict.fromkeys(rows[by])), check_flag("ordered", ordered)
    leading = "p_at_1" if published and "p_at_1" in figures else figures[0]
    heads = [NAMES.get(name, plain(name)) for name in figures]
    heads += [plain(published_name)] if published else []
    if width is None:
        width = max(560, 300 * len(heads))
    check_pixels("width", width)
    fig = make_subplots(1, len(heads), subplot_titles=[f"<b>{head}</b>" for head in heads], horizontal_spacing=0.09)
    sentences, notes = [], ["dots: one run each; line: their mean" if joined else "dots: one run each; full dots: their mean"]
    for column, figure in enumerate(figures, start=1):
        runs = [rows[figure][rows[by] == value].dropna().to_numpy(float) for value in values]
        if not all(len(found) for found in runs):
            raise LabError("rows", f"a {figure} for every value of {by}", "a value without any")
        means = np.array([found.mean() for found in runs])
        for trace in _traces(values, runs, means, joined):
            fig.add_trace(trace, 1, column)
        if figure == leading:
            sentences.append(f"{heads[column - 1]} over {plain(setting)}: {_extremes(values, means)}")
            apart = max(float(np.ptp(found)) for found in runs)
            notes.append(f"runs of one value differ by up to {apart:.2g} in {heads[column - 1]}")
    if published:
        known = {value: published[value] for value in values if value in published}
        fig.add_trace(_published_trace(known, joined), 1, len(heads))
        sentences.append(f"published: {_extremes(list(known), np.array(list(known.values())))}")
    ticks = [_tick(value) for value in values]
    if default is not None:
        place = ticks.index(check_choice("default", _tick(default), ticks))  # a word would be read as a number here
        fig.add_vline(x=place, line={"color": FAINT, "width": 1, "dash": "dot"}, row=1, col="all")
        notes.append("dotted: what the other studies use")
    if not _even(values):
        notes.append("places are even, values are not")
    head = title if title is not None else "; ".join(sentences)
    present(fig, head, "; ".join(notes), width=width, height=280, above=28)
    fig.update_xaxes(type="category", categoryorder="array", categoryarray=ticks, title_text=plain(setting))
    fig.update_layout(showlegend=False)
    return fig


def _tick(value: Any) -> str:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return f"{value:g}" if number else plain(str(value))


def _even(values: list[Any]) -> bool:
    """Whether numbers rise in equal steps, so that even places show them to scale; words have no scale."""
    if not all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in values):
        return True
    steps = np.diff(np.array(values, dtype=float))
    return bool(np.allclose(steps, steps[:1]))


def _traces(values: list[Any], runs: list[Any], means: Any, joined: bool) -> list[Any]:
    x = [_tick(value) for value, found in zip(values, runs, strict=True) for _ in found]
    line = run_line(1)
    dots = go.Scatter(x=x, y=np.concatenate(runs).round(5), mode="markers", name="run", opacity=0.6,
                      marker={"color": line["color"], "size": 7, "symbol": "circle-open"},
                      hovertemplate="%{x}: %{y:.4f}<extra>one run</extra>")  # fmt: skip
    mean = go.Scatter(x=[_tick(value) for value in values], y=means.round(5), mode=_mode(joined), name="mean",
                      line=line | {"dash": "solid"}, marker={"size": 9},
                      hovertemplate="%{x}: %{y:.4f}<extra>mean</extra>")  # fmt: skip
    return [dots, mean]


def _mode(joined: bool) -> str:
    return "lines+markers" if joined else "markers"


def _published_trace(known: Mapping[Any, float], joined: bool) -> Any:
    return go.Scatter(x=[_tick(value) for value in known], y=list(known.values()), mode=_mode(joined), name="published",
                      line={"color": INK, "width": 1.5, "dash": "dash"}, marker={"symbol": "square", "size": 8},
                      hovertemplate="%{x}: %{y:g}<extra>published</extra>")  # fmt: skip


def _extremes(values: list[Any], means: Any) -> str:
    """Where the means are highest and lowest, all of them that read the same."""
    told = [f"{mean:.3g}" for mean in means]

    def at(place: int) -> str:
        return " and ".join(_tick(value) for value, mean in zip(values, told, strict=True) if mean == told[place])

    high, low = int(means.argmax()), int(means.argmin())
    return f"highest {told[high]} at {at(high)}, lowest {told[low]} at {at(low)}"
