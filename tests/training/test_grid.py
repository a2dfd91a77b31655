"""A grid trains its cells one after the other, stops at once, goes on where it stopped, and says what went wrong."""

from __future__ import annotations

import gc
import math
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.training import Recording, Trainer
from labkit.training.grid import Grid
from labkit.training.grid_cells import axes_of
from labkit.training.inbox import Inbox, serve
from tests.training.conftest import at_once, long_work, tiny

LAMBDA, PROXIES = "projections.projection_weight", "projections.proxies_per_class"
SETTINGS = {LAMBDA: [0.0, 0.5], PROXIES: [1, 2]}


@pytest.fixture
def build(digits):
    return partial(Trainer, splits=digits)


def states(grid):
    return [cell.state for cell in grid.cells]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "labkit grid"]


def until(true, seconds=20):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def endless(build):
    """Runs that are over only when they are stopped."""
    return Grid(tiny(steps=10**6, stop_patience=0), SETTINGS, build=build)


# ---------------------------------------------------------------- what it computes


def test_each_cell_is_the_run_of_its_experiment(build):
    grid = Grid(tiny(), SETTINGS, build=build).run()
    assert states(grid) == ["done"] * 4 and grid.progress == 4
    for i, weight in enumerate(SETTINGS[LAMBDA]):
        for j, proxies in enumerate(SETTINGS[PROXIES]):
            alone = build(tiny(**{LAMBDA: weight, PROXIES: proxies})).run(progress=False)
            cell = grid.cell(i, j)
            assert cell.experiment.to_dict() == alone.experiment == cell.recording.experiment
            assert np.array_equal(cell.recording.embeddings, alone.embeddings)
            assert grid.figures()[i, j] == alone.final["map_at_r"]
            assert grid.figures("p_at_1")[i, j] == alone.final["p_at_1"]
    assert np.isnan(grid.figures("no such figure")).all()
    table = grid.results()
    assert table[LAMBDA].tolist() == [0, 0, 0.5, 0.5] and table[PROXIES].tolist() == [1, 2, 1, 2]
    assert table["map_at_r"].tolist() == grid.figures().ravel().tolist()
    assert table["problems"].tolist() == [len(cell.recording.problems) for cell in grid.cells]


def test_in_a_thread_it_gives_the_same_and_leaves_no_thread(build):
    here, there = Grid(tiny(), SETTINGS, build=build).run(), Grid(tiny(), SETTINGS, build=build)
    there.start()
    there.start()  # once is enough
    assert len(threads()) == 1 and there.join() is there
    assert there.figures().tolist() == here.figures().tolist() and not there.running
    until(lambda: not threads())


def test_two_grids_at_once_do_not_disturb_each_other(build):
    one, two = (Grid(tiny(seed=seed), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build) for seed in (0, 1))
    one.start()
    two.start()
    together = one.join().figures(), two.join().figures()
    for seed, figures in enumerate(together):
        alone = Grid(tiny(seed=seed), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build).run()
        assert alone.figures().tolist() == figures.tolist()


def test_progress_is_told_and_counts_up(build):
    heard, totals = [], []

    def hear(cell):
        heard.append((cell.row, cell.column, cell.state, cell.step))
        totals.append(grid.progress)

    grid = Grid(tiny(), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build, progress=hear)
    version = grid.version
    grid.run()
    steps = range(5, 30, 5)
    expected = [[(0, j, "running", 0), *((0, j, "running", s) for s in steps), (0, j, "done", 30)] for j in (0, 1)]
    assert heard == expected[0] + expected[1]
    assert totals == sorted(totals) and totals[0] == 0 and totals[-1] == 2 and grid.version > version


def test_any_two_settings_will_do(build):
    grid = Grid(tiny(), {"seed": np.arange(2), "loss.options.neg_margin": (0.5,)}, build=build).run()
    assert grid.words(grid.cell(1, 0)) == "seed = 1, neg margin = 0.5"
    assert grid.cell(1, 0).experiment == tiny(seed=1, **{"loss.options.neg_margin": 0.5})


# ---------------------------------------------------------------- start, stop, go on


def test_stopping_takes_less_than_a_second_and_gives_up_only_the_cell_at_work(build):
    grid = Grid(tiny(), {LAMBDA: [0.0], "steps": [10, 10**6]}, build=build)
    grid.start()
    until(lambda: grid.cell(0, 1).step > 3)
    assert grid.running and 1 < grid.progress < 2 or grid.cell(0, 1).step
    started = time.monotonic()
    assert grid.stop() and time.monotonic() - started < 1
    assert states(grid) == ["done", "waiting"] and grid.cell(0, 1).step == 0 and not threads()
    kept = grid.cell(0, 0).recording
    grid.start()
    until(lambda: grid.cell(0, 1).step > 3)
    assert grid.cell(0, 0).recording is kept
    assert grid.stop() and grid.stop()  # twice is once


def test_a_long_evaluation_is_let_go_of(build):
    def slow(experiment):
        trainer = build(experiment)
        trainer.model.register_forward_pre_hook(lambda *_: time.sleep(0.2))
        trainer.evaluator.look = lambda *_: [trainer.embed(trainer.sample.images[:1]) for _ in range(100)]
        return trainer

    grid = Grid(tiny(), SETTINGS, build=slow)
    grid.start()
    until(lambda: grid.cells[0].state == "running" and grid._trainer is not None)
    started = time.monotonic()
    assert grid.stop() and time.monotonic() - started < 1 and states(grid) == ["waiting"] * 4


def test_the_cell_that_is_asked_for_comes_first(build):
    order = []
    grid = Grid(tiny(steps=5), SETTINGS, build=build, progress=lambda c: order.append((c.row, c.column)))
    grid.start(first=(1, 0))
    grid.join()
    assert list(dict.fromkeys(order)) == [(1, 0), (0, 0), (0, 1), (1, 1)]
    with pytest.raises(LabError, match="column"):
        grid.start(first=(0, 2))


def test_a_grid_that_nobody_holds_ends_its_thread(build):
    grid = endless(build)
    grid.start()
    until(partial(lambda held: held.cells[0].step > 2, grid))
    watched = weakref.ref(grid)
    del grid
    until(lambda: gc.collect() >= 0 and watched() is None and not threads())


def test_starting_and_stopping_again_and_again_leaves_nothing(build):
    grid, before = endless(build), torch.get_num_threads()
    for _ in range(20):
        grid.start()
        assert grid.stop()
    assert not threads() and torch.get_num_threads() == before and states(grid) == ["waiting"] * 4


# ---------------------------------------------------------------- on disk


def test_what_is_recorded_is_not_trained_again(build, tmp_path):
    first = Grid(tiny(), SETTINGS, build=build, folder=tmp_path).run()

    def never(_experiment):
        raise AssertionError("trained again")

    again = Grid(tiny(), SETTINGS, build=never, folder=tmp_path)
    assert states(again) == ["done"] * 4 and again.run().figures().tolist() == first.figures().tolist()
    wider = Grid(tiny(), {PROXIES: [2, 3], LAMBDA: [0.5]}, folder=tmp_path)
    assert states(wider) == ["waiting", "waiting"]  # the axes are part of a file's name
    other = Grid(tiny(seed=1), SETTINGS, folder=tmp_path)
    assert states(other) == ["waiting"] * 4  # another experiment
    assert states(Grid(tiny(), {LAMBDA: [0.5, 2.0], PROXIES: [1]}, folder=tmp_path)) == ["done", "waiting"]


def test_a_grid_is_saved_and_loaded_with_all_that_is_done(build, tmp_path):
    grid = Grid(tiny(steps=5), SETTINGS, build=build).run()
    opened = Grid.load(grid.save(tmp_path / "new"))
    assert opened.experiment == grid.experiment and opened.axes == grid.axes
    assert opened.figures().tolist() == grid.figures().tolist()
    assert np.allclose(opened.cells[3].recording.embeddings, grid.cells[3].recording.embeddings, atol=1e-3)
    assert opened.cells[0].recording.environment["seconds"] >= 0
    (tmp_path / "new" / "grid.json").write_text('{"experiment": 3}')
    for folder in (tmp_path / "new", tmp_path / "nowhere", tmp_path):
        with pytest.raises(LabError, match="grid|experiment: expected a dictionary"):
            Grid.load(folder)


def test_a_torn_file_counts_as_absent_and_is_written_anew(build, tmp_path):
    grid = Grid(tiny(steps=5), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build, folder=tmp_path).run()
    torn = min(tmp_path.glob("*.npz"))
    torn.write_bytes(torn.read_bytes()[:300])
    again = Grid(tiny(steps=5), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build, folder=tmp_path)
    assert states(again) == ["waiting", "done"]
    assert again.run().figures().tolist() == grid.figures().tolist() and Recording.load(torn).final


def test_a_full_disk_stops_the_grid_and_loses_no_run(build, tmp_path, monkeypatch):
    grid = Grid(tiny(steps=5), SETTINGS, build=build, folder=tmp_path)

    def full(_self, path):
        raise LabError(str(path), "room to write it", "No space left on device (ENOSPC)")

    with monkeypatch.context() as patched:
        patched.setattr(Recording, "save", full)
        grid.start()
        with pytest.raises(LabError, match=r"ENOSPC\), at λ = 0, K = 1"):
            grid.join()
        assert states(grid) == ["done", "waiting", "waiting", "waiting"] and not math.isnan(grid.figures()[0, 0])
        with pytest.raises(LabError, match="ENOSPC"):
            grid.start()
    grid.run()
    assert len(list(tmp_path.glob("*.npz"))) == 4


# ---------------------------------------------------------------- what goes wrong


def test_a_cell_that_fails_says_why_and_the_others_are_trained(build):
    grid = Grid(tiny(steps=20), {"optimizer.learning_rate": [1e-3, 1e29], PROXIES: [2]}, build=build)
    grid.start()
    with pytest.raises(LabError, match=r"at step \d+.*learning rate = 1e\+29, K = 2"):
        grid.join()
    assert states(grid) == ["done", "failed"] and grid.progress == 2 and math.isnan(grid.figures()[1, 0])
    assert isinstance(grid.cell(1, 0).error, LabError)


@pytest.mark.parametrize("error", [ZeroDivisionError("a loss of mine"), SystemExit("bye")])
def test_any_exception_is_the_cell_s_and_raised_by_join(build, error):
    def broken(experiment):
        if experiment.projections.proxies_per_class == 1:
            raise error
        return build(experiment)

    grid = Grid(tiny(steps=5), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=broken)
    grid.start()
    with pytest.raises((ZeroDivisionError, RuntimeError), match="a loss of mine|told to end by SystemExit"):
        grid.join()
    assert states(grid) == ["failed", "done"]
    grid._build = build
    assert states(grid.run()) == ["done", "done"]  # failed ones are tried again


def test_a_callback_that_fails_is_told(build):
    def callback(_cell):
        raise KeyError("mine")

    grid = Grid(tiny(steps=5), {LAMBDA: [0.0], PROXIES: [1]}, build=build, progress=callback)
    with pytest.raises(KeyError, match="mine"):
        grid.run()


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()])
def test_a_callback_that_ends_its_thread_fails_the_cells_and_keeps_nobody_waiting(build, end):
    def callback(_cell):
        raise end

    grid = Grid(tiny(steps=5), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build, progress=callback)
    grid.start()
    with pytest.raises(RuntimeError, match=f"told to end by {type(end).__name__}"):
        grid.join(20)
    assert states(grid) == ["failed"] * 2 and not grid.running
    assert grid.stop(20) and not threads()


def test_a_turn_that_raises_sends_its_worker_home():
    class Owner:
        pass

    def turn(_owner):
        inbox.busy = True
        raise SystemExit

    inbox, owner = Inbox(), Owner()
    inbox.put(lambda: None)
    with pytest.raises(SystemExit):
        serve(weakref.ref(owner), turn, inbox, inbox.open())
    assert inbox.settled(0) and not inbox.busy and not inbox.due()
    newer = inbox.open()
    inbox.leave(newer - 1)  # of one whose place another has: nothing is taken from that
    inbox.put(lambda: None)
    assert inbox.due() and inbox.wait(newer)


def test_starts_and_stops_from_several_threads_all_return(build):
    grid = endless(build)

    def ten_times(call):
        for _ in range(10):
            call()

    at_once([partial(ten_times, call) for call in (grid.start, grid.stop) * 3])
    assert grid.stop(20)
    until(lambda: not threads())
    assert states(grid) == ["waiting"] * 4


def test_a_grid_started_anew_while_it_stops_goes_on(build):
    """What the new thread has begun is not given up by a stop that still waited for the old one."""
    slow, begun, _ended = long_work()
    grid = Grid(tiny(), SETTINGS, build=slow)
    grid.start()
    assert begun.wait(20)
    old = grid._thread
    join, old.join = old.join, lambda timeout=None: (join(timeout), begun.clear(), grid.start(), begun.wait(20))
    assert grid.stop(20)
    assert grid.running and grid._thread is not old and states(grid)[0] == "running"
    assert grid.stop(20) and states(grid) == ["waiting"] * 4


def test_an_interrupted_run_keeps_what_is_done(build):
    def interrupted(cell):
        if cell.column == 1 and cell.step:
            raise KeyboardInterrupt

    grid = Grid(tiny(), {LAMBDA: [0.0], PROXIES: [1, 2]}, build=build, progress=interrupted)
    with pytest.raises(KeyboardInterrupt):
        grid.run()
    assert states(grid) == ["done", "waiting"] and not grid.running


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({LAMBDA: [0.0]}, "two settings .*1 settings"),
        ({LAMBDA: [0.0], PROXIES: [1], "seed": [0]}, "3 settings"),
        ([LAMBDA, PROXIES], "two settings"),
        ({LAMBDA: [], PROXIES: [1]}, "a list of values"),
        ({LAMBDA: 0.5, PROXIES: [1]}, "a list of values"),
        ({LAMBDA: "abc", PROXIES: [1]}, "a list of values"),
        ({LAMBDA: [0.1, 0.1], PROXIES: [1]}, "every value once; got 0.1 twice"),
        ({LAMBDA: np.linspace(0, 1, 50), "seed": range(50)}, "at most 400 cells; got 50 × 50"),
        ({LAMBDA: [-1.0], PROXIES: [1]}, "projection_weight"),
        ({LAMBDA: [0.0], PROXIES: [1, 99]}, "pool_size"),
        ({"projections.lambda": [0.0], PROXIES: [1]}, "setting"),
        ({LAMBDA: [math.nan], PROXIES: [1]}, "finite"),
        ({LAMBDA: [None], PROXIES: [1]}, "projection_weight"),
        ({LAMBDA: np.zeros((2, 2)), PROXIES: [1]}, "numbers or words"),
        ({LAMBDA: [np.zeros(2), np.ones(2)], PROXIES: [1]}, "numbers or words"),
        ({LAMBDA: [torch.ones(2), torch.ones(2)], PROXIES: [1]}, "numbers or words"),
        ({LAMBDA: np.array(0.5), PROXIES: [1]}, "a list of values"),
    ],
)
def test_what_is_refused(settings, match):
    with pytest.raises(LabError, match=match):
        Grid(tiny(), settings)


def test_what_else_is_refused(build):
    for bad in ({"progress": 3}, {"build": "Trainer"}):
        with pytest.raises(LabError, match=next(iter(bad))):
            Grid(tiny(), SETTINGS, **bad)
    with pytest.raises(LabError, match="experiment"):
        Grid("poc-ccp", SETTINGS)
    grid = endless(build)
    with pytest.raises(LabError, match="row"):
        grid.cell(2, 0)
    with pytest.raises(LabError, match="timeout"):
        grid.stop(-1)
    for timeout in (-1, "x", math.nan):
        with pytest.raises(LabError, match="timeout"):
            grid.join(timeout)
    for first in (5, "01", (0,), (0, 0, 0)):
        with pytest.raises(LabError, match="first: expected the row and the column"):
            grid.start(first)
    grid.start()
    with pytest.raises(LabError, match="Use join"):
        grid.run()
    grid.stop()


@pytest.mark.parametrize("path", [5, b"x", ["x"], "\0", "a" * 300])
def test_what_is_no_folder(build, path):
    for call in (Grid.load, Grid(tiny(), SETTINGS, build=build).save, lambda folder: Grid(tiny(), SETTINGS, folder=folder)):
        with pytest.raises(LabError, match="folder: expected a"):
            call(path)
    for call in (Grid.load, Grid(tiny(), SETTINGS, build=build).save):
        with pytest.raises(LabError, match="folder: expected a path"):
            call(None)


def test_axes_are_told_in_words():
    rows, columns = axes_of({LAMBDA: [0.0, 2e-4, 100.0], "projections.pool_size": [4, 8]})
    assert (rows.label, rows.words()) == ("λ", ("0", "0.0002", "100"))
    assert (columns.label, columns.words()) == ("pool size", ("4", "8"))


def test_values_that_look_alike_in_a_file_s_name_keep_a_run_each(build, tmp_path):
    """Slashes and colons become _ there, names are cut, and some disks take A for a."""
    long = "long-" * 60
    names = ["a/b", "a_b", "a:b", "A", "a", long + "1", long + "2", "ä" * 200, "a--seed-0", "inf"]
    grid = Grid(tiny(steps=1, evaluate_every=1), {"name": names, "seed": [0]}, build=build, folder=tmp_path).run()
    files = sorted(path.name for path in tmp_path.glob("*.npz"))
    assert len({name.lower() for name in files}) == len(names) and max(len(name.encode()) for name in files) < 220
    assert "name-a_b--seed-0.npz" in files and any(name.startswith("name-a_b--seed-0-") for name in files)
    again = Grid.load(tmp_path)
    assert [cell.done for cell in again.cells] == [True] * len(names)
    assert [cell.recording.experiment["name"] for cell in again.cells] == names
    np.testing.assert_array_equal(again.figures(), grid.figures())


def test_a_run_under_the_name_that_labkit_once_gave_it_is_found(build, tmp_path):
    """Then only the experiment inside says which of the cells that shared the name it is."""
    Grid(tiny(steps=1, evaluate_every=1), {"name": ["a/b", "a_b"], "seed": [0]}, build=build, folder=tmp_path).run()
    mine = next(tmp_path.glob("name-a_b--seed-0-*.npz"))
    mine.rename(tmp_path / "name-a_b--seed-0.npz")
    assert [cell.done for cell in Grid.load(tmp_path).cells] == [True, False]


def test_a_page_of_settings_that_is_nested_too_deep(tmp_path):
    (tmp_path / "grid.json").write_text("[" * 100_000)
    with pytest.raises(LabError, match=r"grid\.json: expected the settings of a grid"):
        Grid.load(tmp_path)


def test_a_cell_that_is_being_built_is_let_go_of(build):
    """Between two parts of the building, which may take long where pictures are decoded."""
    slow, begun, ended = long_work()
    grid = Grid(tiny(), SETTINGS, build=slow)
    grid.start()
    assert begun.wait(20)
    assert grid.stop(20) and ended == [True]
    assert states(grid) == ["waiting"] * 4 and not threads()
