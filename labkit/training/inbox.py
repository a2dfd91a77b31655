"""A queue of commands for one worker, who waits in it, and whom forgetting the queue's owner sends home."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

Command = Callable[[], None]


class Inbox:
    """Commands in order, and whether there is work to go on with between them.

    Attributes
    ----------
    busy : set by the worker where it wants its next turn without a command.
    """

    def __init__(self) -> None:
        self.busy = False
        self._commands: deque[Command] = deque()
        self._changed = threading.Condition()
        self._working = False
        self._ticket = 0  # of the worker that is served; closing makes it void

    def put(self, command: Command) -> None:
        """Ask for something."""
        with self._changed:
            self._commands.append(command)
            self._changed.notify_all()

    def take(self) -> Command | None:
        """The oldest command, if there is one."""
        with self._changed:
            return self._commands.popleft() if self._commands else None

    def due(self) -> bool:
        """Whether a command waits."""
        return bool(self._commands)

    def open(self) -> int:
        """A ticket for a new worker; that of the one before is void."""
        with self._changed:
            self._ticket += 1
            return self._ticket

    def wait(self, ticket: int) -> bool:
        """Until there is something to do; False once the ticket is void."""
        with self._changed:
            if ticket == self._ticket:
                self._working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: ticket != self._ticket or self._commands or self.busy)
            if ticket != self._ticket:
                return False
            self._working = True
            return True

    def settled(self, timeout: float | None) -> bool:
        """Wait until everything asked for is done, or the worker sent home; False if that took longer."""
        ticket = self._ticket
        with self._changed:
            return self._changed.wait_for(
                lambda: ticket != self._ticket or not (self._commands or self.busy or self._working), timeout
            )

    def leave(self, ticket: int) -> None:
        """As `close`, by the worker itself, unless another has its place already."""
        with self._changed:
            if ticket == self._ticket:
                self.close()

    def close(self) -> None:
        """Send the worker home, and forget what nobody has begun."""
        with self._changed:
            self._ticket += 1
            self._commands.clear()
            self.busy = self._working = False
            self._changed.notify_all()


def serve(owner: weakref.ref[Any], turn: Callable[[Any], None], inbox: Inbox, ticket: int) -> None:
    """A worker's life: `turn(owner)` whenever there is something to do. It holds the owner only meanwhile.

    A turn that raises ends the worker; nobody is left to wait for what it has not done.
    """
    try:
        while inbox.wait(ticket):
            alive = owner()
            if alive is None:
                return
            turn(alive)
            del alive
    except BaseException:
        inbox.leave(ticket)
        raise
