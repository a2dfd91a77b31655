"""Who may use which core: NumPy work in as many threads as torch is allowed, and a training that leaves a core free."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Item = TypeVar("Item")
Result = TypeVar("Result")

_here = threading.local()  # .given_up: asked by `give_way` in this thread
_lock = threading.Lock()
_inside = 0
_limit: Any = None
_sparing = 0
_allowed = 1


class Aborted(Exception):
    """Work went no further because whoever waited for it has given it up."""


@contextmanager
def unless(given_up: Callable[[], bool]) -> Iterator[None]:
    """Inside, and in this thread alone, `give_way` raises `Aborted` once `given_up()` is true."""
    before = getattr(_here, "given_up", None)
    _here.given_up = given_up
    try:
        yield
    finally:
        _here.given_up = before


def give_way() -> None:
    """Called between the parts of long work (pictures to be decoded, a network to be built), where it may be given up.

    Raises
    ------
    Aborted : it has been; never outside `unless`.
    """
    given_up = getattr(_here, "given_up", None)
    if given_up is not None and given_up():
        raise Aborted


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`work` of each item, in the order of the items.

    NumPy lets go of the interpreter while it computes, so threads share the processor's cores. Its matrix products
    run on one thread each meanwhile: two products of two threads each on two cores wait for each other most of the time.
    """
    workers = min(torch.get_num_threads(), len(items))
    if workers <= 1:
        return [work(item) for item in items]
    pool = ThreadPoolExecutor(workers)
    try:
        with _products_on_one_thread():
            return list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the items at work, not for those in the queue


@contextmanager
def _products_on_one_thread() -> Iterator[None]:
    """The setting belongs to the process: the first one in makes it, the last one out puts the old one back."""
    global _inside, _limit
    with _lock:
        _inside += 1
        if _inside == 1:
            _limit = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


@functools.cache
def _controller() -> Any:
    """Looked up once: finding the loaded libraries takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_core_left() -> Iterator[None]:
    """Inside, torch computes with cores - 1 threads (at least one, and never more than its user allows it).

    For work that goes on beside a live picture: on two cores, two threads of torch and a third that draws wait for each
    other most of the time. The setting that was there before is put back, also with several of these at once.
    """
    global _sparing, _allowed
    with _lock:
        if _sparing == 0:
            _allowed = torch.get_num_threads()
        _sparing += 1
        torch.set_num_threads(max(1, min(_allowed, cores() - 1)))
    try:
        yield
    finally:
        with _lock:  # with OpenMP the setting is the thread's own and the default of those to come: both are put back
            _sparing -= 1
            torch.set_num_threads(_allowed)


@contextmanager
def threads_kept() -> Iterator[None]:
    """Put torch's number of threads back afterwards, for libraries that set OpenMP's own, as numba does under UMAP.

    Another number would change the order of sums, and so the last digits of every run that follows.
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
