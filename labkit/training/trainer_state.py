"""What a checkpoint holds of a trainer, and how a trainer takes it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.errors import LabError, said
from labkit.training.run_folder import check_identity

if TYPE_CHECKING:
    from labkit.training.trainer import Trainer

PARTS = ("model", "optimizer", "scaler", "pictures", "losses", "best", "recorder")  # each with a state of its own
COUNTS = ("steps_done", "done", "seconds")


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


def take_state(trainer: Trainer, state: dict[str, Any]) -> None:
    """Put a trainer where the one that gave `state` stood.

    Raises
    ------
    LabError : a part is missing or belongs to another network.
    """
    check_identity(state, trainer.identity)
    try:
        if trainer.projections is not None:
            trainer.projections.load_state_dict(state["projections"])
        else:
            trainer.loss.load_state_dict(state["loss"])
        for name in PARTS:
            getattr(trainer, name).load_state_dict(state[name])
        for name in COUNTS:
            setattr(trainer, name, state[name])
        trainer.references.anchors = state["anchors"]
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise LabError("checkpoint", "the state of the same experiment on the same data", said(error)) from error
