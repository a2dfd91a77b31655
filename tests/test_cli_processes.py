"""`labkit train` under a launcher: several processes, one run; and what the disk refuses."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from labkit.training import Recording

SMALL = [
    "train", "poc-ccp", "--device", "cpu", "--set=data.source=digits-8x8", "--set=data.samples_per_class=2",
    "--set=sample_size=40", "--set=network.name=small", "--set=steps=4", "--set=evaluate_every=2",
]  # fmt: skip
FILES = {".lock", "experiment.json", "checkpoint.pt", "recording.npz", "metrics.csv", "model.pt"}


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def launch(arguments, folder):
    """Run Python with `arguments` in `folder`; one that takes too long is ended with all that it started."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    command = ["timeout", "--kill-after=5", "280", sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    done = launch(["-m", "labkit", *SMALL, "--out", "run"], folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_two_processes_write_one_run(tmp_path, alone):
    start = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={port()}", "-m", "labkit"]
    done = launch([*start, *SMALL, "--out", "run", "--tensorboard"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Run: run") == 1 and done.stdout.count("On the test set") == 1
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES | {"tensorboard"}
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1
    one, two = Recording.load(alone), Recording.load(tmp_path / "run")
    assert one.steps.tolist() == two.steps.tolist() and one.final.keys() == two.final.keys()
    np.testing.assert_allclose(one.embeddings[0], two.embeddings[0], atol=2e-3)
    refused = launch([*start, *SMALL, "--out", "run"], tmp_path)
    assert refused.returncode != 0 and refused.stderr.count("a folder without a run in it") == 1


def test_accelerate_launches_the_module(tmp_path, alone):
    start = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no"]
    done = launch([*start, "--dynamo_backend=no", "-m", "labkit", *SMALL, "--out", "run"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "recording.npz").read_bytes() == (alone / "recording.npz").read_bytes()


NOTEBOOK = """
import sys
from accelerate import notebook_launcher

def train(folder):
    from labkit.training import Trainer
    from tests.training.conftest import tiny
    changes = {"network.name": "small", "steps": 4, "evaluate_every": 2}
    trainer = Trainer(tiny(**changes), directory=folder, device="cpu")
    trainer.run(progress=False)
    assert trainer.world.size == 2

notebook_launcher(train, (sys.argv[1],), num_processes=2, use_port=sys.argv[2])
"""


def test_a_notebook_launches_two_processes(tmp_path):
    (tmp_path / "cell.py").write_text(NOTEBOOK)
    done = launch(["cell.py", "run", port()], tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from labkit.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on the size of files is Unix's")
def test_no_room_for_the_checkpoint_is_told_in_one_line_and_the_run_goes_on_afterwards(tmp_path, alone):
    done = launch(["-c", LIMITED, *SMALL, "--out", "run"], tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("labkit: run/") and "room to write it" in done.stderr
    assert not (tmp_path / "run" / "checkpoint.pt").exists() and not list((tmp_path / "run").glob(".*.partial"))
    assert launch(["-m", "labkit", *SMALL, "--out", "run", "--resume"], tmp_path).returncode == 0
    for name in ("recording.npz", "metrics.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (alone / name).read_bytes()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="/proc is where nobody may write, root included")
def test_a_place_that_takes_no_files_is_named(tmp_path):
    done = launch(["-m", "labkit", *SMALL, "--out", "/proc/run"], tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("labkit: /proc/run")
