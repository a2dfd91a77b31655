"""The picture of one setting's effect against plain means."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from labkit.errors import LabError
from labkit.plots import setting_effect

ROWS = pd.DataFrame(
    {
        "value": [0.0, 10.0, 5.0] * 2,
        "map_at_r": [0.2, 0.5, 0.4, 0.4, 0.7, 0.2],
        "p_at_1": [0.9] * 6,
        "nmi": [np.nan] * 6,
    }
)
PUBLISHED = {0.0: 78.8, 10.0: 79.8, 20.0: 78.6}


def test_dots_are_runs_and_the_line_is_their_mean() -> None:
    fig = setting_effect(ROWS, setting="T", default=10)
    first, second = [t for t in fig.data if t.name == "mean"]
    assert list(first.x) == ["0", "10", "5"] and list(first.y) == pytest.approx([0.3, 0.6, 0.3])
    assert list(second.y) == pytest.approx([0.9] * 3)
    dots = next(t for t in fig.data if t.name == "run")
    assert list(zip(dots.x, dots.y, strict=True)) == [
        ("0", 0.2),
        ("0", 0.4),
        ("10", 0.5),
        ("10", 0.7),
        ("5", 0.4),
        ("5", 0.2),
    ]
    assert fig.layout.meta["title"] == "MAP@R over T: highest 0.6 at 10, lowest 0.3 at 0 and 5"
    assert "runs of one value differ by up to 0.2 in MAP@R" in fig.layout.title.text
    assert "places are even, values are not" in fig.layout.title.text  # 0, 10, 5
    assert list(fig.layout.xaxis.categoryarray) == ["0", "10", "5"]
    assert [shape.x0 for shape in fig.layout.shapes] == [1, 1]  # its place on the axis of words


def test_published_figures_stand_beside_on_their_own_axis_and_say_so() -> None:
    fig = setting_effect(ROWS, ["map_at_r"], setting="T", published=PUBLISHED, published_name="published: SOP, R@1")
    trace = fig.data[-1]
    assert list(trace.x) == ["0", "10"] and list(trace.y) == [78.8, 79.8] and trace.yaxis == "y2"
    assert fig.layout.annotations[1].text == "<b>published: SOP, R@1</b>"
    assert fig.layout.meta["title"].endswith("; published: highest 79.8 at 10, lowest 78.8 at 0")


def test_beside_published_recall_the_title_tells_of_its_counterpart() -> None:
    title = setting_effect(ROWS.assign(p_at_1=[0.9, 0.8, 0.7] * 2), setting="T", published=PUBLISHED).layout.meta["title"]
    assert title == "P@1 over T: highest 0.9 at 0, lowest 0.7 at 5; published: highest 79.8 at 10, lowest 78.8 at 0"


def test_values_without_an_order_are_not_joined_and_even_ones_need_no_note() -> None:
    words = ROWS.assign(value=["L", "H", "M"] * 2)
    fig = setting_effect(words, setting="level", published={"L": 1.0, "M": 2.0}, ordered=False)
    assert {trace.mode for trace in fig.data} == {"markers"}
    for rows in (words, ROWS.replace({"value": {10.0: 5.0, 5.0: 10.0}})):
        assert "places are even" not in setting_effect(rows, setting="T").layout.title.text
    with pytest.raises(LabError, match="ordered: expected True or False"):
        setting_effect(words, setting="level", ordered="no")


def test_a_default_that_no_run_has_is_named() -> None:
    with pytest.raises(LabError, match="default"):
        setting_effect(ROWS, setting="T", default=20)


def test_words_are_values_too_and_cannot_act_as_markup() -> None:
    rows = pd.DataFrame({"value": ["<b>L", "H"], "p_at_1": [0.1, 0.2]})
    fig = setting_effect(rows, ["p_at_1"], setting="levels")
    assert list(fig.data[1].x) == ["&lt;b&gt;L", "H"]


@pytest.mark.parametrize(
    ("rows", "figures", "message"),
    [
        (ROWS.iloc[:0], ["map_at_r"], "rows: expected a DataFrame with a row for each run"),
        ([1, 2], ["map_at_r"], "rows: expected a DataFrame"),
        (ROWS, [], "figures: expected a list of columns"),
        (ROWS, "map_at_r", "figures: expected a list of columns"),
        (ROWS, ["map_at_rr"], "Did you mean 'map_at_r'"),
        (ROWS, ["nmi"], "rows: expected a nmi for every value of value"),
    ],
)
def test_what_cannot_be_drawn_is_named(rows, figures, message) -> None:
    with pytest.raises(LabError, match=message):
        setting_effect(rows, figures, setting="T")
