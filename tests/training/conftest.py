"""Small runs that take a second each."""

from __future__ import annotations

import sys
import threading
import time

from labkit.threads import Aborted, give_way
from labkit.training import Experiment

TINY = {
    "steps": 30, "evaluate_every": 5, "sample_size": 60, "data.source": "digits-8x8", "data.samples_per_class": 4,
    "projections.pool_size": 8, "projections.patience": 1, "optimizer.warmup_steps": 2,
}  # fmt: skip


def tiny(preset: str = "poc-ccp", **changes) -> Experiment:
    return Experiment.preset(preset, **{**TINY, **changes})


def long_work():
    """Work that ends only when it is told to give way: the function, an event (it has begun), a list (filled as it gives way)."""
    begun, ended = threading.Event(), []

    def work(_experiment):
        begun.set()
        try:
            for _ in range(10**6):
                give_way()
                time.sleep(0.005)
        except Aborted:
            ended.append(True)
            raise

    return work, begun, ended


def at_once(callers):
    """Call all of these in threads of their own that are interrupted all the time; every one returns and raises nothing."""
    wrong = []

    def calls(caller):
        try:
            caller()
        except BaseException as error:  # noqa: BLE001 - looked at below
            wrong.append(error)

    threads = [threading.Thread(target=calls, args=(caller,), daemon=True) for caller in callers]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not wrong and not any(thread.is_alive() for thread in threads)
