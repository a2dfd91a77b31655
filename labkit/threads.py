"""NumPy work in threads: as many as torch is allowed, each with its own piece, none of them waiting for another's."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_inside = 0
_limit: Any = None


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
