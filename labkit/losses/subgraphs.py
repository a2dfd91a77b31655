"""Which proxies each sample is connected to, and similarities whose gradient reaches these alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from labkit.autograd import first_derivative
from labkit.geometry import normalize, normalize_gradient_, normalize_rows
from labkit.losses.eager import known
from labkit.scaling import unusual

ROWS_OF_CLASSES = 1 << 20  # entries of the matrix of proxies against classes that are made at a time


@dataclass(frozen=True)
class Subgraph:
    """The edges of M samples: `indices` (M, k) into the proxies and `similarities` (M, k), nearest first."""

    indices: Tensor
    similarities: Tensor


def connect(
    x: Tensor, weight: Tensor, owners: Tensor | None, k: int, per_class: int, kind: str | None
) -> tuple[Tensor, Tensor]:
    """Similarities (M, k) of x (M, D) to the k most similar rows of weight (P, D), and their indices (M, k), unordered.

    With `owners` (M,), the classes of x, the `per_class` rows of the own class come first, whatever their similarity.
    After the one product x weightᵀ nothing of its size is made, nor kept for the backward pass.
    """
    scale = None
    if kind is not None:
        lengths = torch.linalg.vector_norm(weight.detach(), dim=1)
        if unusual(lengths, kind):  # the product with such proxies may overflow or vanish before their lengths come in
            x, weight, kind = normalize(x, kind), normalize(weight, kind), None
        else:
            scale = (lengths.clamp(min=1.0) if kind == "lipschitz" else lengths).reciprocal_()
    result: tuple[Tensor, Tensor] = _Connect.apply(x, weight, owners, k, per_class, kind, scale)
    return result


class _Connect(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        owners: Tensor | None,
        k: int,
        per_class: int,
        kind: str | None,
        scale: Tensor | None,  # (P,): what each row of weight is multiplied with to be normalised; None for nothing
    ) -> tuple[Tensor, Tensor]:
        unit, lengths = normalize_rows(x, kind)
        values = unit @ weight.T
        if scale is not None:
            values *= scale
        if owners is None:
            similarities, indices = values.topk(k, dim=1, sorted=False)
        else:
            own = owners.unsqueeze(1) * per_class + torch.arange(per_class, device=x.device)
            own_values = values.gather(1, own)
            others, indices = values.scatter_(1, own, -torch.inf).topk(k - per_class, dim=1, sorted=False)
            similarities, indices = torch.cat((own_values, others), dim=1), torch.cat((own, indices), dim=1)
        ctx.kind = kind
        ctx.save_for_backward(unit, lengths, weight, scale, similarities, indices)
        ctx.mark_non_differentiable(indices)
        return similarities, indices

    @staticmethod
    @first_derivative
    def backward(ctx: Any, slopes: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        unit, lengths, weight, scale, similarities, indices = ctx.saved_tensors
        grad_x = grad_weight = None
        pulls = slopes if scale is None else slopes * scale[indices]  # on the proxies as they are, not normalised
        if ctx.needs_input_grad[0]:
            grad_x = embedding_bag(indices, weight, per_sample_weights=pulls, mode="sum")
            grad_x = normalize_gradient_(grad_x, unit, lengths, ctx.kind)
        if ctx.needs_input_grad[1]:
            entries = indices.flatten()
            order = entries.argsort()
            counts = torch.bincount(entries, minlength=len(weight))
            pulls, rows = pulls.flatten()[order], order.div(indices.shape[1], rounding_mode="floor")
            starts = counts.cumsum(0) - counts
            grad_weight = embedding_bag(rows, unit, starts, per_sample_weights=pulls, mode="sum")
            if scale is not None:  # less the part along the proxy, where normalisation holds its length
                along = torch.zeros_like(scale).index_add_(0, entries, (slopes * similarities).flatten())
                along *= scale.square() * (scale < 1 if ctx.kind == "lipschitz" else 1)
                grad_weight.addcmul_(along.unsqueeze(1), weight, value=-1)
        return grad_x, grad_weight, None, None, None, None, None


def class_losses(
    similarities: Tensor, indices: Tensor, labels: Tensor, per_class: int, num_classes: int, masked: bool
) -> Tensor:
    """(M,) cross-entropies of the similarities (M, k) of connected proxies added up by class.

    A class without a connected proxy has the sum 0. With `masked` it takes part in the softmax if it is the true one,
    else in any case; either way nothing as wide as the classes is made.
    """
    classes = indices.div(per_class, rounding_mode="floor")
    own = classes == labels.unsqueeze(1)
    target = (similarities * own).sum(dim=1)
    if per_class == 1:
        sums, reached = similarities, torch.full_like(labels, similarities.shape[1])
    else:
        classes, order = classes.sort(dim=1)
        starts = classes.diff(dim=1, prepend=classes[:, :1]) > 0
        place = starts.cumsum(dim=1)  # 0 for the first class of a row, and so on
        sums = torch.zeros_like(similarities).scatter_add(1, place, similarities.gather(1, order))
        reached = place[:, -1] + 1
        beyond = torch.arange(sums.shape[1], device=sums.device) >= reached.unsqueeze(1)
        sums = sums.masked_fill(beyond, -torch.inf)
    zeros = (~own.any(dim=1)).long() if masked else num_classes - reached  # classes that take part with a sum of 0
    return torch.logaddexp(sums.logsumexp(dim=1), zeros.to(sums.dtype).log()) - target


def proxies_as_samples(weight: Tensor, per_class: int, normalize: str | None) -> Tensor:
    """Cross-entropy of each proxy's summed similarities to the proxies of every class, mean over all P proxies.

    The sums are products with class sums, a few rows at a time: neither (P, P) nor (P, C) is ever held.
    """
    want_gradient = torch.is_grad_enabled() and weight.requires_grad
    with torch.no_grad():
        unit, lengths = normalize_rows(weight, normalize)
        sums = unit.reshape(-1, per_class, unit.shape[1]).sum(dim=1)  # (C, D)
        owners = torch.arange(len(sums), device=weight.device).repeat_interleave(per_class)
        gradient, grad_sums = torch.zeros_like(unit), torch.zeros_like(sums)
        total, step = weight.new_zeros(()), max(1, ROWS_OF_CLASSES // len(sums))
        for start in range(0, len(unit), step):
            rows = slice(start, start + step)
            z, own = unit[rows] @ sums.T, owners[rows].unsqueeze(1)  # (r, C), (r, 1)
            top = z.logsumexp(dim=1, keepdim=True)
            total += (top - z.gather(1, own)).sum()
            if want_gradient:
                slopes = z.sub_(top).exp_().scatter_add_(1, own, -torch.ones_like(top))
                torch.mm(slopes, sums, out=gradient[rows])
                grad_sums.addmm_(slopes.T, unit[rows])
        total /= len(unit)
        if not want_gradient:
            return total
        gradient.add_(grad_sums.repeat_interleave(per_class, dim=0)).div_(len(unit))
        normalize_gradient_(gradient, unit, lengths, normalize)
    return known(total, [gradient], [weight])
