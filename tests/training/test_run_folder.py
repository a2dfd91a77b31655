"""A run's folder: whole at any moment, one writer at a time, a table that any program reads."""

import csv
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.training import Recording, Trainer
from labkit.training.folder_lock import FolderLock
from labkit.training.metrics_table import MetricsTable
from labkit.training.run_folder import RunFolder, save_checkpoint
from tests.training.conftest import tiny

FILES = {".lock", "experiment.json", "checkpoint.pt", "recording.npz", "metrics.csv", "model.pt"}


def small(**changes):
    return tiny(**{"network.name": "small", "steps": 4, "evaluate_every": 2, "sample_size": 30} | changes)


def rows(folder):
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_killed_at_any_moment_a_run_ends_as_one_that_was_left_alone(tmp_path):
    command = [sys.executable, "-m", "tests.training.killed", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr
    moments = int(done.stdout)
    assert moments > 20
    for name in map(str, range(moments)):
        assert {path.name for path in (tmp_path / name).iterdir()} == FILES, name
        for file in ("recording.npz", "metrics.csv", "experiment.json"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), (name, file)


def test_the_table_has_a_row_for_each_evaluation(digits, tmp_path):
    recording = Trainer(small(), splits=digits, directory=tmp_path).run(progress=False)
    table = rows(tmp_path)
    assert [int(row["step"]) for row in table] == [0, 2, 4] and list(table[0]) == list(recording.metrics)
    assert table[0]["loss"] == "", "nothing has been learnt yet"
    for name, values in recording.metrics.items():
        np.testing.assert_array_equal([float(row[name] or "nan") for row in table], values, err_msg=name)


def test_a_resumed_table_has_no_row_twice_and_a_lost_or_spoilt_one_is_written_again(digits, tmp_path):
    experiment = small(steps=8)
    Trainer(experiment, splits=digits, directory=tmp_path).step(5)
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("6,0,half a ro")
    Trainer(experiment, splits=digits, directory=tmp_path, resume=True).run(progress=False)
    assert [int(row["step"]) for row in rows(tmp_path)] == [0, 2, 4, 6, 8]
    (tmp_path / "metrics.csv").unlink()
    Trainer(experiment, splits=digits, directory=tmp_path, resume=True)
    assert [int(row["step"]) for row in rows(tmp_path)] == [0, 2, 4, 6, 8]


@pytest.fixture
def slow_disk(monkeypatch):
    """A clock that moves by 10 seconds for a checkpoint and by 50 from one evaluation to the next; gives the steps saved."""
    saved, clock = [], SimpleNamespace(now=0.0)

    def save(path, state):
        save_checkpoint(path, state)
        saved.append(state["steps_done"])
        clock.now += 10

    def pass_on(_trainer, _figures):
        clock.now += 50

    monkeypatch.setattr("labkit.training.run_folder.time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr("labkit.training.run_folder.save_checkpoint", save)
    return SimpleNamespace(saved=saved, callback=pass_on)


def test_a_large_checkpoint_is_written_so_seldom_that_a_twentieth_of_the_time_goes_to_it(
    digits, tmp_path, monkeypatch, slow_disk
):
    monkeypatch.setattr(RunFolder, "small", 0)
    experiment = small(steps=20, evaluate_every=2)
    options = {"splits": digits, "callbacks": [slow_disk.callback]}
    whole = Trainer(experiment, directory=tmp_path / "whole", **options).run(progress=False)
    assert slow_disk.saved == [2, 10, 18, 20], "the first, after 200 seconds each, and the end"
    Trainer(experiment, directory=tmp_path / "stopped", **options).step(17)
    assert [int(row["step"]) for row in rows(tmp_path / "stopped")] == list(range(0, 17, 2))
    again = Trainer(experiment, directory=tmp_path / "stopped", resume=True, **options)
    assert again.steps_done == 10
    resumed = again.run(progress=False)
    np.testing.assert_array_equal(resumed.embeddings, whole.embeddings)
    assert resumed.final == whole.final
    assert (tmp_path / "stopped" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


def test_a_small_checkpoint_is_written_at_every_evaluation_however_slow_the_disk(digits, tmp_path, slow_disk):
    Trainer(small(steps=8), splits=digits, directory=tmp_path, callbacks=[slow_disk.callback]).step(7)
    assert slow_disk.saved == [2, 4, 6]


def test_a_callback_that_ends_the_run_leaves_a_checkpoint_of_that_step(digits, tmp_path, monkeypatch, slow_disk):
    monkeypatch.setattr(RunFolder, "small", 0)

    def stop(trainer, _figures):
        if trainer.steps_done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(small(steps=8), splits=digits, directory=tmp_path, callbacks=[stop]).run(progress=False)
    assert slow_disk.saved == [2, 6]
    assert Trainer(small(steps=8), splits=digits, directory=tmp_path, resume=True).steps_done == 6


def test_a_table_on_a_full_disk_stays_a_table(tmp_path, monkeypatch):
    table = MetricsTable(tmp_path / "m.csv")
    table.write({"step": [0.0], "loss": [0.5]})
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    with pytest.raises(LabError, match=r"m\.csv: expected room to write it"):
        table.write({"step": [0.0, 1.0], "loss": [0.5, 0.25]})
    monkeypatch.undo()
    assert (tmp_path / "m.csv").read_text() == "step,loss\n0,0.5\n"
    table.write({"step": [0.0, 1.0], "loss": [0.5, 0.25]})
    assert (tmp_path / "m.csv").read_text() == "step,loss\n0,0.5\n1,0.25\n"


HOLD = """
import sys
from pathlib import Path
from labkit.training.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_kept_out_until_the_first_has_died(digits, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(LabError, match=f"no other run is writing to; got process {other.pid} on .*another folder"):
            Trainer(small(), splits=digits, directory=tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {".lock"}, "nothing has been written"
        other.kill()
        other.wait()
    Trainer(small(), splits=digits, directory=tmp_path).step(2)


def test_in_one_process_the_newer_trainer_takes_the_folder_over(digits, tmp_path):
    first = Trainer(small(), splits=digits, directory=tmp_path)
    first.step(2)
    second = Trainer(small(), splits=digits, directory=tmp_path, resume=True)
    with pytest.raises(LabError, match="a newer trainer writing there"):
        first.step(2)
    second.run(progress=False)
    assert rows(tmp_path)[-1]["step"] == "4"
    FolderLock(tmp_path).release()  # a run that is over has let go


def test_a_lock_that_is_collected_while_another_is_taken_does_not_wait_for_itself(tmp_path, monkeypatch):
    forgotten, original = [FolderLock(tmp_path / "a")], FolderLock._open

    def opening(lock):
        forgotten.clear()  # as the collector may at any moment
        return original(lock)

    monkeypatch.setattr(FolderLock, "_open", opening)
    taking = threading.Thread(target=FolderLock, args=(tmp_path / "b",), daemon=True)
    taking.start()
    taking.join(20)
    assert not taking.is_alive()


def test_halves_left_by_a_killed_process_are_removed(digits, tmp_path):
    half = tmp_path / ".checkpoint.pt.123-00ff.partial"
    half.write_bytes(b"half")
    Trainer(small(), splits=digits, directory=tmp_path)
    assert not half.exists()


def test_what_differs_from_the_run_that_is_there_is_named(digits, tmp_path):
    Trainer(small(), splits=digits, directory=tmp_path).step(2)
    with pytest.raises(LabError, match=r"seed 0 there, 9 here; projections\.patience 1 there, 2 here"):
        Trainer(small(seed=9, **{"projections.patience": 2}), splits=digits, directory=tmp_path, resume=True)
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(LabError, match=r"experiment\.json: expected .*JSON"):
        Trainer(small(), splits=digits, directory=tmp_path, resume=True)
    (tmp_path / "experiment.json").unlink()
    with pytest.raises(LabError, match="no such file"):
        Trainer(small(), splits=digits, directory=tmp_path, resume=True)


def test_a_folder_is_refused_before_anything_is_loaded(digits, tmp_path, monkeypatch):
    Trainer(small(), splits=digits, directory=tmp_path).step(2)
    monkeypatch.setattr("labkit.training.trainer.open_splits", lambda *_: pytest.fail("the pictures were loaded"))
    with pytest.raises(LabError, match="a folder without a run in it"):
        Trainer(small(), directory=tmp_path)
    with pytest.raises(LabError, match="seed 0 there, 9 here"):
        Trainer(small(seed=9), directory=tmp_path, resume=True)


def test_a_trainer_that_cannot_be_built_leaves_the_folder_free_and_empty(digits, tmp_path):
    with pytest.raises(LabError, match="at most the 10 classes"):
        Trainer(small(**{"data.classes_per_batch": 11}), splits=digits, directory=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"] and not (tmp_path / ".lock").read_bytes()
    Trainer(small(), splits=digits, directory=tmp_path).step(2)


def test_a_trainer_that_cannot_be_built_gives_the_folder_back_to_the_older_one(digits, tmp_path):
    first = Trainer(small(), splits=digits, directory=tmp_path)
    for changes in ({"data.classes_per_batch": 11}, {"network.precision": "float16"}):
        with pytest.raises(LabError):
            Trainer(small(**changes), splits=digits, directory=tmp_path, device="cpu")
    first.run(progress=False)
    assert rows(tmp_path)[-1]["step"] == "4"
    with pytest.raises(LabError, match="a folder without a run in it"):
        Trainer(small(), splits=digits, directory=tmp_path)


def test_a_file_in_the_place_of_the_folder_is_named(digits, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LabError, match="got a file"):
        Trainer(small(), splits=digits, directory=tmp_path / "file")


class Greedy(torch.nn.Module):
    def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
        return embeddings.sum() + torch.zeros(2**50).sum()


def test_too_little_memory_is_told_with_what_to_do(digits):
    trainer = Trainer(small(), splits=digits, loss=Greedy())
    with pytest.raises(LabError, match=r"memory: .*after step 0\. Lower data\.samples_per_class"):
        trainer.step()


def test_a_recording_of_an_older_labkit_is_read_and_one_of_a_newer_is_refused(digits, tmp_path, monkeypatch):
    import json

    recording = Trainer(small(), splits=digits).run(progress=False)
    recording.save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as file:
        arrays = {name: file[name] for name in file.files}
    meta = json.loads(arrays["meta"].tobytes())
    meta["environment"].pop("precision")  # which the first recordings did not say
    monkeypatch.setattr("labkit.training.recording.FORMAT", 2)  # so that today's format is an older one
    for version, accepted in ((1, True), (99, False), (0, False)):
        arrays["meta"] = np.frombuffer(json.dumps(meta | {"format": version}).encode(), dtype=np.uint8)
        np.savez_compressed(tmp_path / "other.npz", **arrays)
        if accepted:
            found, wanted = (Recording.load(tmp_path / name).embeddings for name in ("other.npz", "r.npz"))
            np.testing.assert_array_equal(found, wanted)
        else:
            with pytest.raises(LabError, match="Update labkit" if version else "format 0"):
                Recording.load(tmp_path / "other.npz")
