"""One proxy per class has no spread: each panel says so where the curve would be."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.panels import RunComparison, SettingGrid
from labkit.plots.comparison_traces import CURVES, NO_SPREAD
from labkit.training import shipped_grid
from tests.panels.playgrounds import go
from tests.plots.recordings import make_recording


def one_proxy(seed: int = 0):
    recording = make_recording(2, seed=seed)
    recording.metrics["proxy_spread"] = np.zeros_like(recording.metrics["proxy_spread"])
    return recording


def remarks(figure):
    return [a for a in figure.layout.annotations if "spread" in a.text]


def test_the_playground_draws_no_curve_and_knows_what_to_say(make):
    panel = make("k1")
    go(panel, 10)
    assert panel.figure.scene.proxies.shape[1] == 1 and len(panel.figure.course.steps) == 3
    assert np.isnan(panel.figure.course.values["proxy_spread"]).all()
    assert not np.isnan(panel.figure.course.values["covering_q95"]).any()
    assert [curve["lone"] for curve in panel.figure.theme["curves"]] == ["", "", "", NO_SPREAD]


def test_the_grid_says_so_for_the_cells_with_one_proxy():
    panel = SettingGrid(shipped_grid("lambda-by-k"), explore=False)
    assert panel.grid.axes[1].words()[0] == "1"
    panel.choose(2, 0)
    (said,) = remarks(panel.figure)
    assert (said.text, said.yref) == (NO_SPREAD, "y4 domain") and len(panel.figure.data[8].x) == 1  # the gap alone
    panel.choose(2, 2)
    assert remarks(panel.figure) == [] and len(panel.figure.data[8].x) > 10
    panel.close()


@pytest.mark.parametrize("others", [0, 2])
def test_the_comparison_says_which_runs_have_none(others):
    runs = {"one <1>": one_proxy(), "one": one_proxy(1)}
    runs |= {f"run {seed}": make_recording(2, seed=seed) for seed in range(others)}
    panel = RunComparison(runs)
    (said,) = remarks(panel.figure)
    place, maps = [key for key, _, _ in CURVES].index("proxy_spread"), len(runs)
    assert said.text == ("no spread, one proxy per class:<br>one &lt;1&gt;, one" if others else NO_SPREAD)
    assert said.yanchor == ("bottom" if others else "middle")  # over the others' curves
    assert said.yref == f"y{maps + place + 1} domain"
    curve = [trace for trace in panel.figure.data if trace.xaxis == f"x{maps + place + 1}"]
    assert [len(trace.x) for trace in curve[:4]] == [0] * 4 and all(len(trace.x) for trace in curve[4:])
    panel.timeline.value = 3
    assert len(remarks(panel.figure)) == 1 and "step" in panel.figure.layout.annotations[0].text.lower()
    panel.close()
