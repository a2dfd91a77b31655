"""How far alternating projections have come: the running problem's best evaluation, and the last problem's solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from labkit.ccp_input import check_same_model
from labkit.errors import LabError
from labkit.validation import describe

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
            if {k: v.shape for k, v in model.state_dict().items()} != {k: v.shape for k, v in best.items()}:
                raise LabError("model", "the network that was observed, with the same weights", type(model).__name__)
            named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
            self.previous_weights = [best[name].to(p, copy=True) for name, p in named]
            if restore:
                model.load_state_dict(best)
        self.problem += 1
        self.best_map_at_r, self.waited, self.observed, self.best_weights = -1.0, 0, 0, None

    def restore(self, state: Any) -> None:
        """Take back what `vars` gave, with whatever else stands beside it.

        Raises
        ------
        LabError : a part is missing or of another kind.
        """
        kinds: dict[str, Callable[[Any], bool]] = {
            "initialized": lambda v: isinstance(v, bool),
            **dict.fromkeys(("problem", "waited", "observed"), lambda v: type(v) is int and v >= 0),
            "best_map_at_r": lambda v: isinstance(v, (int, float)) and -1 <= v <= 1,
            "best_proxies": lambda v: v is None or isinstance(v, Tensor) and bool(torch.isfinite(v).all()),
            "best_weights": lambda v: v is None or isinstance(v, dict) and all(isinstance(w, Tensor) for w in v.values()),
            "previous_weights": lambda v: v is None or isinstance(v, list) and all(isinstance(w, Tensor) for w in v),
        }
        if not isinstance(state, dict) or not kinds.keys() <= state.keys():
            raise LabError("state", f"a dict with {', '.join(kinds)}", describe(state))
        for name, fits in kinds.items():
            if not fits(state[name]):
                raise LabError(f"state[{name!r}]", "what get_extra_state() gave", describe(state[name]))
        vars(self).update({name: state[name] for name in kinds if name != "initialized"})

    def add_pull(self, model: nn.Module, weight: float) -> None:
        """Add weight (θ - θ_prev) to the gradients of the model's trainable parameters that have one."""
        previous = self.previous_weights
        trainable = check_same_model(model, previous)
        assert previous is not None
        touched = [(p.grad, p, old) for p, old in zip(trainable, previous, strict=True) if p.grad is not None]
        if not touched:  # before the first backward pass
            return
        gradients = [gradient for gradient, _, _ in touched]
        torch._foreach_add_(gradients, [p for _, p, _ in touched], alpha=weight)
        torch._foreach_add_(gradients, [old for _, _, old in touched], alpha=-weight)
