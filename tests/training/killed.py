"""Runs that are killed at each moment when something reaches the disk, and resumed: a program of its own, for it forks.

    python -m tests.training.killed FOLDER

FOLDER/whole is a run that was left alone, FOLDER/0, FOLDER/1, … were killed at their moment and resumed.
"""

import os
import signal
import sys
from pathlib import Path

import faiss  # noqa: F401 - loaded once, before the forks
import sklearn.cluster
import sklearn.metrics  # noqa: F401
import torch

from labkit.datasets import load_digits
from labkit.training import Trainer
from labkit.training.run_folder import RunFolder
from tests.training.conftest import tiny

EXPERIMENT = tiny(steps=4, evaluate_every=2, sample_size=30, **{"network.name": "small"})
DIGITS = load_digits("digits-8x8")
WATCHED = ("fsync", "replace", "write")  # before the bytes are safe, before and after they have their name, a row of a table


def run(folder, kill_at=None):
    """Run or resume in a process of its own; gives how many moments there were, None where it was killed."""
    count, told = os.pipe()
    if (child := os.fork()) == 0:
        moments = 0

        def watched(real):
            def call(*arguments, **named):
                nonlocal moments
                for after in (False, True):
                    moments += 1
                    if moments == kill_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    if not after:
                        result = real(*arguments, **named)
                return result

            return call

        plain = os.write
        for name in WATCHED:
            setattr(os, name, watched(getattr(os, name)))
        RunFolder.recording_every = 0.0
        Trainer(EXPERIMENT, splits=DIGITS, directory=folder, resume=True).run(progress=False)
        plain(told, str(moments).encode())
        os._exit(0)
    os.close(told)
    with os.fdopen(count) as said:
        answer = said.read()
    os.waitpid(child, 0)
    return int(answer) if answer else None


if __name__ == "__main__":
    torch.set_num_threads(1)
    top = Path(sys.argv[1])
    Trainer(EXPERIMENT, splits=DIGITS)  # torch loads much with its first optimiser: before the forks too
    moments = run(top / "whole")
    for moment in range(moments):
        assert run(top / str(moment), kill_at=moment + 1) is None
        assert run(top / str(moment)) is not None
    print(moments)
