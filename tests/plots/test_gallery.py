"""The gallery of problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labkit.plots import problem_gallery
from labkit.plots.gallery import pictures_of
from labkit.training.recording import Recording
from tests.plots.recordings import make_recording


def texts(fig: object) -> list[str]:
    return [annotation.text for annotation in fig.layout.annotations]  # type: ignore[attr-defined]


def test_one_picture_per_problem_with_its_recorded_figures(ccp: Recording) -> None:
    over = texts(problem_gallery(ccp))
    assert [text.split("</b>")[0] for text in over] == ["<b>(a)", "<b>(b.1)", "<b>(b.2)", "<b>(b.3)"]
    for problem, text in zip(ccp.problems, over, strict=True):
        row = int(np.flatnonzero(ccp.metrics["step"] == problem.end)[0])
        assert f"step {problem.end:,}" in text
        assert f"MAP@R {ccp.metrics['map_at_r'][row]:.3f}" in text
        assert f"cover {ccp.metrics['covering_q95'][row]:.3f}" in text
        assert f"E‖x − x⁻‖ {ccp.metrics['inter_class_distance'][row]:.3f}" in text


def test_each_picture_shows_its_own_snapshot(ccp: Recording) -> None:
    fig = problem_gallery(ccp, sample=None)
    per_picture = len(fig.data) // 4
    for index, problem in enumerate(ccp.problems):
        trace = fig.data[index * per_picture + 6]  # class 6
        assert np.allclose(trace.x, ccp.embeddings[problem.snapshot][ccp.labels == 6, 0], atol=5.1e-4)


def test_a_problem_that_still_runs_is_added(ccp: Recording) -> None:
    running = replace(ccp, problems=ccp.problems[:2], final={})
    pictures = pictures_of(running, 6)
    assert [(p.letter, p.running) for p in pictures] == [("(a)", False), ("(b.1)", False), ("(b.2)", True)]
    assert "still running" in texts(problem_gallery(running))[-1]


def test_a_run_without_a_closed_problem_shows_where_it_stands(ccp: Recording) -> None:
    over = texts(problem_gallery(replace(ccp, problems=[], metrics={}, final={})))
    assert over == ["<b>(a)</b> step 1,600, still running<br>"]


def test_a_finished_run_without_proxies_has_no_letter(ccp: Recording) -> None:
    over = texts(problem_gallery(replace(ccp, problems=[], metrics={}, proxies=None)))
    assert over == ["step 1,600<br>"]


def test_many_problems_keep_the_first_and_the_last() -> None:
    recording = make_recording(16, snapshots=33, per_class=4)
    letters = [p.letter for p in pictures_of(recording, 5)]
    assert (letters[0], letters[-1], len(letters)) == ("(a)", "(b.15)", 5)
    assert "5 of 16 problems" in problem_gallery(recording, most=5).layout.meta["subtitle"]


def test_thinned_samples_are_said(ccp: Recording) -> None:
    assert "50 of 120 samples drawn" in problem_gallery(ccp, sample=50).layout.meta["subtitle"]
    assert "drawn" not in problem_gallery(ccp).layout.meta["subtitle"]
