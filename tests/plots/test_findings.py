"""Sentences about runs: they say what the numbers say, also when the hoped-for effect is absent."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labkit.plots import findings
from labkit.plots.reading import named_runs, problem_at, proxies_by_class, series, value_at
from labkit.training.recording import Recording


def moved(recording: Recording) -> Recording:
    """The same run with samples that lie elsewhere from the fifth snapshot on."""
    embeddings = recording.embeddings.copy()
    embeddings[4:] *= 0.99
    return replace(recording, embeddings=embeddings, final={"map_at_r": 0.9})


def with_metric(recording: Recording, **values: Any) -> Recording:
    return replace(recording, metrics=recording.metrics | {k: np.asarray(v, dtype=float) for k, v in values.items()})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234, "0.123"),
        (0.0, "0.000"),
        (2.04e-5, "2e-5"),
        (2.44e-5, "2.4e-5"),
        (float("nan"), "–"),
        (12.0, "12.000"),
        (-3e-4, "-3e-4"),
    ],
)
def test_numbers_as_a_reader_wants_them(value: float, text: str) -> None:
    assert findings.number(value) == text


def test_collapse_is_claimed_only_when_it_happened(ccp: Recording) -> None:
    start, end = (ccp.metrics["proxy_spread"][i] for i in (0, 4))
    assert findings.collapse(ccp) == (
        f"Proxies collapse: within the first problem their spread falls from {start:.3f} to {findings.number(end)}"
    )
    assert findings.collapse(with_metric(ccp, proxy_spread=np.linspace(0.4, 0.1, 17))).startswith(
        "Proxies draw together but do not"
    )
    assert findings.collapse(with_metric(ccp, proxy_spread=np.full(17, 0.4))).startswith("Proxies do not collapse")


def test_collapse_of_several_runs_names_those_that_did(ccp: Recording, single: Recording) -> None:
    assert findings.collapses({"a": ccp, "b": single}).startswith("Proxies collapse within the first problem (")
    wide = with_metric(single, proxy_spread=np.full(17, 0.4))
    assert findings.collapses({"a": ccp, "b": wide}).startswith("Proxies collapse within the first problem of a only")
    assert findings.collapses({"b": wide, "c": wide}).startswith("Proxies do not collapse")


def test_one_proxy_per_class_neither_collapses_nor_spreads(ccp: Recording) -> None:
    alone = with_metric(ccp, proxy_spread=np.zeros(17))
    wide = with_metric(ccp, proxy_spread=np.full(17, 0.4))
    assert findings.collapse(alone) == findings.spread_again(alone) == findings.ALONE
    assert findings.collapses({"a": alone, "b": alone}) == findings.ALONE
    said = findings.collapses({"a": alone, "b": wide})
    assert said == "Proxies do not collapse within the first problem (spread, b: 0.400 → 0.400)"
    assert findings.collapses({"a": alone, "b": ccp}).startswith("Proxies collapse within the first problem (spread, b: ")


def test_anchor_samples_are_no_proxies_that_could_collapse(ccp: Recording, single: Recording) -> None:
    anchors = replace(ccp, experiment=ccp.experiment | {"method": "samples"})
    assert findings.collapse(anchors).startswith("Anchor samples")
    assert findings.collapses({"a": single, "b": anchors}).endswith(
        f"(spread, a: {single.metrics['proxy_spread'][0]:.3f} → {findings.number(single.metrics['proxy_spread'][-1])})"
    )


def test_spreading_again_is_claimed_only_when_it_happened(ccp: Recording, single: Recording) -> None:
    assert findings.spread_again(ccp).startswith("Re-initialising spreads the proxies")
    assert findings.spread_again(with_metric(ccp, proxy_spread=np.full(17, 0.01))).startswith(
        "Re-initialising did not spread"
    )
    assert findings.spread_again(single).startswith("There is no second problem yet")


def test_changes_are_counted_from_the_end_of_the_first_problem(ccp: Recording) -> None:
    cover = np.linspace(1.0, 0.2, 17)
    text = findings.change(with_metric(ccp, covering_q95=cover), "covering_q95", "Cover")
    assert text == "Cover falls by 75%: 0.800 after problem 1, 0.200 at the end"
    text = findings.change(with_metric(ccp, covering_q95=cover), "covering_q95", "Cover", since=800)
    assert text == "Cover falls by 67%: 0.600 at step 800, 0.200 at the end"


def test_a_change_for_the_worse_or_none_is_said_as_well(ccp: Recording, single: Recording) -> None:
    worse = with_metric(ccp, covering_q95=np.linspace(0.2, 1.0, 17))
    assert "rises by" in findings.change(worse, "covering_q95", "Cover")
    flat = with_metric(single, covering_q95=np.full(17, 0.3))
    assert (
        findings.change(flat, "covering_q95", "Cover") == "Cover hardly changes: 0.300 at the start, 0.300 at the end"
    )


def test_scores_change_by_points(ccp: Recording) -> None:
    scores = np.full(17, 0.95)
    scores[-1] = 0.9651
    assert findings.change(with_metric(ccp, map_at_r=scores), "map_at_r", "MAP@R", points=True) == (
        "MAP@R rises by 1.5 points: 0.950 after problem 1, 0.965 at the end"
    )
    scores[-1] = 0.951
    assert "hardly changes" in findings.change(with_metric(ccp, map_at_r=scores), "map_at_r", "MAP@R", points=True)


def test_what_was_not_measured_is_not_claimed(ccp: Recording) -> None:
    nothing = replace(ccp, metrics={})
    assert findings.change(nothing, "map_at_r", "MAP@R") == "MAP@R has not been evaluated yet"
    unmeasured = with_metric(ccp, covering_q95=np.full(17, np.nan))
    assert "not been measured" in findings.change(unmeasured, "covering_q95", "Cover")
    assert findings.headline_of(nothing) == "Not evaluated yet"
    assert findings.compare({"a": ccp, "b": nothing}) == []


def test_runs_are_compared_at_the_last_step_that_both_have(ccp: Recording) -> None:
    shorter = with_metric(
        replace(ccp, embeddings=ccp.embeddings * 0.9, metrics={k: v[:9] for k, v in ccp.metrics.items()}),
        map_at_r=np.full(9, 0.9),
        covering_q95=np.full(9, 0.5),
    )
    lines = findings.compare({"long": with_metric(ccp, map_at_r=np.linspace(0, 1, 17)), "short": shorter})
    assert lines[0] == "At step 800, MAP@R is 0.900 (short), 0.500 (long)"
    assert re.fullmatch(r"At step 800, 95 % cover is 0\.\d{3} \(long\), 0\.500 \(short\)", lines[1])  # the smaller one first


def test_small_differences_count_as_none(ccp: Recording) -> None:
    a = with_metric(ccp, map_at_r=np.full(17, 0.9500), covering_q95=np.full(17, 0.100), proxy_spread=np.full(17, 1e-5))
    b = with_metric(
        ccp, map_at_r=np.full(17, 0.9515), covering_q95=np.full(17, 0.103), proxy_spread=np.full(17, 1.9e-5)
    )
    lines = findings.compare({"a": a, "b": replace(b, embeddings=b.embeddings * 0.9)})
    assert len(lines) == 5 and all("practically the same" in line for line in lines)
    assert lines[0] == "At step 1,600, MAP@R is practically the same: 0.952 (b), 0.950 (a)"
    third = with_metric(ccp, map_at_r=np.full(17, 0.5))
    assert findings.compare({"a": a, "b": b, "c": replace(third, embeddings=ccp.embeddings * 0.9)})[0].endswith(
        "MAP@R is 0.952 (b), 0.950 (a), 0.500 (c)"
    )


def test_until_when_runs_are_the_same_is_read_off_the_samples(ccp: Recording) -> None:
    assert findings.compare({"a": ccp, "b": moved(ccp)})[0].startswith("Up to step 300 the runs are identical")
    assert findings.identical_until({"a": ccp, "b": ccp}) == "The runs are identical at every recorded step"
    assert findings.identical_until({"a": ccp, "b": replace(ccp, embeddings=ccp.embeddings * 0.9)}) == ""


def test_chosen_models_are_compared_on_the_test_set(ccp: Recording) -> None:
    assert findings.compare({"a": ccp, "b": moved(ccp)})[-1] == (
        "On the test set, with the chosen models, MAP@R is 0.955 (a), 0.900 (b)"
    )
    assert not any("test set" in line for line in findings.compare({"a": replace(ccp, final={}), "b": moved(ccp)}))


def test_a_value_is_the_last_one_before_the_step(ccp: Recording) -> None:
    assert value_at(ccp, "map_at_r", 450) == pytest.approx(ccp.metrics["map_at_r"][4])
    assert np.isnan(value_at(ccp, "map_at_r", -1))
    assert len(series(ccp, "unknown")[0]) == 0


def test_a_problem_owns_the_step_at_which_it_ends(ccp: Recording) -> None:
    assert [problem_at(ccp, step) for step in (0, 400, 401, 1600)] == [1, 1, 2, 4]


def test_proxies_are_found_by_class() -> None:
    proxies = np.arange(5)[:, None, None] * np.ones((1, 2, 3))
    found = proxies_by_class("proxies", proxies, np.array([1, 4]), 3)
    assert found is not None and found[:, 0, 0].tolist() == [1, 4]
    in_order = proxies_by_class("proxies", proxies[:2], np.array([7, 9]), 3)
    assert in_order is not None and in_order[:, 0, 0].tolist() == [0, 1]


def test_one_recording_is_named_after_its_experiment(ccp: Recording) -> None:
    assert list(named_runs(ccp)) == ["mnist-2d-ccp"]
