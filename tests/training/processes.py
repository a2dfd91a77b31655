"""Two processes that train together, over gloo on the processor; the module is imported by each of them."""

from __future__ import annotations

import os
import socket
import time
import traceback
from pathlib import Path

import torch
import torch.multiprocessing

DEADLINE = 240.0  # seconds after which they are ended


def together(work, *arguments, processes=2):
    """Call `work(rank, *arguments)` in each of several fresh processes, as a launcher would start them.

    Raises
    ------
    AssertionError : one of them raised (with what it said), or they took too long.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.start_processes(
        _begin, (work, processes, port, arguments), nprocs=processes, join=False, start_method="spawn"
    )
    until = time.monotonic() + DEADLINE
    try:
        while not context.join(timeout=1.0):
            assert time.monotonic() < until, "the processes wait for each other"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()


def _begin(rank, work, processes, port, arguments):
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    torch.set_num_threads(1)
    work(rank, *arguments)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def run_cases(rank, cases, folder):
    """Run each experiment, write its recording, or what it said where it failed; every process leaves its final weights."""
    from labkit.training import Trainer

    for name, experiment in cases.items():
        try:
            begun = "resumed" in name
            if begun:
                Trainer(experiment, directory=Path(folder) / name).step(experiment.steps // 2)
            trainer = Trainer(experiment, directory=Path(folder) / name, resume=begun)
            trainer.run(progress=False)
            assert trainer.world.size == 2
            weights = {"model": trainer.model.state_dict(), "learnt": list(trainer.learnt)}
            torch.save(weights, Path(folder) / f"{name}-{rank}.pt")
        except Exception:  # noqa: BLE001 - the parent shows it
            (Path(folder) / f"{name}-{rank}.txt").write_text(traceback.format_exc())
