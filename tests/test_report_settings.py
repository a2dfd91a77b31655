"""How to repeat the runs of a report: the command does, and settings that differ are told apart."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from labkit.cli import parse_settings
from labkit.report import report_html
from labkit.report_settings import train_command
from labkit.training import Experiment, Recording
from tests.plots.recordings import make_recording


@pytest.fixture(scope="module")
def ccp() -> Recording:
    return make_recording(4)


def test_it_says_how_to_repeat_the_run(ccp: Recording) -> None:
    experiment = Experiment.preset("mnist-2d-ccp", seed=2, **{"optimizer.learning_rate": 5e-4})
    recording = replace(ccp, experiment=experiment.to_dict())
    assert train_command(recording) == "labkit train mnist-2d-ccp --set seed=2 --set optimizer.learning_rate=0.0005"
    assert train_command(replace(recording, experiment={"name": "mine"})) == ""
    assert "<pre>labkit poc --out here</pre>" in report_html(recording, command="labkit poc --out here")


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("mnist-2d-ccp", {"optimizer.learning_rate": 0.0012345678, "projections.restore_best": True}),
        ("mnist-2d-ccp", {"loss.options.normalize": None, "loss.options.neg_margin": 0.1 + 0.2}),
        ("mnist-2d-ccp", {"loss.options": {"pos_margin": 0.1}}),
        ("mnist-2d-ccp", {"loss.options": {}, "sample_size": 500}),
        ("mnist-2d-soft-triple-proxy", {"loss.options.gamma": float("inf")}),
        ("poc-proxy", {"loss.name": "c1", "loss.options": {"normalize": "l2"}}),
        ("cub-c2", {"data.source": "./Bob's \"pictures\" $HOME", "photos.flip": 0}),
        ("cub-c2", {"network.weights": "null", "photos.keep_pixels": False}),
    ],
)
def test_the_command_that_repeats_a_run_is_read_as_its_settings(ccp: Recording, preset: str, changes: dict[str, Any]) -> None:
    experiment = Experiment.preset(preset, **changes)
    words = shlex.split(train_command(replace(ccp, experiment=experiment.to_dict())))
    assert words[:3] == ["labkit", "train", preset] and set(words[3::2]) == {"--set"}
    assert Experiment.preset(preset, **parse_settings(words[4::2])) == experiment


def settings_marked(page: str) -> list[str]:
    return re.findall(r'<tr class="differs"><td><code>(.*?)</code>', page)


def test_settings_that_differ_are_marked(ccp: Recording) -> None:
    single = replace(ccp, experiment=ccp.experiment | {"name": "mnist-2d-proxy"})
    assert settings_marked(report_html({"CCP": ccp, "single": single})) == ["name"]


def test_settings_that_differ_in_their_last_digits_are_marked_and_told_apart(ccp: Recording) -> None:
    rates = (0.0012345678, 0.0012345679)
    pair = {str(r): Experiment.preset("poc-ccp", **{"optimizer.learning_rate": r}).to_dict() for r in rates}
    page = report_html({name: replace(ccp, experiment=settings) for name, settings in pair.items()})
    assert settings_marked(page) == ["optimizer.learning_rate"]
    assert all(f"<td>{rate}</td>" in page for rate in rates)
