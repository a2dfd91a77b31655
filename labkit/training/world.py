"""The processes that train one network together; alone, each method gives back what it was given.

Every process draws the same batch and embeds its own share of it. The embeddings are gathered, so that each has the whole
batch and computes the whole loss; each takes the gradient back to its own rows, and the sum over the processes is the
gradient of one process with the whole batch. Nothing is averaged, so nothing has to be scaled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.training.launched import launch_errors_named, launched, launched_as
from labkit.training.optimisation import choose_device

Result = TypeVar("Result")
# Evaluations of the main process may take long; the launcher ends the others at once if one dies.
PATIENCE = timedelta(hours=6)
TOLD = "raised by the main process, which has told it"  # a note on errors that came from there


class World:
    """One process alone.

    Attributes
    ----------
    rank, size : which process this is, 0 … size − 1, of how many. device : where it computes.
    """

    rank, size = 0, 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files and speaks to the user."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """Which of n rows are this process's: consecutive, the first processes take one more where it does not divide."""
        each, more = divmod(n, self.size)
        start = self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))

    def share(self, rows: Tensor, *sizes: int) -> Tensor:
        """This process's rows of each stretch; `rows` (n, …) are stretches of `sizes`, n in all, one after the other."""
        return rows

    def gather(self, rows: Tensor, *sizes: int) -> list[Tensor]:
        """The whole stretches of which `share` took the rows, on every process, with their gradient."""
        return [rows] if len(sizes) == 1 else list(torch.split(rows, list(sizes)))

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, with its gradient."""
        return values

    def reduce_gradients(self, summed: Iterable[nn.Parameter], same: Iterable[nn.Parameter]) -> None:
        """Between backward() and anything else: `summed` had a share of the batch behind them, `same` had all of it."""

    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Write the main process's values into the tensors of all."""

    def on_main(self, work: Callable[[], Result]) -> Result:
        """What `work` gives on the main process, on all of them; an error that it raises is raised on all."""
        return work()

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The main process does what is inside before the others, which find on disk what it has left there."""
        yield

    def leave(self) -> None:
        """The end of the work together, where all went well."""


class ManyProcesses(World):
    """One of several, started by `accelerate launch`, torchrun, or accelerate's `notebook_launcher`.

    Parameters
    ----------
    device : "auto", "cpu" or "cuda".

    Raises
    ------
    LabError : accelerate is not installed, a device by its number, fewer GPUs than processes.
    """

    def __init__(self, device: str = "auto") -> None:
        try:
            import accelerate
            from accelerate.utils import InitProcessGroupKwargs, broadcast, broadcast_object_list
        except ImportError as error:
            hint = "pip install 'labkit[distributed]'"
            raise LabError("accelerate", "the package, to train with several processes", "not installed", hint) from error
        if device not in ("auto", "cpu", "cuda"):
            raise LabError("device", "'auto', 'cpu' or 'cuda' with several processes: each takes one of its own", repr(device))
        on_cpu = device == "cpu" or (device == "auto" and (_told_cpu() or not torch.cuda.is_available()))
        local = launched_as("LOCAL_RANK", default="0")
        if not on_cpu and local >= torch.cuda.device_count():
            got = f"process {local + 1} and {torch.cuda.device_count()} of them"
            raise LabError("device", "a GPU for each process of a machine", got, "Start fewer, or add --device cpu.")
        with launch_errors_named():
            state = accelerate.PartialState(cpu=on_cpu, **InitProcessGroupKwargs(timeout=PATIENCE).to_kwargs())
        if (state.device.type == "cpu") != on_cpu:
            raise LabError("device", f"{state.device.type}, as these processes have begun", repr(device))
        super().__init__(state.device)
        self.rank, self.size = state.process_index, state.num_processes
        self._state, self._broadcast, self._broadcast_objects = state, broadcast, broadcast_object_list

    def share(self, rows: Tensor, *sizes: int) -> Tensor:
        return torch.cat([stretch[self.part(len(stretch))] for stretch in torch.split(rows, list(sizes))])

    def gather(self, rows: Tensor, *sizes: int) -> list[Tensor]:
        lengths = [len(range(n)[self.part(n)]) for n in sizes]
        stretches = zip(torch.split(rows, lengths), sizes, strict=True)
        return [_Gather.apply(stretch, self, n) for stretch, n in stretches]

    def sum(self, values: Tensor) -> Tensor:
        total: Tensor = _Sum.apply(values, self)
        return total

    def reduce_gradients(self, summed: Iterable[nn.Parameter], same: Iterable[nn.Parameter]) -> None:
        self._through_one(summed, lambda flat: flat.copy_(self.plain_sum(flat)))
        # Each has computed them from the same numbers; on GPUs the order of sums may differ, so the main one's count.
        self._through_one(same, self._broadcast)

    def agree(self, tensors: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for tensor in tensors:
                sent = self._broadcast(tensor.detach().to(self.device, copy=True).contiguous())
                tensor.copy_(sent.view(tensor.shape))

    def on_main(self, work: Callable[[], Result]) -> Result:
        told: list[Any] = [None, None]
        mine: Exception | None = None
        if self.is_main:
            try:
                told[0] = work()
            except LabError as error:
                told[1] = mine = error
            except Exception as error:  # noqa: BLE001 - whatever it is, the others must not wait for ever
                told[1], mine = RuntimeError(f"the main process failed: {error!r}"), error
        self._broadcast_objects(told)
        if mine is not None:
            raise mine
        if told[1] is not None:
            told[1].add_note(TOLD)
            raise told[1]
        result: Result = told[0]
        return result

    @contextmanager
    def main_first(self) -> Iterator[None]:
        if not self.is_main:
            self._state.wait_for_everyone()
        try:
            yield
        finally:  # the others go on after a failure too, and meet the same one
            if self.is_main:
                self._state.wait_for_everyone()

    def leave(self) -> None:
        self._state.wait_for_everyone()
        self._state.destroy_process_group()

    def plain_sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, a new tensor without gradient."""
        from accelerate.utils import reduce

        total: Tensor = reduce(values.contiguous(), reduction="sum")
        return total

    def plain_gather(self, rows: Tensor, n: int) -> Tensor:
        """All n rows, a new tensor without gradient; what travels is padded to one length."""
        from accelerate.utils import gather

        longest = -(-n // self.size)
        padded = torch.cat((rows, rows.new_zeros(longest - len(rows), *rows.shape[1:])))
        pieces = torch.split(gather(padded), longest)
        return torch.cat([piece[: n // self.size + (r < n % self.size)] for r, piece in enumerate(pieces)])

    def _through_one(self, parameters: Iterable[nn.Parameter], work: Callable[[Tensor], Any]) -> None:
        """One message for all gradients instead of one each."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        work(flat)
        pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view(gradient.shape))


class _Gather(torch.autograd.Function):
    """Every process computes the whole loss of the gathered rows, so its gradient for its own rows is complete."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, world: ManyProcesses, n: int) -> Tensor:
        ctx.part = world.part(n)
        return world.plain_gather(rows.detach(), n)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient[ctx.part], None, None


class _Sum(torch.autograd.Function):
    """Each process's rows depend on the sum, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, world: ManyProcesses) -> Tensor:
        ctx.world = world
        return world.plain_sum(values.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.world.plain_sum(gradient), None


def join_world(device: str = "auto") -> World:
    """The processes that a launcher has started together with this one, or this one alone.

    Raises
    ------
    LabError : the device is not there, accelerate is missing where there are several, or what the launcher has left in the
        environment cannot be.
    """
    if launched():
        return ManyProcesses(device)
    return World(choose_device(device))


def _told_cpu() -> bool:
    """Whether `accelerate launch --cpu` has started this process."""
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
