"""What differs between runs, what came out, and the timeline they share."""

from __future__ import annotations

import re

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots.comparison import (
    comparison_table,
    differing_settings,
    final_figures,
    flat,
    runs_of,
    shared_steps,
    snapshot_at,
    standing,
)
from labkit.plots.comparison_traces import CURVES, column, curve_axis, curve_traces, grid, map_positions, map_traces
from labkit.plots.film import Film
from tests.plots.recordings import make_recording


def pair():
    first, second = make_recording(4), make_recording(1, seed=1, snapshots=9)
    second.experiment = {**second.experiment, "method": "proxy", "loss": {"name": "c1", "options": {"margin": 0.5}}}
    return {"CCP": first, "<one>": second}


def test_settings_that_differ_and_only_those():
    rows = differing_settings(pair())
    assert rows == {"method": ["ccp", "proxy"], "loss.name": ["c2", "c1"], "loss.options": ["{}", "–"],
                    "loss.options.margin": ["–", "0.5"]}  # fmt: skip
    assert differing_settings({"a": make_recording(2), "b": make_recording(2)}) == {}
    assert flat({"a": {"b": {"c": 1}}, "d": 2}) == {"a.b.c": 1, "d": 2}


def test_final_figures_leave_out_what_no_run_has():
    runs = pair()
    runs["CCP"].final["proxy_spread"] = 2.04e-5
    del runs["<one>"].final["p_at_1"]
    figures = final_figures(runs)
    assert figures == {"MAP@R, test": ["0.9550", "0.9550"], "P@1, test": ["0.9810", "–"], "proxy spread": ["2e-5", "–"]}


def test_the_table_has_a_column_per_run_and_names_have_no_power():
    table = comparison_table(pair())
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert len(rows) == 2 + 4 + 2 and all(len(re.findall("<t[hd]", row)) == 3 for row in rows)
    assert "<one>" not in table and "&lt;one&gt;" in table
    assert "nothing" in comparison_table({"a": make_recording(2), "b": make_recording(2)})


def test_runs_are_named_by_experiment_seed_and_number():
    a, b, c = make_recording(2), make_recording(2), make_recording(2)
    b.experiment = {**b.experiment, "seed": 1}
    assert list(runs_of([a])) == list(runs_of(a)) == ["mnist-2d-ccp"]
    assert list(runs_of([a, b])) == ["mnist-2d-ccp, seed 0", "mnist-2d-ccp, seed 1"]
    assert list(runs_of([a, b, c])) == ["mnist-2d-ccp, seed 0 (1)", "mnist-2d-ccp, seed 1", "mnist-2d-ccp, seed 0 (3)"]
    assert list(runs_of({"mine": a})) == ["mine"]


@pytest.mark.parametrize("wrong", ["name", 3, [], {}, [make_recording(1)] * 7, ["no recording"]])
def test_what_are_no_recordings(wrong):
    with pytest.raises(LabError, match="recordings"):
        runs_of(wrong)


def test_all_share_a_timeline_on_which_each_shows_its_last_snapshot():
    runs = pair()
    steps = shared_steps(runs)
    assert steps.tolist() == sorted({*runs["CCP"].steps.tolist(), *runs["<one>"].steps.tolist()})
    for recording in runs.values():
        for step in steps:
            at = snapshot_at(recording, int(step))
            assert recording.steps[at] <= step and (at + 1 == len(recording.steps) or recording.steps[at + 1] > step)
    late = make_recording(1)
    late.steps = late.steps + 100
    assert snapshot_at(late, 0) == 0


def test_who_stands_ahead():
    runs = pair()
    runs["CCP"].metrics["map_at_r"] = np.full(17, 0.9)
    runs["<one>"].metrics["map_at_r"] = np.full(9, 0.7)
    assert "CCP is ahead by 20.0 points (CCP: 0.900; <one>: 0.700)" in standing(runs, 800)
    runs["<one>"].metrics["map_at_r"][:] = 0.897
    assert "practically the same" in standing(runs, 800)
    assert standing({"CCP": runs["CCP"]}, 800) == "Step 800: MAP@R 0.900 (CCP)."
    assert "not evaluated yet" in standing(runs, -1)


@pytest.mark.parametrize("maps", [1, 2, 3, 4])
def test_every_subplot_has_its_place_in_the_grid(maps):
    specs = grid(maps)
    for line, count in zip(specs, (maps, len(CURVES)), strict=True):
        begins = [i + 1 for i, cell in enumerate(line) if cell]
        assert begins == [column(place, count, maps) for place in range(count)]
        assert sum(cell["colspan"] for cell in line if cell) == len(line)


def test_maps_and_curves_hold_the_recording():
    runs = pair()
    film = Film(runs["CCP"], 60)
    last = runs["CCP"].problems[1].snapshot
    positions = map_positions(film, last)
    assert len(positions) == len(map_traces(film))
    assert [len(p["x"]) for p in positions] == [len(film.rows), 40, 40, 10]
    assert len(map_positions(film, last - 1)[2]["x"]) == 0  # the next proxies stand at a problem's end only
    curve, ends, *_ = curve_traces(runs, "proxy_spread", True, legend=True)
    assert list(curve.y) == pytest.approx(runs["CCP"].metrics["proxy_spread"]) and len(ends.x) == 4
    stretched = curve_traces(runs, "map_at_r", False, legend=False)[0]
    assert list(stretched.y) == pytest.approx(1 - runs["CCP"].metrics["map_at_r"])


def test_a_curve_and_its_axis_agree_on_the_scale_and_the_label_names_it():
    run = make_recording(4)
    assert curve_axis({"a": run}, "map_at_r", "MAP@R", False)["title_text"] == "MAP@R,<br>stretched near 1"
    assert curve_axis({"a": run}, "proxy_spread", "proxy spread", True)["title_text"] == "proxy spread (log)"
    assert curve_axis({"a": run}, "loss", "loss", False) == {"title_text": "loss", "type": "linear"}
    run.metrics["map_at_r"] = np.linspace(0, 0.5, 17)
    assert curve_axis({"a": run}, "map_at_r", "MAP@R", False) == {"title_text": "MAP@R", "type": "linear"}
    assert list(curve_traces({"a": run}, "map_at_r", False, legend=False)[0].y) == run.metrics["map_at_r"].tolist()
