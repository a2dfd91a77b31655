"""Ranked lists of a small batch on the sphere in as few operations as will do: at this size each one is felt."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from labkit.geometry import normalize_rows

SELF = 1e6  # stands for a sample's distance to itself: no negative is so far away, and it is no positive either
SPARSE = 1 / 32  # share of pairs that pull or push up to which listing them beats a matrix product


def ranked_batch(
    x: Tensor, labels: Tensor, boundaries: tuple[float, float], temperature: float, weight: float, want_gradient: bool
) -> tuple[float, Tensor | None] | None:
    """The ranked list loss of x (N, D) within the batch under l2 normalisation, and its gradient where wanted.

    `boundaries` are the distances beyond which positives and within which negatives cost. None where some row is so
    short that its gradient could overflow, two rows are so close that their distance should come from their difference,
    or the dtype cannot hold the weight: then the general way is to be gone.
    """
    unit, lengths = normalize_rows(x, "l2")
    assert lengths is not None
    d = torch.addmm(unit.new_full((), 2.0), unit, unit.T, alpha=-2)  # squared distances
    d.fill_diagonal_(SELF**2)
    ends = torch.finfo(d.dtype)
    if weight > ends.max or d.amin().item() < 16384 * ends.eps or lengths.amin().item() < 1e9 * ends.tiny:
        return None
    d.sqrt_()
    positive = (labels.unsqueeze(1) == labels).to(d.dtype).fill_diagonal_(0.0)  # 1 and 0: faster than bits here
    far = (boundaries[1] - d).clamp_(min=0.0)
    far.addcmul_(far, positive, value=-1)  # what negatives cost
    weights = (far - far.amax(dim=1, keepdim=True)).mul_(temperature).exp_().mul_(far.sign())
    weights.div_(weights.sum(dim=1, keepdim=True).clamp_(min=1.0))  # the hardest weighs 1, so any sum is >= 1
    near = (d - boundaries[0]).clamp_(min=0.0).mul_(positive)
    active = torch.sign(near, out=positive)
    active.div_(active.sum(dim=1, keepdim=True).clamp_(min=1.0))
    value = torch.dot(near.view(-1), active.view(-1)).item() + weight * torch.dot(far.view(-1), weights.view(-1)).item()
    if not want_gradient:
        return value / len(x), None
    pulls = active.sub_(weights, alpha=weight).div_(d)
    moved = _times(pulls, unit)
    moved.addcmul_(torch.linalg.vecdot(moved, unit).unsqueeze(1), unit, value=-1)  # the rest lies along the row
    return value / len(x), moved.div_(lengths * -float(len(x)))


def _times(pulls: Tensor, unit: Tensor) -> Tensor:
    """pulls (N, N) @ unit (N, D), where few of the pulls are not 0 once there is an order."""
    if pulls.count_nonzero().item() > SPARSE * pulls.numel():
        return pulls @ unit
    rows, columns = pulls.nonzero(as_tuple=True)
    counts = torch.bincount(rows, minlength=len(pulls))
    return embedding_bag(columns, unit, counts.cumsum(0) - counts, per_sample_weights=pulls[rows, columns], mode="sum")
