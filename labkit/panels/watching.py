"""Drawing what goes on elsewhere: a periodic look from the kernel's event loop, no faster than the page can follow."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

TICK = 0.07  # seconds between two frames at least
WAIT = 0.02  # seconds between two looks whether the page has drawn the last frame, which leaves it time for its user
QUICK = 0.25  # seconds: a page that answers a frame sooner is sent the next one before it has
PATIENT = 2.0  # seconds after which a page that does not answer, e.g. a closed one, is sent the next frame all the same
HURRY = 0.5  # seconds for which, after somebody has changed something, the next frames need not wait for their time


class Watch:
    """Looks again and again, until there is nothing more to see.

    The task runs in the event loop of whoever wakes it: a cell's, or, where the kernel has subshells, that of the thread
    that serves the page's widgets. No more than one frame waits for the page, so that none pile up.

    Parameters
    ----------
    picture : what is drawn into: `sent` is the number of the last frame that its page answers, and it calls `drawn(number)`
        when the page has drawn that one.
    look : draws if there is something new, and says (whether it drew, whether more will come).

    Attributes
    ----------
    frames : how many were drawn.
    """

    def __init__(self, picture: Any, look: Callable[[], tuple[bool, bool]]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self.frames = 0
        self._picture, self._sent_at, self._quick, self._hurried = picture, 0.0, False, 0.0
        self._unseen: dict[int, float] = {}  # frames that the page has not drawn yet: their number, and when they were sent
        picture.drawn = self._hear

    def _hear(self, drawn: int) -> None:
        for number in [n for n in list(self._unseen) if n <= drawn]:
            self._quick = time.monotonic() - self._unseen.pop(number) < QUICK

    def wake(self, *, hurry: bool = False) -> None:
        """Begin to look, if nobody does yet; without an event loop (no kernel) nobody will.

        `hurry` : something was changed by hand, and who changed it waits to see it.
        """
        if hurry:
            self._hurried = time.monotonic() + HURRY
        with self._lock:
            if self._task is not None:
                loop, task = self._task
                if loop.is_running() and not task.done():
                    return
            with contextlib.suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                self._task = (loop, loop.create_task(self._watch()))

    def stop(self) -> None:
        """Look no more; from any thread."""
        with self._lock:
            task, self._task = self._task, None
        if task is not None:
            with contextlib.suppress(RuntimeError):  # a loop that is closed
                task[0].call_soon_threadsafe(task[1].cancel)

    async def _watch(self) -> None:
        more = True
        while more:
            await asyncio.sleep(WAIT)
            now = time.monotonic()
            full = len(self._unseen) > self._quick
            if now - self._sent_at < (PATIENT if full else WAIT if now < self._hurried else TICK):
                continue
            before = self._picture.sent
            drew, more = self._look()
            if drew:
                self.frames += 1
                self._sent_at = time.monotonic()
            if (number := self._picture.sent) > before:
                self._unseen[number] = self._sent_at
