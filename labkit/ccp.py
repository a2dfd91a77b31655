"""Alternating projections: Algorithm 1 of "Deep Metric Learning with Chance Constraints", and nothing else.

Solve a proxy problem until it stops improving, start the proxies anew from K-Center-chosen samples, go on from there
and stay near the last solution. Each such problem is a projection onto the set of networks that satisfy the chance
constraints of its anchor samples; the proxies stand in for the anchors' embeddings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from labkit.ccp_input import check_call, check_choosing, check_model, check_pool, check_takes_pairs
from labkit.ccp_progress import Progress, Verdict
from labkit.errors import LabError
from labkit.losses.base import normalized_as
from labkit.losses.proxy_base import owns_proxies
from labkit.selection import greedy_k_center, random_selection
from labkit.validation import check_choice, check_flag, check_loss_value, check_number, describe


class Choice(NamedTuple):
    """What `initialize` picked: `indices` (C, K) into the pool, and `radii` (C, K) after each pick (None at random)."""

    indices: Tensor
    radii: Tensor | None


class AlternatingProjections(nn.Module):
    """A proxy loss whose proxies start anew from chosen samples whenever its problem has converged.

    Parameters
    ----------
    loss : any pair loss called as `loss(embeddings, labels, ref_emb=..., ref_labels=...)`, ours or pytorch-metric-
        learning's; or one that owns its proxies in `.weight` (C·K, D), such as `SoftTripleLoss`: no references then.
    num_classes, embedding_size : C and D.
    proxies_per_class : K >= 1. A loss that owns proxies has to agree with these three numbers.
    pool_size : b >= K, samples per class among which the next proxies are chosen.
    projection_weight : λ of equation 4.11, the pull towards the last problem's solution; acts from the second problem on.
    patience : evaluations without an improvement of more than 1e-5 that end a problem; None never ends one, which is
        the single proxy problem ("loss-proxy").
    pair_weight : weight of the loss over the batch's own pairs, added to the proxy term; the published code uses 0.1.
        Only 0 for a loss that owns proxies, since it has no pairs.
    selection : "k_center" (Algorithm 2) or "random" (K random samples of the pool).
    restore_best : whether a new problem starts from the best weights of the last one instead of the newest.
    grace : evaluations at the start of each problem that patience does not count. The paper starts from a pretrained
        network and needs none (0); a network that starts from nothing wanders before it learns.

    Attributes
    ----------
    proxies : (C, K, D), ρ; a parameter, or a view of the weight of a loss that owns proxies.
    proxy_parameter : what the optimiser gets, without weight decay: `proxies`, or the loss's weight itself.
    problem : index t of the running problem, 0 for the first. initialized : whether the proxies have been set.
    progress : the running problem's best evaluation and the last problem's solution.

    Examples
    --------
    >>> from labkit.losses import ContrastiveLoss
    >>> generator = torch.Generator().manual_seed(0)
    >>> ccp = AlternatingProjections(ContrastiveLoss(), num_classes=3, embedding_size=2, proxies_per_class=2, pool_size=5)
    >>> ccp.initialize(torch.rand(3, 5, 2, generator=generator)).indices.shape
    torch.Size([3, 2])
    >>> bool(ccp(torch.rand(6, 2, generator=generator), torch.tensor([0, 0, 1, 1, 2, 2])) > 0)
    True
    """

    def __init__(
        self,
        loss: nn.Module,
        num_classes: int,
        embedding_size: int,
        proxies_per_class: int = 4,
        pool_size: int = 16,
        projection_weight: float = 2e-4,
        patience: int | None = 3,
        pair_weight: float = 0.0,
        selection: str = "k_center",
        restore_best: bool = False,
        grace: int = 0,
    ) -> None:
        super().__init__()
        check_number("num_classes", num_classes, low=2, whole=True)
        check_number("embedding_size", embedding_size, low=1, whole=True)
        check_number("proxies_per_class", proxies_per_class, low=1, whole=True)
        check_number("pool_size", pool_size, low=1, whole=True)
        if pool_size < proxies_per_class:
            raise LabError("pool_size", f"at least proxies_per_class = {proxies_per_class}", pool_size)
        self.loss = loss
        self.num_classes, self.embedding_size = num_classes, embedding_size
        self.proxies_per_class, self.pool_size = proxies_per_class, pool_size
        self.projection_weight = check_number("projection_weight", projection_weight, low=0)
        self.patience = None if patience is None else int(check_number("patience", patience, low=1, whole=True))
        self.pair_weight = check_number("pair_weight", pair_weight, low=0)
        self.selection = check_choice("selection", selection, ("k_center", "random"))
        self.restore_best = check_flag("restore_best", restore_best)
        self.grace = int(check_number("grace", grace, low=0, whole=True))
        self.owned = owns_proxies(loss, num_classes, embedding_size, proxies_per_class, self.pair_weight)
        check_takes_pairs(loss, self.owned, self.pair_weight)
        if not self.owned:
            self.proxies = nn.Parameter(torch.zeros(num_classes, proxies_per_class, embedding_size))
        proxy_labels = torch.arange(num_classes).repeat_interleave(proxies_per_class)
        self.register_buffer("proxy_labels", proxy_labels, persistent=False)
        self.proxy_labels: Tensor
        self.progress = Progress()
        self.initialized = False
        self._model: list[nn.Module] = []  # a list, so that the model does not become a submodule

    def __getattr__(self, name: str) -> Any:  # a view made afresh, since a kept one would go stale in .to()
        if name == "proxies" and self.__dict__.get("owned"):
            return self.proxy_parameter.view(self._shape)
        return super().__getattr__(name)

    @property
    def problem(self) -> int:
        """Index t of the running problem, 0 for the first."""
        return self.progress.problem

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.num_classes, self.proxies_per_class, self.embedding_size

    @property
    def proxy_parameter(self) -> nn.Parameter:
        """The one parameter that holds the proxies."""
        parameter = self.loss.weight if self.owned else self._parameters["proxies"]
        assert isinstance(parameter, nn.Parameter)
        return parameter

    def normalized(self, vectors: Tensor) -> Tensor:
        """Normalise (..., D) vectors as the loss does; the Lipschitz way (section 4.4) where the loss does not say."""
        return normalized_as(self.loss, vectors)

    def forward(
        self, embeddings: Tensor, labels: Tensor, indices_tuple: Any = None, anchors: Tensor | None = None
    ) -> Tensor:
        """Loss of a batch against the proxies, plus `pair_weight` times the loss over the batch's own pairs.

        Parameters
        ----------
        embeddings : (n, D), labels : (n,) in 0 ... C - 1.
        indices_tuple : a miner's result for the batch's own pairs, or for a loss that owns proxies; optional.
        anchors : (C, K, D) embeddings of the anchor samples themselves, with their gradient, in place of the proxies;
            this is "sample-based" training, equation 4.9. Not for a loss that owns proxies.
        """
        if not self.initialized:
            raise LabError("AlternatingProjections", "initialize(pool) before the first call", "proxies not set yet")
        labels = check_call(embeddings, labels, anchors, self._shape)
        if self.owned:
            if anchors is not None:
                expected = f"None: {type(self.loss).__name__} owns its proxies"
                raise LabError("anchors", expected, describe(anchors), "A pair loss takes anchors in their place.")
            return check_loss_value(self.loss, self.loss(embeddings, labels, indices_tuple))
        references = self.proxies if anchors is None else anchors
        flat = references.flatten(0, 1).to(torch.promote_types(embeddings.dtype, torch.float32))
        total = check_loss_value(self.loss, self.loss(embeddings, labels, ref_emb=flat, ref_labels=self.proxy_labels))
        return total + self.pair_weight * self.loss(embeddings, labels, indices_tuple) if self.pair_weight > 0 else total

    def keep_own_proxies(self) -> None:
        """Start the first problem from the proxies as the loss that owns them drew them, in place of `initialize`."""
        if not self.owned:
            raise LabError("loss", "one that owns its proxies", type(self.loss).__name__, "Call initialize(pool).")
        self.initialized = True

    @torch.no_grad()
    def initialize(
        self,
        pool: Tensor,
        mask: Tensor | None = None,
        generator: torch.Generator | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Choice:
        """Start the proxies at K embeddings per class chosen from a pool (Algorithm 2).

        The initial centres of K-Center are the origin before the first problem and the last problem's best proxies
        after it.

        Parameters
        ----------
        pool : (C, b, D) embeddings of b samples of each class, classes in order.
        mask : (C, b), True where a pool entry exists; for classes with fewer samples.
        generator : source of the choice where selection = "random".
        optimizer : its running moments of the proxies are cleared, since they belong to the last problem's.

        Raises
        ------
        LabError : another shape, NaN, or fewer than K valid entries for a class.
        """
        pool, valid = check_pool(pool, mask, self._shape)
        check_choosing(generator, optimizer)
        points = self.normalized(pool.to(self.proxies))
        radii = None
        if self.selection == "random":
            indices = random_selection(valid, self.proxies_per_class, generator=generator)
        else:
            last = self.progress.best_proxies
            origin = points.new_zeros(self.num_classes, 1, self.embedding_size)
            centres = origin if last is None else self.normalized(last.to(points))
            indices, radii = greedy_k_center(points, self.proxies_per_class, initial=centres, mask=valid)
        self.proxies.copy_(points.gather(1, indices[:, :, None].expand(-1, -1, self.embedding_size)))
        self.initialized = True
        if optimizer is not None:
            optimizer.state.pop(self.proxy_parameter, None)
        return Choice(indices, radii)

    @torch.no_grad()
    def add_projection_gradient(self, model: nn.Module) -> None:
        """Add λ (θ - θ_prev) to the gradients of the model's trainable parameters: the gradient of ½ λ ‖θ - θ_prev‖².

        Call it between `backward()` and the optimiser's step (before clipping). It does nothing in the first problem,
        but remembers the model whose solution `observe` has to keep.
        """
        self._model = [check_model(model)]
        if self.problem > 0 and self.projection_weight > 0:
            self.progress.add_pull(model, self.projection_weight)

    @torch.no_grad()
    def observe(self, map_at_r: float, model: nn.Module | None = None) -> Verdict:
        """Take note of a validation score; say whether it improved, and whether the problem is over.

        On "next problem": θ_prev becomes the problem's best θ, its best proxies become K-Center's initial centres, the
        best score resets and `problem` counts on; draw a pool and call `initialize`. With `restore_best` the model is
        set back to its best weights here.

        Parameters
        ----------
        map_at_r : validation MAP@R in 0 ... 1.
        model : the network; by default the one last given to `add_projection_gradient`.
        """
        check_number("map_at_r", map_at_r, low=0, high=1)
        model = check_model(model) if model is not None else (self._model[0] if self._model else None)
        verdict = self.progress.note(map_at_r, self.proxies, model, self.patience, self.grace)
        if verdict == "next problem":
            self.close(model)
        return verdict

    @torch.no_grad()
    def close(self, model: nn.Module | None = None) -> None:
        """End the problem now, as `observe` does on "next problem"; draw a pool and call `initialize` then."""
        self.progress.close(None if model is None else check_model(model), self.restore_best)

    def get_extra_state(self) -> dict[str, Any]:
        """State beyond the proxies, as tensors and numbers only, so that loading needs no pickle."""
        return {"initialized": self.initialized, **vars(self.progress)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take back what `get_extra_state` gave."""
        self.progress.restore(state)
        self.initialized = state["initialized"]
