"""The heat map over two settings: values in their cells, hatching where there is none, and what its title says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots import setting_heat_map
from labkit.plots.setting_grid import MEASURES, Side, map_updates, outline, what_matters

ROWS, COLUMNS = ("λ", ["0", "0.02"]), ("K", ["1", "2", "4"])
VALUES = np.array([[0.1, 0.5, 0.9], [0.2, 0.3, math.nan]])


def test_values_are_printed_where_they_belong_and_gaps_are_hatched():
    figure = setting_heat_map(VALUES, ROWS, COLUMNS)
    cells, blanks, hatching = figure.data
    assert [[v is None for v in line] for line in blanks.z] == [[True, True, True], [True, True, False]]
    assert np.array_equal(np.array(cells.z, dtype=float), VALUES, equal_nan=True)
    assert [list(line) for line in cells.text] == [["0.100", "0.500", "0.900"], ["0.200", "0.300", ""]]
    x, y = (np.array([v for v in values if v is not None]) for values in (hatching.x, hatching.y))
    assert len(x) and np.all(np.abs(x - 2) < 0.5) and np.all(np.abs(y - 1) < 0.5)  # the one cell without a value
    assert list(figure.layout.yaxis.ticktext) == ["0", "0.02"] and figure.layout.xaxis.title.text == "K"
    assert "hatched: no run" in figure.layout.title.text
    assert "hatched" not in setting_heat_map(np.ones((2, 3)), ROWS, COLUMNS).layout.title.text


def test_the_hatching_is_slanted_and_inside_of_its_cell():
    lines = map_updates(np.array([[math.nan]]), Side("a", ["1"]), Side("b", ["1"]), "map_at_r")["hatching"]
    x, y = np.array(lines["x"], dtype=float).reshape(-1, 3), np.array(lines["y"], dtype=float).reshape(-1, 3)
    assert np.isnan(x[:, 2]).all() and np.allclose(x[:, 0] + y[:, 0], x[:, 1] + y[:, 1])
    assert max(np.nanmax(abs(x)), np.nanmax(abs(y))) < 0.48


def test_words_stand_in_place_of_the_hatching():
    sides = Side("a", ["1"]), Side("b", ["1", "2", "3"])
    updates = map_updates(np.array([[math.nan, math.nan, 0.5]]), *sides, "map_at_r", [["12%", "", ""]])
    assert updates["blanks"]["text"] == [["12%", "", ""]] and updates["blanks"]["z"] == [[0.0, 0.0, None]]
    x = [value for value in updates["hatching"]["x"] if value is not None]
    assert x and all(0.5 < value < 1.5 for value in x)


def test_the_finding_is_computed():
    sides = Side(*ROWS), Side(*COLUMNS)
    said = what_matters(VALUES, *sides, "map_at_r")
    assert "from 0.100 (λ = 0, K = 1) to 0.900 (λ = 0, K = 4); " in said
    along_rows = np.mean([0.1, 0.2])  # within K = 1 and K = 2; K = 4 has one run
    along_columns = np.mean([0.8, 0.1])
    told = f"at one K the largest and the smallest are {along_rows:.3f} apart on average, at one λ {along_columns:.3f}"
    assert said.endswith(told)
    assert what_matters(np.full((2, 3), math.nan), *sides, "map_at_r") == "No run is done yet"
    one = np.full((2, 3), math.nan)
    one[1, 2] = 0.25
    assert what_matters(one, *sides, "p_at_1") == "P@1 0.250 (λ = 0.02, K = 4)"
    one[1, 1] = 0.5
    assert what_matters(one, *sides, "p_at_1").endswith("; at one λ the largest and the smallest are 0.250 apart on average")


def test_spread_is_logarithmic_and_nothing_where_there_is_one_proxy():
    spread = np.array([[0.0, 1e-4, 1e-2], [0.0, 1e-3, 1e-1]])
    cells = map_updates(spread, Side(*ROWS), Side(*COLUMNS), "proxy_spread")["cells"]
    assert np.allclose(cells["z"], [[-4, -4, -2], [-4, -3, -1]]) and (cells["zmin"], cells["zmax"]) == (-4, -1)
    assert cells["text"][0] == ["0", "1e-4", "0.010"]
    said = what_matters(spread, Side(*ROWS), Side(*COLUMNS), "proxy_spread")
    assert "at one K the largest and the smallest are a factor of 10 apart on average, at one λ a factor of 100" in said
    assert "from 1e-4 (λ = 0, K = 2)" in said
    assert map_updates(np.zeros((1, 1)), Side("a", ["1"]), Side("b", ["1"]), "proxy_spread")["cells"]["z"] == [[0.0]]


def test_small_differences_do_not_fill_the_scale():
    near = map_updates(np.array([[0.90, 0.91]]), Side("a", ["1"]), Side("b", ["1", "2"]), "map_at_r")["cells"]
    assert near["zmax"] - near["zmin"] == pytest.approx(MEASURES["map_at_r"].span)
    assert near["zmin"] < 0.90 and near["zmax"] > 0.91


def test_maps_that_are_compared_share_their_scale():
    maps = [setting_heat_map(np.array([[v, v / 2]]), ("a", ["1"]), ("b", ["1", "2"]), between=(0, 1)) for v in (0.3, 0.9)]
    assert [(m.data[0].zmin, m.data[0].zmax) for m in maps] == [(0, 1), (0, 1)]
    for wrong in ((1, 0), (0, float("nan")), ("low", 1)):
        with pytest.raises(LabError, match="between"):
            setting_heat_map(np.array([[0.5]]), ("a", ["1"]), ("b", ["1"]), between=wrong)


def test_a_frame_encloses_its_cell():
    shape = outline(2, 1)
    assert shape["x0"] < 1 < shape["x1"] and shape["y0"] < 2 < shape["y1"] and shape["x1"] - shape["x0"] < 1


def test_names_have_no_power_over_markup():
    figure = setting_heat_map([[1.0]], ("<b>", ["<i>"]), ("&", ["x"]))
    assert figure.layout.yaxis.ticktext[0] == "&lt;i&gt;" and figure.layout.yaxis.title.text == "&lt;b&gt;"
    assert "<i>" not in figure.layout.title.text


@pytest.mark.parametrize(
    ("values", "measure", "match"),
    [
        (np.ones((3, 2)), "map_at_r", r"shape \(2, 3\).*shape \(3, 2\)"),
        ([["a", "b", "c"]] * 2, "map_at_r", "numbers"),
        (np.full((2, 3), np.inf), "map_at_r", "finite"),
        (VALUES, "map", "Did you mean"),
    ],
)
def test_what_is_refused(values, measure, match):
    with pytest.raises(LabError, match=match):
        setting_heat_map(values, ROWS, COLUMNS, measure=measure)
    with pytest.raises(LabError, match="values"):
        setting_heat_map(np.zeros((0, 0)), ("a", []), ("b", []))
