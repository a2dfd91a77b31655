"""ProxyNCA++ loss: a softmax over squared distances to all proxies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.losses.proxy_base import BaseProxyLoss, Terms
from labkit.validation import check_number


class ProxyNCALoss(BaseProxyLoss):
    """`−log(Σ_own class exp(−‖x̂ − p̂‖² / T) / Σ_all exp(−‖x̂ − p̂‖² / T))`, mean over the batch.

    This is ProxyNCA++ (Teh et al. 2020), as "Deep Metric Learning with Chance Constraints" runs it: unlike in
    ProxyNCA, the own class stands in the denominator too. With K > 1 a class's proxies add up inside the logarithm.
    Equal to pytorch-metric-learning's ProxyNCALoss(softmax_scale=1 / T) for K = 1; of a miner's tuple that one counts
    the anchors only, this one every sample named, as `SoftTripleLoss` does.

    Parameters
    ----------
    num_classes, embedding_size, proxies_per_class : C, D and K. Labels are in 0 ... C − 1.
    temperature : T > 0.
    weight_regularizer, weight_reg_weight, weight_init_func, **options : see `BaseProxyLoss`. An explicit `distance`
        takes the place of ‖x̂ − p̂‖² as it is, a similarity that of −‖x̂ − p̂‖².

    Attributes
    ----------
    weight : (C·K, D) proxies, rows c·K ... (c + 1)·K − 1 for class c; normal, of standard deviation 1/8.

    Raises
    ------
    LabError : as `BaseProxyLoss`; a temperature not above 0.

    Examples
    --------
    >>> loss = ProxyNCALoss(2, 2, temperature=1.0, weight_init_func=nn.init.eye_)
    >>> loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))  # log(1 + exp(−2))
    tensor(0.1269, grad_fn=<...>)
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        proxies_per_class: int = 1,
        temperature: float = 0.1,
        *,
        weight_regularizer: Callable[[Tensor], Any] | None = None,
        weight_reg_weight: float = 1.0,
        weight_init_func: Callable[[Tensor], Any] | None = None,
        **options: Any,
    ) -> None:
        regularizer = (weight_regularizer, weight_reg_weight)
        super().__init__(num_classes, embedding_size, proxies_per_class, *regularizer, weight_init_func, options)
        self.temperature = temperature

    def init_weight(self, weight: Tensor, generator: torch.Generator | None) -> None:
        nn.init.normal_(weight, std=1 / 8, generator=generator)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("temperature", self.temperature, low=0.0, open_low=True)

    def terms(self, x: Tensor, weight: Tensor, labels: Tensor, sample_weights: Tensor | None) -> Terms:
        exponents = self._exponents(x, weight)
        own = self.by_class(exponents)[torch.arange(len(x), device=x.device), labels]  # (N, K)
        losses = exponents.logsumexp(dim=1) - own.logsumexp(dim=1)
        return {"loss": (losses if sample_weights is None else losses * sample_weights, len(x))}

    def _exponents(self, x: Tensor, weight: Tensor) -> Tensor:
        """(N, C·K): −d² / T, but for ‖x̂‖² (and ‖p̂‖² on the sphere), which cancel in the quotient."""
        values = self.similarities(x, weight)
        if self.distance is not None:
            return values / self.temperature
        if self.normalize == "l2":
            return values * (2 / self.temperature)
        lengths: Tensor = torch.linalg.vector_norm(weight, dim=1)
        if self.normalize == "lipschitz":
            lengths = lengths.clamp(max=1.0)  # before the square, which may overflow
        exponents: Tensor = (2 * values - lengths.square()) / self.temperature
        return exponents
