"""What a checkpoint holds of a trainer, and how a trainer takes it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError, said
from labkit.training.checkpoint_parts import CHECKS
from labkit.training.run_folder import check_identity

if TYPE_CHECKING:
    from labkit.training.trainer import Trainer

PARTS = ("model", "optimizer", "scaler", "pictures", "losses", "best", "recorder")  # each with a state of its own
COUNTS = ("steps_done", "done", "seconds")
EXPECTED = "the state of the same experiment on the same data"
HINT = "Without --resume, in another folder, the run starts anew."


def state_of(trainer: Trainer) -> dict[str, Any]:
    """Everything that the rest of the run depends on. Of projections and loss only one: the former hold the latter."""
    projections = trainer.projections
    return {
        "identity": trainer.identity,
        **{name: getattr(trainer, name) for name in COUNTS},
        **{name: getattr(trainer, name).state_dict() for name in PARTS},
        "projections": None if projections is None else projections.state_dict(),
        "loss": None if projections is not None else trainer.loss.state_dict(),
        "anchors": trainer.references.anchors,
    }


def take_state(trainer: Trainer, state: Any) -> None:
    """Put a trainer where the one that gave `state` stood.

    Raises
    ------
    LabError : a part is missing, odd, or belongs to another network or run. It names the checkpoint and the part.
    """
    source = "checkpoint" if trainer.folder is None else str(trainer.folder.path / "checkpoint.pt")
    own = "loss" if trainer.projections is None else "projections"
    wanted = ("identity", own, *PARTS, *COUNTS, "anchors")
    missing = [name for name in wanted if name not in state] if isinstance(state, Mapping) else wanted
    if missing:
        raise LabError(source, f"{EXPECTED}, with the parts {', '.join(wanted)}", f"none called {missing[0]}", HINT)
    check_identity(state, trainer.identity, source)
    for name in (own, *PARTS):
        with _taking(source, name):
            getattr(trainer, name).load_state_dict(state[name])
    trainer.steps_done, trainer.done, trainer.seconds = (state[name] for name in COUNTS)
    trainer.references.anchors = state["anchors"]
    for name, check in CHECKS.items():
        with _taking(source, name):
            check(trainer)


@contextmanager
def _taking(source: str, part: str) -> Iterator[None]:
    """Name the checkpoint and the part in what is raised inside: its readers raise whatever an odd part leads them to."""
    try:
        yield
    except Exception as error:
        raise LabError(source, EXPECTED, f"{said(error)}, in its part {part}", HINT) from error
