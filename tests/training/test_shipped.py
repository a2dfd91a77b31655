"""The recordings that come with the checkout: small, whole, and what README says of them."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.training import Experiment, Recording, load_shipped, results_table, shipped
from labkit.training.profile import by_profile, profile
from labkit.training.shipped import shipped_folder
from tests.recordings import same

OF_THE_PAPER = ("ccp", "ccp-restore", "proxy", "samples")
PAPER = [name for name in shipped() if name.removeprefix("mnist-2d-").split("-seed")[0] in OF_THE_PAPER]


@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith("mnist-")])
def test_each_is_small_whole_and_of_full_mnist(name):
    assert (shipped_folder() / f"{name}.npz").stat().st_size <= 3_000_000
    recording = load_shipped(name)
    experiment = Experiment.from_dict(recording.experiment)
    assert name == f"{experiment.name}-seed{experiment.seed}"
    assert recording.environment["data"].startswith("Data in use: MNIST (mnist), 70,000 real")
    assert experiment.network.embedding_size == 2
    if name in PAPER:
        assert (experiment.data.source, experiment.network.name) == ("mnist", "resnet20v2")
        assert (experiment.projections.proxies_per_class, experiment.projections.pool_size) == (4, 16)
    else:  # one of the nine losses side by side
        assert Experiment.preset(experiment.name, seed=0) == experiment
    assert recording.problems[-1].end == recording.steps[-1] == experiment.steps
    best = int(np.argmax(recording.metrics["map_at_r"]))
    assert recording.final["chosen_step"] == recording.metrics["step"][best]


@pytest.mark.parametrize("name", ["mnist-2d-ccp-seed0", "cub-lite0-c2-seed0"])
def test_one_that_is_saved_again_is_the_same_and_as_small(tmp_path, name):
    recording = load_shipped(name)
    path = recording.save(tmp_path / "r.npz")
    same(recording, Recording.load(path))
    assert path.stat().st_size <= 1.02 * (shipped_folder() / f"{name}.npz").stat().st_size
    with np.load(path) as file:
        assert file["embeddings"].dtype == np.float16


def test_the_paper_s_figures_are_reached_and_its_picture_is_found_again():
    runs = [load_shipped(name) for name in PAPER if "restore" not in name]
    by_method = {m: [r for r in runs if r.experiment["method"] == m] for m in ("ccp", "samples", "proxy")}
    assert all(sorted(r.experiment["seed"] for r in group) == [0, 1, 2] for group in by_method.values())
    assert np.mean([r.final["map_at_r"] for r in by_method["ccp"]]) >= 0.9721
    assert np.mean([r.final["map_at_r"] for r in by_method["samples"]]) >= 0.9806
    for run in by_method["ccp"]:
        figures = run.metrics
        first = int(np.flatnonzero(figures["step"] == run.problems[0].end)[0])
        assert figures["map_at_r"][-1] > figures["map_at_r"][first]
        assert figures["covering_q95"][-1] <= 0.6 * figures["covering_q95"][first]
        assert figures["inter_class_distance"][-1] >= figures["inter_class_distance"][first]


def run(name: str, seed: int, **final: float) -> Recording:
    experiment = {"name": name, "seed": seed}
    return Recording(experiment, np.array([0]), np.zeros((1, 2, 2)), np.array([0, 1]), final=final)


def test_the_table_gives_mean_and_spread_over_seeds():
    runs = [run("a", 0, map_at_r=0.5, proxy_spread=0.1), run("a", 1, map_at_r=0.7, proxy_spread=0.1), run("b", 0, map_at_r=0.25)]
    table = results_table(runs, ["map_at_r", "proxy_spread"])
    assert table.loc["a"].tolist() == [2, "0.60 ± 0.14", "0.1 ± 0"]
    assert table.loc["b"].tolist() == [1, "0.25", ""]
    alike = [run("c", seed, map_at_r=0.7) for seed in range(3)]  # numpy's own mean and deviation miss it by a last bit
    assert results_table(alike, ["map_at_r"]).loc["c", "map_at_r"] == "0.7 ± 0"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((0.3854, 0.3905, 0.3880), "0.3880 ± 0.0026"),
        ((120.0, 140.0), "130 ± 14"),
        ((2e-5, 4e-5), "3e-05 ± 1.4e-05"),
        ((0.2,), "0.2"),
    ],
)
def test_the_mean_has_as_many_decimals_as_its_deviation(values, told):
    runs = [run("a", seed, nmi=value) for seed, value in enumerate(values)]
    assert results_table(runs, ["nmi"]).loc["a", "nmi"] == told


def test_unknown_names_and_profiles_are_named(monkeypatch):
    with pytest.raises(LabError, match="Did you mean 'mnist-2d-ccp-seed0'"):
        load_shipped("mnist-2d-ccp-seeed0")
    monkeypatch.setenv("LABKIT_PROFILE", "fast")
    with pytest.raises(LabError, match="LABKIT_PROFILE: expected one of 'quick', 'full'"):
        profile()
    monkeypatch.setenv("LABKIT_PROFILE", "full")
    assert by_profile(quick=1, full=2) == 2
    monkeypatch.delenv("LABKIT_PROFILE")
    assert by_profile(quick=1, full=2) == 1
