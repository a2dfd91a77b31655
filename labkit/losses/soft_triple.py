"""SoftTriple loss: a softmax over classes, and within each class a soft choice among its centres."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.losses.proxy_base import BaseProxyLoss, Terms
from labkit.losses.similarity import soft_choice
from labkit.validation import check_number


class SoftTripleLoss(BaseProxyLoss):
    """Cross-entropy of `la · (S' − margin · onehot(y))` (Qian et al., "SoftTriple", equations 7 and 8).

    `S'_c = Σ_k softmax_k(x·w_ck / gamma) x·w_ck` is the similarity to class c: a mean over its centres that leans to the
    nearest. gamma = 0 takes the nearest alone, gamma = inf the plain mean; both and all between are computed stably.
    The paper's full objective adds `SparseCentersRegularizer(num_classes, centers_per_class)` as `weight_regularizer`
    with `weight_reg_weight=0.2`. Equal to pytorch-metric-learning's SoftTripleLoss in value and gradient.

    Parameters
    ----------
    num_classes, embedding_size : C and D. Labels are in 0 ... C − 1.
    centers_per_class : K; 1 makes an ordinary normalised softmax.
    la : the scale λ >= 0 of the similarities.
    gamma : temperature >= 0 of the choice among centres. Above 1 it makes their weights nearly equal, which is warned
        of: the CCP paper prints 19.18 (Cars196) and 47.9 (SOP), where perhaps 1 / gamma was meant.
    margin : δ, by how much the own class's similarity has to lead.
    weight_regularizer, weight_reg_weight, weight_init_func, **options : see `BaseProxyLoss`. `distance` has to be a
        similarity. With a miner's `indices_tuple` each embedding's loss is multiplied by how often the miner names it,
        over the most often named.

    Attributes
    ----------
    weight : (C·K, D) centres, rows c·K ... (c + 1)·K − 1 for class c; `kaiming_uniform_(a=√5, mode="fan_out")`.

    Raises
    ------
    LabError : as `BaseProxyLoss`; la, gamma or margin out of range; a `distance` that is not a similarity.

    Examples
    --------
    >>> import torch
    >>> from labkit import losses
    >>> loss_func = losses.SoftTripleLoss(
    ...     num_classes=10,
    ...     embedding_size=128,
    ...     weight_regularizer=losses.SparseCentersRegularizer(10, 10),
    ...     weight_reg_weight=0.2,
    ... )
    >>> optimizer = torch.optim.SGD(loss_func.parameters(), lr=0.01)
    >>> loss = loss_func(torch.randn(32, 128, requires_grad=True), torch.randint(0, 10, (32,)))
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        centers_per_class: int = 10,
        la: float = 20,
        gamma: float = 0.1,
        margin: float = 0.01,
        *,
        weight_regularizer: Callable[[Tensor], Any] | None = None,
        weight_reg_weight: float = 1.0,
        weight_init_func: Callable[[Tensor], Any] | None = None,
        **options: Any,
    ) -> None:
        check_number("centers_per_class", centers_per_class, low=1, whole=True)
        regularizer = (weight_regularizer, weight_reg_weight)
        super().__init__(num_classes, embedding_size, centers_per_class, *regularizer, weight_init_func, options)
        self.la = la
        self.gamma = gamma
        self.margin = margin
        if isinstance(gamma, (int, float)) and 1 < gamma < math.inf:
            effect = f"gamma = {gamma:g} makes the weights of a class's centres nearly equal"
            warnings.warn(f"{effect}; perhaps 1 / gamma = {1 / gamma:g} was meant.", stacklevel=2)

    @property
    def centers_per_class(self) -> int:
        """K."""
        return self.proxies_per_class

    def init_weight(self, weight: Tensor, generator: torch.Generator | None) -> None:
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), mode="fan_out", generator=generator)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("la", self.la, low=0.0)
        if self.gamma != math.inf:
            check_number("gamma", self.gamma, low=0.0)
        check_number("margin", self.margin)
        if not getattr(self.distance, "is_inverted", True):
            hint = "Take CosineSimilarity or DotProductSimilarity."
            raise LabError("distance", "a similarity, whose is_inverted is true", type(self.distance).__name__, hint)

    def class_similarities(self, values: Tensor) -> Tensor:
        """(N, C): S', without la or margin."""
        if self.proxies_per_class == 1:
            return values
        return soft_choice(self.by_class(values), self.gamma)

    def terms(self, x: Tensor, weight: Tensor, labels: Tensor, sample_weights: Tensor | None) -> Terms:
        logits = self.class_similarities(self.similarities(x, weight)) * self.la
        logits[torch.arange(len(x), device=x.device), labels] -= self.la * self.margin
        losses = F.cross_entropy(logits, labels, reduction="none")
        return {"loss": (losses if sample_weights is None else losses * sample_weights, len(x))}
