"""Time and peak memory of one piece of work in a process of its own, so that contenders do not share caches or heaps."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Measured:
    """seconds, cpu : the fastest of the repeats by the clock, and the least processor time of all threads (which a busy
    machine does not stretch). memory : bytes that the first run held beyond its inputs. result : of the last.
    """

    seconds: float
    cpu: float
    memory: int
    result: Any


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (the most so far) of this process in bytes; 0 where there is no /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith(field))


def _work(send: Any, prepare: Callable[..., Callable[[], Any]], arguments: tuple[Any, ...], repeats: int) -> None:
    run = prepare(*arguments)
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")  # the high-water mark starts from here
    before, times, cpu = resident("VmRSS"), [], []
    memory = 0
    for i in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        result = run()
        times.append(time.perf_counter() - start)
        cpu.append(time.process_time() - busy)
        if i == 0:
            memory = max(0, resident("VmHWM") - before)
    send.send(Measured(min(times), min(cpu), memory, result))


def measure(prepare: Callable[..., Callable[[], Any]], *arguments: Any, repeats: int = 3) -> Measured:
    """Run `prepare(*arguments)()` in a new process; `prepare` makes the inputs and is not timed."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(send, prepare, arguments, repeats))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        sys.exit("the measured process died; its message is above")
    finally:
        child.join()


def line(name: str, measured: Measured, ours: Measured | None = None) -> str:
    """One row of a table: seconds, processor seconds, memory, and how many times slower than ours (by either)."""
    ratio = f"{measured.seconds / ours.seconds:6.1f} x ({measured.cpu / ours.cpu:.1f} x)" if ours else "  ours"
    return f"  {name:<44}{measured.seconds:8.3f} s  CPU {measured.cpu:8.3f} s {measured.memory / 2**20:6.0f} MiB {ratio}"


def where_time_goes(run: Callable[[], Any], forget: Callable[[], Any] = lambda: None, top: int = 4) -> str:
    """The operations that take most processor time of their own in a few runs, as a line."""
    import torch

    runs = 5
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(runs):
            run()
            forget()
    events = sorted(profile.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    parts = [f"{event.key.removeprefix('aten::')} {event.self_cpu_time_total / total:.0%}" for event in events[:top]]
    return f"    {total / runs / 1e3:.2f} ms of processor time: " + ", ".join(parts)
