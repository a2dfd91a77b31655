"""The loss over all pairs against the loss over pairs with a few anchors: Proposition 4.2, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.k_center import direct_distance
from labkit.metrics.arrays import as_pair, as_tensor
from labkit.scaling import rescaled, unscaled
from labkit.selection import greedy_k_center, random_selection
from labkit.validation import check_choice, check_number, describe

_BLOCK = 1 << 20  # distances held at once, 8 MiB in float64


@dataclass(frozen=True)
class AnchorGap:
    """What is lost by looking at pairs with anchors only.

    anchors : how many there are. radius : the largest distance from a sample to its class's nearest anchor, δ_s.
    mean_distance : the mean of these distances, which bounds the gap as well. all_pairs : loss over all pairs.
    anchor_pairs : loss over the pairs of a sample and an anchor, anchors weighted by how many samples they cover.
    """

    anchors: int
    radius: float
    mean_distance: float
    all_pairs: float
    anchor_pairs: float

    @property
    def gap(self) -> float:
        """|all_pairs - anchor_pairs|, at most `mean_distance`, hence at most `radius`."""
        return abs(self.all_pairs - self.anchor_pairs)


@torch.no_grad()
def anchor_gaps(
    embeddings: Any, labels: Any, subsets: Sequence[Any], pos_margin: float = 0.0, neg_margin: float = 0.5
) -> list[AnchorGap]:
    """For each choice of anchors, how far the loss over anchor pairs is from the loss over all pairs.

    The pair loss is C2 as a plain mean over all n² ordered pairs (not over the active ones): `[d − pos_margin]₊` within a
    class, `[neg_margin − d]₊` between two. It is 1-Lipschitz in either sample, so replacing a sample by its class's
    nearest anchor changes a pair's loss by no more than their distance, and the mean by no more than the mean distance:
    the step of Proposition 4.2 of "Deep Metric Learning with Chance Constraints" that makes the covering radius δ_s its bound.

    Parameters
    ----------
    embeddings : floating (n, D), normalised as the loss does. labels : integer (n,).
    subsets : each the integer indices (m,) of the anchors among the samples, with at least one of every class.
    pos_margin, neg_margin : distances, >= 0.

    Returns
    -------
    One AnchorGap per subset; losses and distances in the units of the embeddings.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, a negative margin, no subsets, a subset that is empty, lacks a
        class or names a sample that is not there.
    """
    samples, classes = as_pair(embeddings, labels)
    low, high = check_number("pos_margin", pos_margin, low=0), check_number("neg_margin", neg_margin, low=0)
    if not isinstance(subsets, Sequence) or not len(subsets):
        raise LabError("subsets", "a list of at least one choice of anchors", describe(subsets))
    samples, _, scale = rescaled(samples.double(), samples.double())
    columns = _column_losses(samples, classes, low * scale, high * scale)
    results = []
    for position, subset in enumerate(subsets):
        chosen = _checked_subset(f"subsets[{position}]", subset, classes)
        distance, nearest = _nearest_own(samples, classes, chosen)
        # An anchor's column counts once for every sample that it covers.
        figures = torch.stack((distance.max(), distance.mean(), columns.mean(), columns[nearest].mean()))
        results.append(AnchorGap(len(chosen), *unscaled("embeddings", figures, scale).tolist()))
    return results


@torch.no_grad()
def choose_anchors(
    embeddings: Any, labels: Any, k: int, selection: str = "k_center", generator: torch.Generator | None = None
) -> Tensor:
    """k anchors of every class: int64 (C·k,), rows of the samples, classes in order.

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,). k : anchors per class, at most the smallest class's samples.
    selection : "k_center", greedily from a random sample on, or "random". generator : source of randomness.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, another selection, or a k out of range.
    """
    samples, classes = as_pair(embeddings, labels)
    check_choice("selection", selection, ("k_center", "random"))
    chosen = []
    for label in sorted(set(classes.tolist())):
        members = (classes == label).nonzero()[:, 0].cpu()
        if selection == "random":
            picks = random_selection(len(members), k, generator)
        else:
            members = members[torch.randperm(len(members), generator=generator)]  # greedy starts at the first
            picks = greedy_k_center(samples[members], k).indices.cpu()
        chosen.append(members[picks])
    return torch.cat(chosen)


def _column_losses(samples: Tensor, classes: Tensor, low: float, high: float) -> Tensor:
    """(n,) mean over all samples i of the loss of the pair (i, j), for each j."""
    columns = samples.new_empty(len(samples))
    step = max(1, _BLOCK // len(samples))
    for begin in range(0, len(samples), step):
        distance = direct_distance(samples[begin : begin + step], samples)
        same = classes[begin : begin + step, None] == classes
        loss = torch.where(same, distance - low, high - distance).clamp_(min=0)
        columns[begin : begin + step] = loss.mean(1)  # the distance is the same both ways
    return columns


def _nearest_own(samples: Tensor, classes: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Distance (n,) from each sample to its class's nearest anchor, and which sample that is."""
    distance, nearest = samples.new_empty(len(samples)), torch.empty_like(classes)
    for label in set(classes.tolist()):
        members, own = (classes == label).nonzero()[:, 0], chosen[classes[chosen] == label]
        least = direct_distance(samples[members], samples[own]).min(1)
        distance[members], nearest[members] = least.values, own[least.indices]
    return distance, nearest


def _checked_subset(name: str, subset: Any, classes: Tensor) -> Tensor:
    """Indices of anchors as int64, with every class among them."""
    chosen = as_tensor(name, subset, nested=True)
    if not isinstance(chosen, Tensor) or chosen.ndim != 1 or not len(chosen) or chosen.is_floating_point():
        raise LabError(name, "integer indices of shape (m,), m >= 1", describe(subset))
    indices = sorted({int(i) for i in chosen.tolist()})
    if indices[0] < 0 or indices[-1] >= len(classes):
        raise LabError(name, f"indices in [0, {len(classes)})", f"{indices[0]} … {indices[-1]}")
    chosen = torch.tensor(indices, device=classes.device)
    lacking = sorted(set(classes.tolist()) - set(classes[chosen].tolist()))
    if lacking:
        raise LabError(name, "an anchor of every class", f"none of class {', '.join(map(str, lacking[:5]))}")
    return chosen
