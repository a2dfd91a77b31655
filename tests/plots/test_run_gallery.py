"""Several runs side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots import run_gallery
from labkit.training.recording import Recording


def test_each_run_s_last_embedding_with_its_score(ccp: Recording, single: Recording) -> None:
    runs = {"good": replace(ccp, final={"map_at_r": 0.91}), "bad": replace(single, final={"map_at_r": 0.42})}
    fig = run_gallery(runs, sample=None)
    heads = [a.text for a in fig.layout.annotations[:2]]
    assert heads == ["<b>good</b><br>test MAP@R 0.910", "<b>bad</b><br>test MAP@R 0.420"]
    assert fig.layout.meta["title"] == "From bad (test MAP@R 0.420) to good (test MAP@R 0.910)"
    for run, axis in ((ccp, "x"), (single, "x2")):
        traces = [t for t in fig.data if t.xaxis == axis and t.mode == "markers"]
        rows = np.concatenate([np.asarray(t.customdata) for t in traces])
        drawn = np.concatenate([np.stack([t.x, t.y], axis=1) for t in traces])
        assert sorted(rows.tolist()) == list(range(len(run.labels)))
        assert np.allclose(drawn, np.asarray(run.embeddings[-1])[rows], atol=1e-3)


def test_a_judged_run_is_shown_at_its_chosen_step(ccp: Recording) -> None:
    fig = run_gallery(replace(ccp, final={"map_at_r": 0.9, "chosen_step": float(ccp.steps[5]) + 1}), sample=None)
    traces = [t for t in fig.data if t.mode == "markers"]
    rows = np.concatenate([np.asarray(t.customdata) for t in traces])
    drawn = np.concatenate([np.stack([t.x, t.y], axis=1) for t in traces])
    assert np.allclose(drawn, np.asarray(ccp.embeddings[5])[rows], atol=1e-3)
    assert "at the chosen step;" in fig.layout.meta["subtitle"]


def test_numbers_of_classes_in_one_place_can_be_read(ccp: Recording) -> None:
    heap = replace(ccp, embeddings=np.asarray(ccp.embeddings) * 0.02 + np.array([0.9, 0.0]), final={})
    numbers = next(t for t in run_gallery(heap).data if t.mode == "text")
    places = np.stack([numbers.x, numbers.y], axis=1).astype(float)
    distance = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(len(places), 1)]
    assert distance.min() > 0.1 and np.abs(places).max() <= 1.2


def test_a_run_without_a_test_says_so(ccp: Recording) -> None:
    held_out = replace(ccp, final={})
    fig = run_gallery(held_out)
    value = ccp.metrics["map_at_r"][ccp.metrics["step"] <= ccp.steps[-1]][-1]
    assert "held-out MAP@R" in fig.layout.annotations[0].text
    assert f"{value:.3f}" in fig.layout.annotations[0].text
    unjudged = replace(ccp, final={}, metrics={"step": np.zeros(0), "map_at_r": np.zeros(0)})
    assert "not judged yet" in run_gallery(unjudged).layout.annotations[0].text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recordings": {}}, "recordings: expected at least one"),
        ({"recordings": 3}, "recordings: expected a Recording"),
        ({"columns": 0}, "columns: expected"),
        ({"width": 1}, "width: expected"),
        ({"sample": 0}, "sample: expected"),
    ],
)
def test_bad_input_is_refused(ccp: Recording, change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        run_gallery(**{"recordings": ccp, **change})
