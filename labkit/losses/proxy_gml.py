"""ProxyGML: each sample is classified by the few proxies nearest to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.losses.proxy_base import BaseProxyLoss, Terms
from labkit.losses.subgraphs import Subgraph, class_losses, connect, proxies_as_samples
from labkit.validation import check_flag, check_number


class ProxyGMLLoss(BaseProxyLoss):
    """Deep graph metric learning with few proxies (Zhu et al., "Fewer is More", equations 2 to 12).

    Each sample is connected to the `k = ⌈ratio · C · N⌉` proxies most similar to it, those of its own class ahead of
    all others. The similarities of the connected proxies are added up by class, and the loss is the cross-entropy of
    a softmax over the classes so reached, mean over the batch, plus `proxy_weight` times the cross-entropy of the proxies
    themselves, each a sample connected to all. The gradient of the first part reaches each sample's k proxies alone.

    Parameters
    ----------
    num_classes, embedding_size, proxies_per_class : C, D and N. Labels are in 0 ... C − 1.
    ratio : share of all proxies that a sample is connected to, in (0, 1]; with `positive_mask` above 1 / C.
    proxy_weight : of the proxies' own part, the paper's λ, >= 0; 0 switches it off.
    positive_mask : whether a sample is connected to all proxies of its class; else only to those among the k nearest.
    mask_softmax : whether only the true class and those with a connected proxy enter the softmax; else all do, as 0.
    weight_regularizer, weight_reg_weight, weight_init_func, **options : see `BaseProxyLoss`, but for `distance`.

    Attributes
    ----------
    weight : (C·N, D) proxies, rows c·N ... (c + 1)·N − 1 for class c; normal, of length about 1.

    Raises
    ------
    LabError : as `BaseProxyLoss`; a ratio too small (the message names one that would do), a distance.

    Notes
    -----
    The paper adds 1 to similarities of the own class, which need not put them ahead of all others, as it means to; here
    they are ahead. Its settings: Adam, learning rate 1e-4 and 3e-2 for proxies, a tenth every 20 of 50 epochs, batches
    of 32; on SOP N = 1, `proxy_weight=0` and 3e-1. C = 10 classes of 12 proxies need a ratio above .1: take .3.

    Examples
    --------
    >>> loss = ProxyGMLLoss(2, 2, proxies_per_class=1, ratio=1.0, proxy_weight=0.0, weight_init_func=nn.init.eye_)
    >>> loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))  # log(1 + exp(0 − 1))
    tensor(0.3133, grad_fn=<...>)
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        proxies_per_class: int = 12,
        ratio: float = 0.05,
        proxy_weight: float = 0.3,
        positive_mask: bool = True,
        mask_softmax: bool = True,
        *,
        weight_regularizer: Callable[[Tensor], Any] | None = None,
        weight_reg_weight: float = 1.0,
        weight_init_func: Callable[[Tensor], Any] | None = None,
        **options: Any,
    ) -> None:
        regularizer = (weight_regularizer, weight_reg_weight)
        super().__init__(num_classes, embedding_size, proxies_per_class, *regularizer, weight_init_func, options)
        self.ratio, self.proxy_weight = ratio, proxy_weight
        self.positive_mask, self.mask_softmax = positive_mask, mask_softmax

    def init_weight(self, weight: Tensor, generator: torch.Generator | None) -> None:
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5, generator=generator)

    @property
    def k(self) -> int:
        """Number of proxies that each sample is connected to."""
        return math.ceil(self.ratio * len(self.weight) * (1 - 1e-12))  # .07 · 100 is a little more than 7

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("ratio", self.ratio, low=0.0, high=1.0, open_low=True)
        check_number("proxy_weight", self.proxy_weight, low=0.0)
        check_flag("positive_mask", self.positive_mask)
        check_flag("mask_softmax", self.mask_softmax)
        if self.distance is not None:
            raise LabError("distance", "None: ProxyGML adds up dot products", type(self.distance).__name__)
        c, n, k = self.num_classes, self.proxies_per_class, self.k
        if self.positive_mask and c == 1:
            raise LabError("num_classes", "at least 2 with positive_mask=True", c)
        if self.positive_mask and k <= n:
            expected = f"above 1 / num_classes = {1 / c:g}, so that a sample is connected to other classes too"
            got = f"{self.ratio:g}, that is {k} of {c * n} proxies, where each class has {n}"
            raise LabError("ratio", expected, got, f"ratio={min(1.0, 3 / c):.2g} would do.")

    def terms(self, x: Tensor, weight: Tensor, labels: Tensor, sample_weights: Tensor | None) -> Terms:
        n = self.proxies_per_class
        losses = class_losses(*self._connect(x, weight, labels), labels, n, self.num_classes, self.mask_softmax)
        parts: Terms = {"loss": (losses if sample_weights is None else losses * sample_weights, len(x))}
        if self.proxy_weight > 0:
            penalty = proxies_as_samples(weight, n, self.normalize)
            parts["proxy_loss"] = ((penalty * self.proxy_weight).unsqueeze(0), 1)
        return parts

    def _connect(self, x: Tensor, weight: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        owners = labels if self.positive_mask else None
        return connect(x, weight, owners, self.k, self.proxies_per_class, self.normalize)

    @torch.no_grad()
    def subgraph(self, embeddings: Tensor, labels: Tensor) -> Subgraph:
        """The edges that a call with `embeddings` (M, D) and `labels` (M,) uses, for pictures. Raises as a call does."""
        self(embeddings, labels)  # for all that it refuses
        with torch.autocast(embeddings.device.type, enabled=False):
            similarities, indices = self._connect(*self._check_width(embeddings), labels.long())
        order = similarities.argsort(dim=1, descending=True)
        return Subgraph(indices.gather(1, order), similarities.gather(1, order))
