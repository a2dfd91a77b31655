"""Curves over k and over steps."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import covering_curve
from labkit.plots import covering_curves, metric_strips, proxy_spread_over_time
from labkit.plots.log_ticks import log_ticks
from labkit.plots.palette import run_line
from labkit.training.recording import Recording
from tests.plots.recordings import make_recording


def trace(fig: Any, name: str) -> Any:
    return next(t for t in fig.data if t.name == name)


def test_the_thick_curve_is_the_mean_over_classes() -> None:
    fig = covering_curves([np.array([0.9, 0.5, 0.0]), torch.tensor([0.3, 0.0])], at=(1, 2, 9))
    # A class of two samples is covered without rest by its two samples, and stays so.
    assert trace(fig, "mean").y.tolist() == pytest.approx([0.6, 0.25, 0.0])
    assert fig.layout.meta["title"] == "Mean radius 0.600 with k = 1, 0.250 with k = 2"
    assert "0.283" in fig.layout.meta["subtitle"]


def test_thin_curves_are_the_classes_with_gaps_between() -> None:
    fig = covering_curves({"run": [[0.9, 0.5], [0.3]]})
    thin = trace(fig, "run each class")
    assert list(thin.y) == [0.9, 0.5, None, 0.3, None]
    assert list(thin.x) == [1, 2, None, 1, None]


def test_it_takes_what_the_metric_gives() -> None:
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    fig = covering_curves({"a": covering_curve(x, torch.arange(40) % 4)})
    assert len(trace(fig, "a mean").y) == 10
    assert trace(fig, "a mean").y[-1] == 0


@pytest.mark.parametrize("curves", [{}, [], {"a": []}, [[]], [[0.1, float("nan")]]])
def test_curves_without_numbers_are_refused(curves: Any) -> None:
    with pytest.raises(LabError, match="curves"):
        covering_curves(curves)


def test_strips_show_what_was_recorded(ccp: Recording, single: Recording) -> None:
    fig = metric_strips({"CCP": ccp, "single": single})
    assert len(fig.data) == 5 * 2
    ours = [t for t in fig.data if t.name == "CCP"]
    for part, key in zip(
        ours, ("map_at_r", "covering_q95", "proxy_spread", "inter_class_distance", "loss"), strict=True
    ):
        assert part.x.tolist() == ccp.metrics["step"].tolist()
        drawn = 1 - ccp.metrics[key] if key == "map_at_r" else ccp.metrics[key]
        assert part.y.tolist() == pytest.approx(drawn.tolist(), rel=1e-4)
        assert part.customdata.tolist() == pytest.approx(ccp.metrics[key].tolist(), abs=1e-5)
    other = trace(fig, "single")
    assert (other.line.color, other.line.dash) != (ours[0].line.color, ours[0].line.dash)
    assert [fig.layout[f"yaxis{i}"].type for i in (2, 3, 4, 5)] == ["log", "log", "linear", "linear"]


def test_map_at_r_is_stretched_towards_one_and_labelled_with_itself(ccp: Recording) -> None:
    axis = metric_strips(ccp).layout.yaxis
    assert (axis.type, axis.autorange) == ("log", "reversed")
    assert [1 - v for v in axis.tickvals] == pytest.approx([float(text) for text in axis.ticktext])


@pytest.mark.parametrize("scores", [(0.921, 0.93, 0.934), (0.91, 0.911), (0.937,), (1.0, 1.0), (0.3, 0.96)])
def test_map_at_r_within_a_narrow_range_has_labels_among_its_values(ccp: Recording, scores: tuple[float, ...]) -> None:
    metrics = {"step": np.arange(len(scores)), "map_at_r": np.array(scores)}
    axis = metric_strips(replace(ccp, metrics=metrics)).layout.yaxis
    labels = np.array([float(text) for text in axis.ticktext])
    among = (labels >= min(scores) - 5e-4) & (labels <= max(scores) + 5e-4)
    assert among.sum() >= min(2, len(set(scores))) and len(labels) == len(axis.tickvals) == len(set(labels))
    assert np.array(axis.tickvals) == pytest.approx(np.maximum(1 - labels, 1e-9))


def test_low_map_at_r_is_drawn_evenly(ccp: Recording) -> None:
    low, high = np.linspace(0.02, 0.88, 17), np.linspace(0.02, 0.9, 17)
    at_most = {top: replace(ccp, metrics=ccp.metrics | {"map_at_r": scores}) for top, scores in ((0.88, low), (0.9, high))}
    fig = metric_strips(at_most[0.88])
    assert fig.layout.yaxis.type == "linear" and fig.layout.yaxis.autorange is None and fig.layout.yaxis.tickvals is None
    assert fig.data[0].y.tolist() == pytest.approx(low, rel=1e-4)
    both = metric_strips({"low": at_most[0.88], "high": at_most[0.9]})
    assert both.layout.yaxis.autorange == "reversed" and trace(both, "low").y.tolist() == pytest.approx(1 - low, rel=1e-4)


def test_an_axis_that_is_not_even_says_so(ccp: Recording) -> None:
    fig = metric_strips(ccp)
    labels = [fig.layout[f"yaxis{i}"].title.text for i in ("", 2, 3, 4, 5)]
    assert labels == ["MAP@R (held out),<br>stretched near 1", "95 % cover<br>(distance, log)", "proxy spread<br>(distance, log)",
                      "inter-class<br>distance", "loss"]  # fmt: skip
    low = replace(ccp, metrics=ccp.metrics | {"map_at_r": np.linspace(0, 0.5, 17)})
    assert metric_strips(low).layout.yaxis.title.text == "MAP@R<br>(held out)"
    assert proxy_spread_over_time(ccp).layout.yaxis.title.text == "proxy spread (distance, log)"


def test_a_metric_that_nobody_has_gets_no_panel(ccp: Recording) -> None:
    kept = {key: v for key, v in ccp.metrics.items() if not key.startswith(("proxy", "covering"))}
    assert len(metric_strips(replace(ccp, metrics=kept)).data) == 3


def test_boundaries_stand_where_problems_end_but_not_at_the_end_of_the_run(ccp: Recording, single: Recording) -> None:
    lines = {s.x0 for s in proxy_spread_over_time(ccp).layout.shapes}
    assert lines == {400, 800, 1200}
    assert not proxy_spread_over_time(single).layout.shapes
    assert proxy_spread_over_time(ccp).layout.meta["subtitle"] == "dotted lines: a proxy problem ends"
    both = proxy_spread_over_time({"one": single, "A": ccp, "B": ccp})
    assert both.layout.meta["subtitle"] == "vertical lines: a proxy problem ends (dotted: A, dashed: B)"
    assert {(s.x0, s.line.dash) for s in both.layout.shapes} == {(x, d) for x in lines for d in ("dot", "dash")}


@pytest.mark.parametrize("draw", [metric_strips, proxy_spread_over_time])
def test_many_boundaries_are_ticks_over_the_first_panel_and_cross_no_curve(draw: Any, ccp: Recording, single: Recording) -> None:
    busy = make_recording(8)
    fig = draw({"one": single, "A <b>": ccp, "B": busy})
    assert fig.layout.meta["subtitle"] == (
        "ticks at the top: a proxy problem ends, a row for each run (from above: A <b>; B)"
    )
    ticks = fig.layout.shapes
    assert {(t.yref, t.ysizemode, t.yanchor) for t in ticks} == {("paper", "pixel", 1)}
    assert all(0 < t.y0 < t.y1 < 30 for t in ticks)
    rows = {color: [t for t in ticks if t.line.color == color] for color in (run_line(1)["color"], run_line(2)["color"])}
    upper, lower = rows.values()
    assert [t.x0 for t in upper] == [400, 800, 1200] and [t.x0 for t in lower] == [200 * i for i in range(1, 8)]
    assert min(t.y0 for t in upper) > max(t.y1 for t in lower)
    few = draw({"A <b>": ccp})
    assert fig.layout.margin.t > few.layout.margin.t and fig.layout.legend.y > few.layout.legend.y == 1
    alone = draw(make_recording(16))
    assert alone.layout.meta["subtitle"] == "ticks at the top: a proxy problem ends" and len(alone.layout.shapes) == 15


def test_events_are_marked_over_the_ticks(ccp: Recording) -> None:
    events = [{"step": 400, "what": "next problem"}]
    marks = [a for a in metric_strips(replace(make_recording(16), events=events)).layout.annotations if a.text == "▾"]
    assert [m.yshift for m in marks] == [12]
    assert [a.yshift for a in metric_strips(ccp).layout.annotations if a.text == "▾"] == [0]


def test_events_are_marked(ccp: Recording) -> None:
    marks = [a for a in metric_strips({"CCP": ccp}).layout.annotations if a.text == "▾"]
    assert [(m.x, m.hovertext) for m in marks] == [(400, "CCP: learning rate 1e-3 -&gt; 5e-4")]


def test_proxies_that_coincide_still_show_on_the_logarithmic_axis(ccp: Recording) -> None:
    spread = ccp.metrics["proxy_spread"].copy()
    spread[-1] = 0.0
    fig = proxy_spread_over_time(replace(ccp, metrics=ccp.metrics | {"proxy_spread": spread}))
    assert fig.layout.yaxis.type == "log"
    assert fig.data[0].y[-1] == 1e-9


@pytest.mark.parametrize("most", [2, 4, 12])
@pytest.mark.parametrize("span", [(0.627, 0.793), (0.3, 0.9), (2e-5, 0.4), (0.95, 1.05), (1e-9, 1.0), (0.99, 1.01), (4.0, 3e6)])
def test_a_logarithmic_axis_has_two_labels_or_more_among_its_values_written_in_full(span: tuple[float, float], most: int) -> None:
    axis = log_ticks(np.array(span), most)
    among = [tick for tick in axis["tickvals"] if span[0] <= tick <= span[1]]
    assert 2 <= len(among) <= max(8, most) and axis["tickvals"] == sorted(set(axis["tickvals"]))
    for tick, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        said = re.sub(r"(?:^|·)10<sup>(.*)</sup>$", lambda power: f"e{power[1]}", text).replace("−", "-")
        assert float(said if not said.startswith("e") else f"1{said}") == pytest.approx(tick)


def test_one_value_alone_has_labels_around_it_and_none_leave_it_to_plotly() -> None:
    around = [tick for tick in log_ticks(np.array([0.3, 0.3]))["tickvals"] if 0.03 <= tick <= 3]
    assert around == [0.1, 1.0]
    assert "tickvals" not in log_ticks(np.zeros(0))


def test_the_strips_of_narrow_metrics_are_labelled(ccp: Recording, single: Recording) -> None:
    narrow = replace(ccp, metrics=ccp.metrics | {"covering_q95": np.linspace(0.793, 0.627, 17)})
    axis = metric_strips(narrow).layout.yaxis2
    assert {"0.65", "0.7", "0.75"} <= set(axis.ticktext)
    both = metric_strips({"a": narrow, "b": replace(single, metrics=single.metrics | {"covering_q95": np.linspace(7, 6, 17)})})
    assert {"1", "2", "5"} <= set(both.layout.yaxis2.ticktext)
    wide = proxy_spread_over_time(ccp).layout.yaxis
    assert {math.log10(tick) % 1 for tick in wide.tickvals} == {0}


def test_one_run_is_told_from_its_start_to_the_model_that_was_chosen(ccp: Recording) -> None:
    ends = {"map_at_r": np.linspace(0.5, 0.66, 17), "covering_q95": np.linspace(1.0, 0.2, 17)}
    chosen = replace(ccp, metrics=ccp.metrics | ends, final={"chosen_step": 1400.0})
    title = metric_strips(chosen).layout.meta["title"]
    assert title == "Held-out MAP@R 0.500 → 0.640, 95 % cover 1.000 → 0.300 (start → chosen step 1,400)"
    running = metric_strips(replace(chosen, final={})).layout.meta["title"]
    assert running == "Held-out MAP@R 0.500 → 0.660, 95 % cover 1.000 → 0.200 (start → step 1,600)"
    assert metric_strips(chosen, title="mine").layout.meta["title"] == "mine"


def test_evaluations_without_a_value_are_left_out(ccp: Recording) -> None:
    spread = ccp.metrics["proxy_spread"].copy()
    spread[3] = np.nan
    fig = proxy_spread_over_time(replace(ccp, metrics=ccp.metrics | {"proxy_spread": spread}))
    assert len(fig.data[0].y) == 16 and 300 not in fig.data[0].x


def test_a_recording_without_evaluations_gives_an_empty_picture(ccp: Recording) -> None:
    assert metric_strips(replace(ccp, metrics={})).layout.meta["title"] == "Not evaluated yet"
    assert "Too few evaluations" in proxy_spread_over_time(replace(ccp, metrics={})).layout.meta["title"]


def test_no_recording_is_refused() -> None:
    with pytest.raises(LabError, match="recordings: expected at least one recording"):
        metric_strips({})


@pytest.mark.parametrize("curves", [None, 5, "abc", {"a": None}, {"a": 5}, [1.0, 2.0], [[]], {}, []])
def test_what_are_no_curves_is_refused(curves: Any) -> None:
    with pytest.raises(LabError, match="curves: expected"):
        covering_curves(curves)


@pytest.mark.parametrize("at", [None, 4, ("a",), (1.5,), (0,), (-1,)])
def test_what_is_no_k_is_refused(at: Any) -> None:
    with pytest.raises(LabError, match="at: expected"):
        covering_curves([np.array([0.5, 0.0])], at=at)


@pytest.mark.parametrize("draw", [metric_strips, proxy_spread_over_time])
@pytest.mark.parametrize("recordings", [None, 3, {"a": None}, [], "run.npz"])
def test_what_is_no_recording_is_refused(draw: Any, recordings: Any) -> None:
    with pytest.raises(LabError, match="recordings.*: expected a Recording"):
        draw(recordings)


@pytest.mark.parametrize("draw", [metric_strips, proxy_spread_over_time])
@pytest.mark.parametrize("width", [-860, 0, None])
def test_a_width_that_cannot_be_drawn_is_refused(draw: Any, width: Any, ccp: Recording) -> None:
    with pytest.raises(LabError, match="width: expected"):
        draw(ccp, width=width)
