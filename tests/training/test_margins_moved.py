"""Margins moved until nothing lies between them: there is no chance constraint then, and all that reads a run goes on."""

from __future__ import annotations

import csv
import math
import re

import numpy as np
import pytest

from labkit.panels.live_scene import Course
from labkit.plots import metric_strips
from labkit.plots.bounds import chance_constraint
from labkit.plots.comparison import comparison_table
from labkit.report import report_html
from labkit.training import Recording, Trainer, results_table
from labkit.training.controls import change
from labkit.training.recorder import Recorder
from labkit.training.session import LiveSession
from tests.training.conftest import tiny

CONSTRAINT = ("violation", "surrogate")


def moved(digits, value, **options) -> Trainer:
    """A run whose negative margin is moved at its second evaluation, to the end."""
    trainer = Trainer(tiny(steps=20), splits=digits, **options)
    trainer.step(5)
    change(trainer, "loss.options.neg_margin", value)
    trainer.run(progress=False)
    return trainer


def test_without_room_between_the_margins_the_run_goes_on_and_is_saved(digits, tmp_path):
    recording = moved(digits, 0.0, directory=tmp_path).recording()
    for name in CONSTRAINT:
        assert np.isfinite(recording.metrics[name]).tolist() == [True, True, False, False, False]
        assert math.isnan(recording.final[name])
    saved = Recording.load(recording.save(tmp_path / "again.npz"))
    for name, values in recording.metrics.items():
        np.testing.assert_array_equal(saved.metrics[name], values, err_msg=name)
    with open(tmp_path / "metrics.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["violation"] != "" for row in table] == [True, True, False, False, False]


def test_what_is_drawn_and_told_of_such_a_run(digits):
    recording = moved(digits, 0.0).recording()
    drawn = chance_constraint(recording)
    assert [list(trace.x) for trace in drawn.data] == [[0, 5], [0, 5]]
    for figure in (drawn, metric_strips(recording)):
        assert not any(np.isnan(np.asarray(trace.y, dtype=float)).any() for trace in figure.data)
    told = re.sub(r"<script>.*?</script>", "", report_html(recording), flags=re.DOTALL)  # plotly.js has its own NaN
    assert "NaN" not in told and "nan</" not in told
    assert "nan" not in comparison_table({"run": recording})
    assert re.findall(r'"m\\u207b = (.*?)"', told) == ["0"], "the margin of the last snapshot"
    assert results_table([recording], ["map_at_r", "violation"])["violation"].tolist() == [""]


def test_a_run_that_begins_without_room_has_the_figures_once_there_is(digits, tmp_path):
    trainer = Trainer(tiny(steps=20, **{"loss.options.neg_margin": 0.0}), splits=digits, directory=tmp_path)
    trainer.step(5)
    change(trainer, "loss.options.neg_margin", 0.5)
    recording = trainer.run(progress=False)
    assert np.isfinite(recording.metrics["violation"]).tolist() == [False, False, True, True, True]
    assert Recording.load(tmp_path).final["violation"] == recording.final["violation"] >= 0
    bound = chance_constraint(recording).data[1]
    assert list(bound.x) == [10, 15, 20]
    np.testing.assert_allclose(bound.y, recording.metrics["surrogate"][2:] / 0.25)


def test_a_live_session_goes_on_and_its_curves_too(digits):
    session = LiveSession(tiny(steps=20), splits=digits, threaded=False)
    session.step(5)
    session.set("loss.options.neg_margin", 0.0)
    session.start()
    snapshot = session.run_pending()
    assert snapshot.state == "done" and {len(values) for values in snapshot.metrics.values()} == {5}
    assert all(np.isfinite(values[1:]).all() for values in Course.of(snapshot).values.values())


@pytest.mark.parametrize(
    ("given", "column"), [([{"a": 1}, {"a": 2, "b": 3}], [math.nan, 3]), ([{"a": 1, "b": 3}, {"a": 2}], [3, math.nan])]
)
def test_columns_of_a_recording_stay_equally_long_whatever_an_evaluation_lacks(given, column):
    recorder = Recorder()
    for figures in given:
        recorder.evaluation(figures)
    assert recorder.metrics["a"] == [1, 2]
    np.testing.assert_array_equal(recorder.metrics["b"], column)
