"""What the losses that own proxies share: the proxies, what goes into the loss beside them, and how parts are reduced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import at_least_float32, check_normalize
from labkit.losses.base import BaseLoss
from labkit.losses.batch import Batch
from labkit.losses.similarity import similarity
from labkit.validation import check_choice, check_embeddings, check_finite, check_number, check_takes, describe

OPTIONS: dict[str, Any] = {"normalize": "l2", "distance": None, "reducer": None, "generator": None}
OPTIONS |= {"embedding_regularizer": None, "embedding_reg_weight": 1.0}
CALLABLES = ("distance", "reducer", "weight_regularizer", "embedding_regularizer")
Terms = dict[str, tuple[Tensor, int]]  # name of a part: its losses, and the number that their sum is divided by


class BaseProxyLoss(BaseLoss):
    """A loss with `proxies_per_class` learnt proxies for every class; subclasses fill in `terms`.

    Parameters
    ----------
    num_classes, embedding_size, proxies_per_class : C, D and K, at least 1. Labels are in 0 ... C − 1.
    weight_regularizer : called with `weight`, returns a 0-d tensor that is added `weight_reg_weight` times; such as
        `SparseCentersRegularizer` or one of pytorch-metric-learning's.
    weight_init_func : called with `weight`, which it fills in place; by default the loss's own initialisation.
    normalize : "l2" (default), "lipschitz" or None, for the default similarity: the dot product of both sides after it.
    distance : called with (N, D) embeddings and `weight`, returns an (N, C·K) matrix in place of that similarity, and
        alone decides about normalisation; such as one of pytorch-metric-learning's. One whose `is_inverted` is false
        is a distance, otherwise it is a similarity.
    reducer : one of pytorch-metric-learning's, or whatever is called the same way; by default the mean.
    embedding_regularizer, embedding_reg_weight : the same as for `weight`, for the embeddings.
    generator : source of the default initialisation; torch's own when None.

    Attributes
    ----------
    weight : (C·K, D) parameter; rows c·K ... (c + 1)·K − 1 belong to class c. Give `parameters()` to an optimiser.

    Raises
    ------
    LabError : when built with a size that is not a whole number >= 1 or an option that does not exist; when called
        with anything that cannot be used, with labels outside 0 ... C − 1, or with `ref_emb`.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        proxies_per_class: int,
        weight_regularizer: Callable[[Tensor], Any] | None,
        weight_reg_weight: float,
        weight_init_func: Callable[[Tensor], Any] | None,
        options: dict[str, Any],
    ) -> None:
        known = [*inspect.signature(type(self)).parameters, *OPTIONS]
        for name in options:
            check_choice(f"option of {type(self).__name__}", name, [k for k in known if k != "options"])
        settings = OPTIONS | options
        super().__init__(settings["normalize"])
        self.num_classes = int(check_number("num_classes", num_classes, low=1, whole=True))
        self.embedding_size = int(check_number("embedding_size", embedding_size, low=1, whole=True))
        self.proxies_per_class = int(check_number("proxies_per_class", proxies_per_class, low=1, whole=True))
        self.distance, self.reducer = settings["distance"], settings["reducer"]
        self.weight_regularizer, self.weight_reg_weight = weight_regularizer, weight_reg_weight
        self.embedding_regularizer = settings["embedding_regularizer"]
        self.embedding_reg_weight = settings["embedding_reg_weight"]
        self.weight = nn.Parameter(torch.empty(self.num_classes * self.proxies_per_class, self.embedding_size))
        with torch.no_grad():
            if weight_init_func is None:
                self.init_weight(self.weight, settings["generator"])
            elif callable(weight_init_func):
                check_takes("weight_init_func", weight_init_func, "weight")
                weight_init_func(self.weight)
            else:
                raise LabError("weight_init_func", "something to call with weight, or None", describe(weight_init_func))

    def init_weight(self, weight: Tensor, generator: torch.Generator | None) -> None:
        """Fill `weight` in place: the default initialisation."""
        raise NotImplementedError

    def terms(self, x: Tensor, weight: Tensor, labels: Tensor, sample_weights: Tensor | None) -> Terms:
        """The parts of the loss of embeddings x (N, D); `sample_weights` (N,) is a miner's result, None for all 1."""
        raise NotImplementedError

    def normalized(self, x: Tensor) -> Tensor:
        """`x` (..., D) as this loss sees it: after the normalisation, or the distance's own where one was given."""
        if self.distance is None:
            return super().normalized(x)
        own: Callable[..., Tensor] | None = getattr(self.distance, "maybe_normalize", None)
        return at_least_float32(x) if own is None else own(at_least_float32(x), dim=-1)

    def similarities(self, x: Tensor, weight: Tensor) -> Tensor:
        """(N, C·K) similarities of embeddings and proxies; a distance comes back negative."""
        if self.distance is None:
            return similarity(x, weight, self.normalize)
        values = self.distance(x, weight)
        if not isinstance(values, Tensor) or values.shape != (len(x), len(weight)):
            raise LabError("distance", f"an (N, C·K) = ({len(x)}, {len(weight)}) matrix returned", describe(values))
        return values if getattr(self.distance, "is_inverted", True) else -values

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """(N, C): the similarity of each embedding to each class, here that to the nearest of the class's proxies.

        Raises
        ------
        LabError : as for a call.
        """
        check_normalize(self.normalize)
        self.check_parameters()
        x, weight = self._check_width(check_embeddings("embeddings", embeddings))
        with torch.autocast(x.device.type, enabled=False):
            return self.class_similarities(self.similarities(x, weight))

    def class_similarities(self, values: Tensor) -> Tensor:
        """(N, C) from the (N, C·K) similarities to the proxies."""
        return self.by_class(values).amax(dim=2)

    def by_class(self, values: Tensor) -> Tensor:
        """(N, C, K) from (N, C·K)."""
        return values.reshape(len(values), self.num_classes, self.proxies_per_class)

    def check_parameters(self) -> None:
        check_number("weight_reg_weight", self.weight_reg_weight)
        check_number("embedding_reg_weight", self.embedding_reg_weight)
        for name in CALLABLES:
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise LabError(name, "something to call, or None", describe(getattr(self, name)))

    def compute(self, batch: Batch) -> Tensor:
        if batch.references is not None:
            hint = "A pair loss takes references; AlternatingProjections gives this one new proxies by itself."
            raise LabError("ref_emb", f"None: {type(self).__name__} brings its own proxies", "a tensor", hint)
        x, weight = self._check_width(batch.embeddings)
        wrong = (batch.labels < 0) | (batch.labels >= self.num_classes)
        if bool(wrong.any()):
            first = int(batch.labels[wrong][0])
            raise LabError("labels", f"classes in 0 ... {self.num_classes - 1}", f"label {first}")
        terms = self.terms(x, weight, batch.labels, _sample_weights(batch.terms, x))
        extra: dict[str, Tensor] = {}
        if self.weight_regularizer is not None:
            extra["weight_reg_loss"] = self._penalty("weight_regularizer", weight) * self.weight_reg_weight
        if self.embedding_regularizer is not None:
            extra["embedding_reg_loss"] = self._penalty("embedding_regularizer", x) * self.embedding_reg_weight
        if self.reducer is None:
            total = torch.stack([losses.sum() / n for losses, n in terms.values()] + list(extra.values())).sum()
        else:
            total = reduce_by(self.reducer, terms, extra, x, batch.labels)
        if isinstance(total, Tensor) and not bool(torch.isfinite(total).all()):
            check_finite("weight", weight)
            hint = f"Numbers overflow {total.dtype}: look at the settings and at the lengths of embeddings and proxies."
            raise LabError(type(self).__name__, "a finite loss", float(total.detach().sum()), hint)
        return total

    def _check_width(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and proxies in one dtype of at least float32."""
        if x.shape[1] != self.embedding_size:
            expected = f"rows of embedding_size = {self.embedding_size} numbers"
            raise LabError("embeddings", expected, f"shape {tuple(x.shape)}")
        if x.device != self.weight.device:
            expected = f"a tensor on the device of the proxies, {self.weight.device}"
            raise LabError("embeddings", expected, x.device, "Move the loss with .to().")
        x, weight = at_least_float32(x), at_least_float32(self.weight)
        dtype = torch.promote_types(x.dtype, weight.dtype)
        return x.to(dtype), weight.to(dtype)

    def _penalty(self, name: str, values: Tensor) -> Tensor:
        result = getattr(self, name)(values)
        if not isinstance(result, Tensor) or result.numel() != 1:
            raise LabError(name, "a 0-d tensor returned", describe(result))
        return result.reshape(())


def owns_proxies(
    loss: nn.Module, num_classes: int, embedding_size: int, proxies_per_class: int, pair_weight: float
) -> bool:
    """Whether `loss` has its own proxies (C·K, D), in a parameter called `weight`.

    Raises
    ------
    LabError : it has, but for other numbers than those given (both are named), or it is asked for a term of pairs.
    """
    weight = getattr(loss, "weight", None)
    if not isinstance(weight, nn.Parameter):
        return False
    kind = type(loss).__name__
    mine = {"num_classes": num_classes, "embedding_size": embedding_size, "proxies_per_class": proxies_per_class}
    for name, value in mine.items():
        its = getattr(loss, name, value)
        if its != value:
            raise LabError(name, f"{its}, as the {kind} has", value, "Give both the same number.")
    shape = (num_classes * proxies_per_class, embedding_size)
    if weight.shape != shape:
        expected = f"shape (num_classes · proxies_per_class, embedding_size) = {shape}"
        raise LabError(f"weight of the {kind}", expected, f"shape {tuple(weight.shape)}")
    if pair_weight > 0:
        hint = "Add a loss over the batch's own pairs outside."
        raise LabError("pair_weight", f"0: the {kind} owns its proxies", pair_weight, hint)
    return True


def reduce_by(reducer: Any, terms: Terms, extra: dict[str, Tensor], x: Tensor, labels: Tensor) -> Any:
    """Hand the parts to a reducer in pytorch-metric-learning's way: each by itself unless it says it takes several.

    What comes back is the sum; a reducer that returns its input unchanged gets that through, with all parts in it.
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, (losses, divisor) in terms.items():
        indices = torch.arange(len(losses), device=losses.device)
        entries[name] = {"losses": losses, "indices": indices, "reduction_type": "element", "divisor": divisor}
    for name, penalty in extra.items():
        entries[name] = {"losses": penalty, "indices": None, "reduction_type": "already_reduced"}
    if hasattr(reducer, "reducers"):
        return reducer(entries, x, labels)
    parts = [reducer({name: entry}, x, labels) for name, entry in entries.items()]
    return entries if isinstance(parts[0], dict) else torch.stack([part.reshape(()) for part in parts]).sum()


def _sample_weights(terms: tuple[Tensor, ...] | None, x: Tensor) -> Tensor | None:
    """(N,): how often a miner names each sample, over the most often named; None for no miner or one that found none."""
    if terms is None or all(len(index) == 0 for index in terms):
        return None
    counts = torch.bincount(torch.cat(terms), minlength=len(x)).to(x.dtype)
    return counts / counts.max()
