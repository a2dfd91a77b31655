"""A run computes by its own settings: neither autocast nor a default dtype around it reaches in, and both are put back."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch

from labkit.errors import LabError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_lock = threading.Lock()
_inside = 0
_outside = torch.float32


class Runs(Protocol):
    """Something that computes with others on a device."""

    @property
    def world(self) -> Any: ...


Owner = TypeVar("Owner", bound=Runs)


@contextmanager
def own_settings(device: torch.device) -> Iterator[None]:
    """Inside, autocast is off (a run switches its own on, in its own precision) and new tensors of floats are float32.

    Autocast belongs to the thread. The default dtype belongs to the process, so that another thread finds float32 too
    while a run of this one is inside; whoever is last out puts back what was there before.
    """
    with ExitStack() as stack:
        for kind in {device.type, "cpu"}:
            if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
                # Without its cache: that is emptied only at the end of all, and would keep weights as they once were.
                stack.enter_context(torch.autocast(kind, enabled=False, cache_enabled=False))
        stack.enter_context(_float32_by_default())
        yield


@contextmanager
def _float32_by_default() -> Iterator[None]:
    global _inside, _outside
    with _lock:
        if _inside == 0:
            _outside = torch.float32
        _inside += 1
        if (found := torch.get_default_dtype()) != torch.float32:
            _outside = found
            torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and torch.get_default_dtype() == torch.float32:  # else somebody inside has set another
                torch.set_default_dtype(_outside)


def by_own_settings(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """A method that works within `own_settings` of its owner's device, `owner.world.device`."""

    @functools.wraps(method)
    def inside(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with own_settings(owner.world.device):
            return method(owner, *args, **kwargs)

    return inside


def to_learn(method: Callable[Concatenate[Owner, Arguments], Result]) -> Callable[Concatenate[Owner, Arguments], Result]:
    """As `by_own_settings`, for a method that makes what learns later; within `torch.inference_mode()` it raises a LabError."""
    settled = by_own_settings(method)

    @functools.wraps(method)
    def inside(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        check_no_inference(type(owner).__name__)
        return settled(owner, *args, **kwargs)

    return inside


def check_no_inference(who: str) -> None:
    """Refuse `torch.inference_mode()` around what makes tensors that shall learn.

    Raises
    ------
    LabError : names `who` cannot work within it.
    """
    if torch.is_inference_mode_enabled():
        expected, hint = "work outside of torch.inference_mode(), to train", "Leave it first. embed() works within it."
        raise LabError(who, expected, "a call within it, whose tensors never learn", hint)


def check_gradients(what: str) -> None:
    """Refuse `torch.no_grad()` and `torch.inference_mode()` around what needs gradients.

    Raises
    ------
    LabError : names `what` cannot be done within them.
    """
    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        mode = "torch.inference_mode()" if torch.is_inference_mode_enabled() else "torch.no_grad()"
        raise LabError(what, "gradients, to train with", f"a call within {mode}, which has none", "Leave it first.")
