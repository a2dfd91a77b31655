"""Recorded studies: what the reader makes of a file, and the table over seeds."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from labkit.errors import LabError
from labkit.training import load_results, results, summary


@pytest.fixture
def study(tmp_path, monkeypatch):
    rows = [
        {
            "key": {"loss": loss, "seed": seed},
            "figures": figures,
            "seconds": 1.5,
            "data": "Data in use: digits.",
            "experiment": {},
        }
        for loss, seed, figures in (
            ("b", 0, {"map_at_r": 0.25}),
            ("a", 0, {"map_at_r": 0.5, "proxy_spread": 0.1}),
            ("a", 1, {"map_at_r": 0.7, "proxy_spread": 0.1}),
        )
    ]
    (tmp_path / "made_up.json").write_text(json.dumps({"command": "c", "machine": "m", "rows": rows}))
    monkeypatch.setattr(results, "results_folder", lambda: tmp_path)
    return "made_up"


def test_a_study_is_one_row_a_run(study):
    rows = load_results(study)
    assert rows["loss"].tolist() == ["b", "a", "a"]
    assert rows["seed"].tolist() == [0, 0, 1]
    assert rows["map_at_r"].tolist() == [0.25, 0.5, 0.7]
    assert np.isnan(rows["proxy_spread"][0])
    assert rows.attrs == {"command": "c", "machine": "m", "data": "Data in use: digits."}


def test_the_table_gives_mean_and_spread_in_the_order_of_the_study(study):
    table = summary(load_results(study), "loss", ["map_at_r", "proxy_spread"])
    assert table.index.tolist() == ["b", "a"]
    assert table.loc["a"].tolist() == [2, "0.600 ± 0.141", "0.100 ± 0.000"]
    assert table.loc["b"].tolist() == [1, "0.250", ""]
    narrow = summary(load_results(study), "loss", ["map_at_r"], digits=1, seeds=False)
    assert narrow.loc["a"].tolist() == ["0.6 ± 0.1"]


def test_groups_by_several_columns(study):
    table = summary(load_results(study), ["loss", "seed"], ["map_at_r"])
    assert table.loc[("a", 1)].tolist() == [1, "0.700"]


def test_what_is_not_there_is_named(study):
    with pytest.raises(LabError, match="Did you mean 'made_up'"):
        load_results("made_upp")
    with pytest.raises(LabError, match="Did you mean 'map_at_r'"):
        summary(load_results(study), "loss", ["map_at_rr"])
    with pytest.raises(LabError, match="at least one run"):
        summary(load_results(study).iloc[:0], "loss", ["map_at_r"])


def test_differences_are_taken_seed_by_seed():
    from labkit.training import paired_differences

    rows = pd.DataFrame(
        {"row": ["a", "a", "b", "b", "c", "d"], "seed": [0, 1, 0, 1, 1, 9], "map_at_r": [0.4, 0.5, 0.6, 0.4, 0.5, 1.0]}
    )
    table = paired_differences(rows, "row", "a", ["map_at_r"])
    assert table.index.tolist() == ["b", "c"], "d shares no seed with a"
    assert table.loc["b"].tolist() == pytest.approx([2, 0.05, 1]) and table.loc["c"].tolist() == pytest.approx([1, 0, 0])
    with pytest.raises(LabError, match="base"):
        paired_differences(rows, "row", "z", ["map_at_r"])
