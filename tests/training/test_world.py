"""Several processes train the network that one would: the same losses, figures, proxies and choices."""

import os
import sys

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.training import Recording, Trainer
from labkit.training.world import World, join_world
from tests.photographs import SMALL, eight_classes
from tests.training.conftest import tiny
from tests.training.processes import run_cases, together

# Other sums round otherwise, and a ReLU at zero or Adam, which divides a gradient by its own size, make much of it. So: SGD.
SGD = {"optimizer.name": "sgd", "optimizer.learning_rate": 0.02, "network.precision": "float32"}
FAST = SGD | {"optimizer.learning_rate": 2e-4, "network.name": "small", "steps": 9, "evaluate_every": 3}
SLOW = {"optimizer.learning_rate": 2e-5}
PHOTOS = SMALL | SGD | {"network.name": "timm:test_resnet", "steps": 8, "evaluate_every": 2}


def cases(folder):
    """Experiments by name. Digits train with batch norm over all processes, photographs with a frozen one."""
    photos = PHOTOS | {"data.source": str(folder)}

    def photographs(preset, **changes):
        return tiny(preset, **photos | changes)

    return {
        "one long step": tiny("poc-pairs", **FAST | {"steps": 1, "optimizer.learning_rate": 1.0}),
        "pairs": tiny("poc-pairs", **FAST),
        "ccp": tiny("poc-ccp", **FAST, **{"projections.projection_weight": 1e-2}),
        "samples": tiny("poc-samples", **FAST, **{"data.samples_per_class": 3}),
        "soft triple": tiny("poc-proxy", **FAST | {"loss.name": "soft_triple", "projections.start": "random", **SLOW}),
        "resumed ccp": tiny("poc-ccp", **FAST),
        "xbm": tiny("poc-pairs", **FAST, **{"memory.size": 100, "memory.warmup_steps": 3}),
        "levels": tiny("poc-ccp", **FAST, **{"network.levels": "low+middle+high", "loss.name": "rll"}),
        "photographs, pairs": photographs("cub-c2"),
        "photographs, ccp": photographs("cub-c2-ccp-l", **{"data.samples_per_class": 3}),
        "photographs, xbm": photographs("cub-c2-xbm-l", **{"memory.size": 30, "memory.warmup_steps": 1}),
        "photographs, proxy anchor": photographs("cub-proxy-anchor"),
    }


NAMES = list(cases("/nowhere"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return eight_classes(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def folder(pictures, tmp_path_factory):
    """Where two processes have run all cases."""
    there = tmp_path_factory.mktemp("together")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_CACHE", str(there / "cache"))
        together(run_cases, cases(pictures), str(there))
    return there


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_train_as_one(folder, pictures, monkeypatch, name):
    monkeypatch.setenv("LABKIT_CACHE", str(folder / "cache"))
    assert not (said := [path.read_text() for path in folder.glob(f"{name}-?.txt")]), said[0]
    trainer = Trainer(cases(pictures)[name])
    alone = trainer.run(progress=False)
    shared = Recording.load(folder / name)
    np.testing.assert_array_equal(alone.steps, shared.steps)
    assert [(p.start, p.end) for p in alone.problems] == [(p.start, p.end) for p in shared.problems]
    assert len(alone.problems) > 1 or "ccp" not in name, "a new problem has begun on the way"
    for figure in alone.metrics:
        ranks = figure.endswith(("map_at_r", "p_at_1", "p_at_r")) and "photographs" not in name
        tolerance = 0.1 if ranks else 2e-3  # ranks of an untrained network jump where two neighbours change places
        np.testing.assert_allclose(shared.metrics[figure], alone.metrics[figure], atol=tolerance, rtol=2e-3, err_msg=figure)
    np.testing.assert_allclose(shared.metrics["loss"], alone.metrics["loss"], rtol=1e-4)
    np.testing.assert_allclose(shared.embeddings, alone.embeddings, atol=2e-3)
    if alone.proxies is not None:
        np.testing.assert_allclose(shared.proxies, alone.proxies, atol=2e-3)
    first, second = (torch.load(folder / f"{name}-{rank}.pt", weights_only=True) for rank in (0, 1))
    for mine, theirs in zip(first["model"].values(), second["model"].values(), strict=True):
        assert torch.equal(mine, theirs)
    for part, value in trainer.model.state_dict().items():
        torch.testing.assert_close(first["model"][part], value, atol=1e-4, rtol=1e-3)
    for mine, theirs in zip(first["learnt"], second["learnt"], strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(("rows", "size"), [(7, 3), (6, 3), (2, 3), (0, 2), (5, 1)])
def test_the_parts_of_all_processes_are_all_rows_in_order(rows, size):
    parts = []
    for rank in range(size):
        world = World(torch.device("cpu"))
        world.rank, world.size = rank, size
        parts += range(rows)[world.part(rows)]
    assert parts == list(range(rows))


def test_alone_nothing_changes():
    world, rows = World(torch.device("cpu")), torch.arange(5.0)
    assert world.share(rows, 2, 3) is rows and world.gather(rows, 5)[0] is rows and world.sum(rows) is rows
    assert [part.tolist() for part in world.gather(rows, 2, 3)] == [[0, 1], [2, 3, 4]]
    assert world.is_main and world.on_main(lambda: 7) == 7


@pytest.fixture
def launched(monkeypatch):
    """As if a launcher had started this process as one of two."""
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)


def test_without_accelerate_the_line_that_installs_it_is_told(launched, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(LabError, match=r"pip install 'labkit\[distributed\]'"):
        join_world("cpu")


def test_a_device_by_number_or_one_that_is_not_there_is_refused(launched, monkeypatch):
    with pytest.raises(LabError, match="each takes one of its own"):
        join_world("cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(LabError, match="a GPU for each process"):
        join_world("cuda")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"RANK": "x"}, "RANK: expected the number of this process"),
        ({"RANK": "-1"}, "RANK"),
        ({"RANK": "2"}, "RANK: expected a number below WORLD_SIZE, 2"),
        ({"RANK": "9" * 5000}, "RANK"),
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE: expected how many processes train"),
        ({"WORLD_SIZE": "2.0"}, "WORLD_SIZE"),
        ({"LOCAL_RANK": "x"}, "LOCAL_RANK"),
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "abc"}, "MASTER_PORT: expected a port"),
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "65536"}, "MASTER_PORT"),
        ({"MASTER_ADDR": ""}, "the launcher: expected MASTER_ADDR"),
        ({"OMPI_COMM_WORLD_SIZE": "x"}, "the launcher: expected MASTER_ADDR, MASTER_PORT and those of MPI"),
    ],
)
def test_a_launcher_s_variables_that_cannot_be_are_named(launched, monkeypatch, changes, named):
    from accelerate import PartialState

    before = dict(os.environ)
    try:
        os.environ.pop("LOCAL_RANK")
        os.environ |= changes
        with pytest.raises(LabError, match=f"{named}.*unset RANK"):
            join_world("cpu")
    finally:
        PartialState._reset_state()
        os.environ.clear()
        os.environ |= before


@pytest.mark.parametrize(("rank", "size"), [("", "2"), ("0", ""), ("x", "1"), ("0", "00")])
def test_what_says_nothing_of_several_is_alone(monkeypatch, rank, size):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    assert type(join_world("cpu")) is World


def test_a_launcher_s_single_process_is_alone(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert type(join_world("cpu")) is World


def test_fewer_pictures_in_a_batch_than_processes_are_refused(digits):
    from labkit.training.opening import open_pictures

    world = World(torch.device("cpu"))
    world.size = 12
    with pytest.raises(LabError, match="at least one picture for each of 12 processes"):
        open_pictures(tiny(**{"data.samples_per_class": 1}), digits, world)
