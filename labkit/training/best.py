"""The model that a run returns: the weights that were best on the held-out pictures, or the last ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from labkit.ccp_progress import MIN_IMPROVEMENT


class BestModel:
    """Keeps the best weights so far, with the proxies of the same moment, in host memory.

    Parameters
    ----------
    by_score : False takes each evaluation for the best so far; the model has its weights itself then, and none are kept.

    Attributes
    ----------
    score, step : of the best evaluation; -1 and 0 before the first. references : (C, K, D) proxies then, or None.
    waited : evaluations since then; always 0 where the newest is the best.
    """

    def __init__(self, by_score: bool = True) -> None:
        self._by_score = by_score
        self.score, self.step, self.waited = -1.0, 0, 0
        self.weights: dict[str, Tensor] = {}
        self.references: Tensor | None = None

    def observe(self, score: float, step: int, model: nn.Module, references: Tensor | None) -> None:
        """Take note of an evaluation; keep the model if it is better than all before by more than 1e-5."""
        if self._by_score and score <= self.score + MIN_IMPROVEMENT:
            self.waited += 1
            return
        self.score, self.step, self.waited = score, step, 0
        if self._by_score:
            self.weights = {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
        self.references = None if references is None else references.detach().to("cpu", copy=True)

    def restore(self, model: nn.Module) -> dict[str, float]:
        """Put the best weights back into the model; says which evaluation's they are, and how good it was."""
        if self._by_score:
            model.load_state_dict(self.weights)
        return {"chosen_step": float(self.step), "held_out_map_at_r": self.score}

    def state_dict(self) -> dict[str, Any]:
        """Everything, as tensors and numbers."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        for name in self.state_dict():
            setattr(self, name, state[name])
