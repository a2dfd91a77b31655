"""Figures of domains over a run, curves by class, and the table of classes."""

import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import class_figures, covering_curve, domain_figures, mean_covering_curve
from labkit.metrics.domains import DOMAIN_FIGURES
from labkit.plots import class_curves, class_table, domain_strips
from labkit.plots.class_table import shaded
from labkit.plots.domain_figures import NAMES


def test_every_figure_has_a_name_for_readers():
    assert tuple(NAMES) == DOMAIN_FIGURES


def test_strips_draw_each_domain_in_each_panel(shrinking_run):
    figures = domain_figures(*shrinking_run, only=["map_at_r", "covering", "relative"])
    fig = domain_strips({"test": ([0, 10, 20], figures), "train <b>": ([0, 20], {k: v[[0, 2]] for k, v in figures.items()})})
    assert len(fig.data) == 6 and [t.showlegend for t in fig.data] == [True, False, False] * 2
    assert fig.data[1].y == pytest.approx(figures["covering"], abs=1e-5) and list(fig.data[3].x) == [0, 20]
    assert {(t.line.color, t.line.dash, t.marker.symbol) for t in fig.data[:3]}.isdisjoint(
        {(t.line.color, t.line.dash, t.marker.symbol) for t in fig.data[3:]}
    )
    two = domain_strips({"test": ([0, 10, 20], figures)}, columns=2)  # three panels: the second's column ends above
    assert [two.layout[f"xaxis{i}"].title.text for i in ("", 2, 3)] == [None, "step", "step"]
    change, ratio = figures["map_at_r"][2] - figures["map_at_r"][0], figures["relative"][2] / figures["relative"][0] - 1
    assert fig.layout.meta["title"].startswith(f"MAP@R: {change:+.3f} for test, {change:+.3f} for train <b>; ")
    assert f"{ratio:+.0%} for test" in fig.layout.meta["title"]
    assert "&lt;b&gt;" in fig.layout.title.text


def test_a_level_is_a_thin_line_in_the_panels_that_it_has_a_figure_for(shrinking_run):
    figures = domain_figures(*shrinking_run, only=["map_at_r", "covering"])
    fig = domain_strips({"test": ([0, 10, 20], figures)}, level=("untrained <i>", {"map_at_r": 0.25}))
    (line,) = [t for t in fig.data if t.legendgroup == "level"]
    assert list(line.x) == [0, 20] and list(line.y) == [0.25, 0.25] and line.line.width == 1 and line.showlegend
    assert line.xaxis == fig.data[0].xaxis and line.name == "untrained &lt;i&gt;"
    with pytest.raises(LabError, match="level map_at_r"):
        domain_strips({"test": ([0, 10, 20], figures)}, level=("untrained", {"map_at_r": float("nan")}))


def test_of_many_domains_the_title_names_the_extremes():
    runs = {name: ([0, 1], {"map_at_r": [0.5, 0.5 + gain]}) for name, gain in (("a", 0.1), ("b", 0.3), ("c", -0.2), ("d", 0.0))}
    assert domain_strips(runs).layout.meta["title"] == "MAP@R: +0.300 for b, -0.200 for c"


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        ({}, "domains"),
        ({"a": ([0], {"loss": [1]})}, "a figure that all have"),
        ({"a": ([0, 1], {"covering": [1.0]})}, "covering"),
    ],
)
def test_strips_refuse_what_does_not_fit(domains, words):
    with pytest.raises(LabError, match=words):
        domain_strips(domains)


# ---------------------------------------------------------------- curves by class


def test_curves_have_a_frame_for_each_moment_and_end_at_the_last(shrinking_run):
    x, y = shrinking_run
    curves = {name: covering_curve(at, y) for name, at in zip(("before", "(a)", "end"), x, strict=True)}
    fig = class_curves(curves, y, stand_out=[7, 2])
    assert [f.name for f in fig.frames] == ["before", "(a)", "end"]
    slider = fig.layout.sliders[0]
    assert slider.active == 2 and [s.args[0][0] for s in slider.steps] == ["before", "(a)", "end"]
    shown = {t.name: t for t in fig.data}
    assert list(shown) == ["other classes", "7", "2", "mean over classes", "mean, before"]
    assert list(shown["7"].y) == pytest.approx(curves["end"][7].tolist(), abs=1e-4)
    assert list(shown["mean over classes"].y) == pytest.approx(mean_covering_curve(x[2], y).radii.tolist(), abs=1e-4)
    assert list(shown["mean, before"].y) == pytest.approx(mean_covering_curve(x[0], y).radii.tolist(), abs=1e-4)
    assert sum(v is None for v in shown["other classes"].y) == 7
    for frame, at in zip(fig.frames, x, strict=True):
        assert list(frame.traces) == [0, 1, 2, 3]
        assert list(frame.data[3].y) == pytest.approx(mean_covering_curve(at, y).radii.tolist(), abs=1e-4)
    assert f"{mean_covering_curve(x[2], y).mean:.3f} at “end”" in fig.layout.meta["title"]


def test_curves_open_at_the_moment_asked_for(shrinking_run):
    x, y = shrinking_run
    curves = {name: covering_curve(at, y) for name, at in zip(("before", "chosen", "end"), x, strict=True)}
    fig = class_curves(curves, y, stand_out=[7], shown="chosen")
    assert fig.layout.sliders[0].active == 1 and [f.name for f in fig.frames] == list(curves)
    assert list(fig.data[1].y) == pytest.approx(curves["chosen"][7].tolist(), abs=1e-4)
    assert fig.data[1].y[-1] == 0 and "down to 0 where every sample is a centre" in fig.layout.meta["subtitle"]
    assert fig.layout.meta["title"].endswith(f"{mean_covering_curve(x[1], y).mean:.3f} at “chosen”")
    with pytest.raises(LabError, match="shown"):
        class_curves(curves, y, shown="later")


def test_one_moment_needs_no_slider(shrinking_run):
    fig = class_curves({"now": covering_curve(shrinking_run[0][0], shrinking_run[1])}, shrinking_run[1])
    assert len(fig.layout.sliders) == 0


@pytest.mark.parametrize("curves", [{}, [], {"a": [[1.0]]}, {"a": [[1.0], []] + [[1.0]] * 7}])
def test_curves_that_do_not_fit_are_refused(shrinking_run, curves):
    with pytest.raises(LabError, match="curves"):
        class_curves(curves, shrinking_run[1])


# ---------------------------------------------------------------- table


def test_table_has_the_worst_class_first(shrinking_run):
    x, y = shrinking_run
    figures, before = class_figures(x[1], y), class_figures(x[0], y)
    names = [f"bird {c}" for c in range(9)]
    table = class_table(figures, names, before=before)
    assert table["MAP@R"].is_monotonic_increasing and set(table.index) == set(names)
    row = table.loc["bird 7"]
    assert row["samples"] == 9 and row["curve"] == pytest.approx(float(figures.covering[7]))
    assert row["change in MAP@R"] == pytest.approx(float(figures.map_at_r[7] - before.map_at_r[7]))
    assert set(table["taken for"]) <= {*names, ""} and (table.index != table["taken for"]).all()
    assert len(class_table(figures, most=3)) == 3 and list(class_table(figures).index) != names
    page = shaded(table).to_html()
    assert page == shaded(table).to_html() and "+0." in page
    marks = {shaded(part).uuid for part in (table, table.head(3), table.tail(3))}
    assert len(marks) == 3  # several tables of a page do not share their bars


def test_table_refuses_figures_of_other_classes(shrinking_run):
    x, y = shrinking_run
    fewer = class_figures(x[0][y < 8], torch.from_numpy(y[y < 8]))
    with pytest.raises(LabError, match="before"):
        class_table(class_figures(x[0], y), before=fewer)
