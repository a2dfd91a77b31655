"""How far alternating projections have come: the running problem's best evaluation, and the last problem's solution."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from labkit.ccp_input import check_same_model

MIN_IMPROVEMENT = 1e-5  # of MAP@R, below which an evaluation counts as no better

Verdict = Literal["improved", "waiting", "next problem"]


class Progress:
    """What Algorithm 1 remembers from one evaluation and one problem to the next.

    Attributes
    ----------
    problem : index t of the running problem.
    best_map_at_r, best_proxies, best_weights : of this problem's best evaluation, the weights in host memory; the proxies
        stay those of the last problem until this one has its first.
    previous_weights : θ_prev, beside the model's trainable parameters; None in the first problem.
    observed, waited : evaluations of this problem, and those in a row that patience counts.
    """

    def __init__(self) -> None:
        self.problem = 0
        self.best_map_at_r, self.waited, self.observed = -1.0, 0, 0
        self.best_proxies: Tensor | None = None
        self.best_weights: dict[str, Tensor] | None = None
        self.previous_weights: list[Tensor] | None = None

    def note(
        self, map_at_r: float, proxies: Tensor, model: nn.Module | None, patience: int | None, grace: int
    ) -> Verdict:
        """Count an evaluation, and keep proxies and weights where it is this problem's best.

        Without an improvement patience runs: `patience` evaluations in a row, the first `grace` of a problem not counted.
        """
        self.observed += 1
        if map_at_r > self.best_map_at_r + MIN_IMPROVEMENT:
            self.best_map_at_r, self.waited = map_at_r, 0
            self.best_proxies = proxies.detach().clone()
            if model is not None:
                self.best_weights = {k: v.detach().to("cpu", copy=True) for k, v in model.state_dict().items()}
            return "improved"
        self.waited += self.observed > grace
        return "waiting" if patience is None or self.waited < patience else "next problem"

    def close(self, model: nn.Module | None, restore: bool) -> None:
        """Make the best weights θ_prev, put them back into the model with `restore`, and count the problem on."""
        if model is not None and self.best_weights is not None:
            best = self.best_weights
            named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
            self.previous_weights = [best[name].to(p, copy=True) for name, p in named]
            if restore:
                model.load_state_dict(best)
        self.problem += 1
        self.best_map_at_r, self.waited, self.observed, self.best_weights = -1.0, 0, 0, None

    def add_pull(self, model: nn.Module, weight: float) -> None:
        """Add weight (θ - θ_prev) to the gradients of the model's trainable parameters that have one."""
        previous = self.previous_weights
        trainable = check_same_model(model, previous)
        assert previous is not None
        touched = [(p.grad, p, old) for p, old in zip(trainable, previous, strict=True) if p.grad is not None]
        gradients = [gradient for gradient, _, _ in touched]
        torch._foreach_add_(gradients, [p for _, p, _ in touched], alpha=weight)
        torch._foreach_add_(gradients, [old for _, _, old in touched], alpha=-weight)
