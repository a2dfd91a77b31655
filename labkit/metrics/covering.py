"""How far a class reaches beyond its centres: covering radius, its quantile and mean, and the k-Center curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.k_center import direct_distance
from labkit.metrics.arrays import as_embeddings, as_labels, as_pair
from labkit.scaling import binary_scale, peak, rescaled, unscaled
from labkit.selection import greedy_k_center
from labkit.validation import check_finite

_BLOCK = 1 << 24  # distances held at once, 64 MiB in float32


@dataclass(frozen=True)
class CoveringSummary:
    """Distances from samples to the nearest centre of their own class, summed up per class (C,), classes sorted.

    classes : the labels. radius : the largest distance. quantile_95 : its 95 % quantile (linear interpolation).
    mean_distance : its mean. A radius over thousands of samples is set by a few misread ones; the other two are not.
    """

    classes: Tensor
    radius: Tensor
    quantile_95: Tensor
    mean_distance: Tensor

    @property
    def covering_max(self) -> float:
        """Covering radius, mean over classes."""
        return float(self.radius.mean())

    @property
    def covering_q95(self) -> float:
        """95 % quantile within a class, mean over classes."""
        return float(self.quantile_95.mean())

    @property
    def covering_mean(self) -> float:
        """Mean within a class, mean over classes."""
        return float(self.mean_distance.mean())

    @property
    def largest_radius(self) -> float:
        """Covering radius of the class that reaches farthest."""
        return float(self.radius.max())


@dataclass(frozen=True)
class MeanCoveringCurve:
    """The k-Center curves of all classes, averaged.

    Attributes
    ----------
    radii : (m,) mean over classes of the radius at k = 1 … m, m being the size of the largest class. From k = n_c on a
        smaller class is covered by its own samples without rest: its radius counts as 0 there, it is not left out.
    classes : (C,) the labels, sorted. per_class : (C,) mean of each class's own curve over k = 1 … n_c.
    mean : mean of `per_class`, the one number for a data set.
    """

    radii: Tensor
    classes: Tensor
    per_class: Tensor
    mean: float


@torch.no_grad()
def covering_radius(embeddings: Any, labels: Any, centers: Any, center_labels: Any) -> Tensor:
    """Largest distance from a sample to the nearest centre of its own class, for each class.

    That is delta_s of the covers in "Deep Metric Learning with Chance Constraints" (section 4). Nothing is normalised
    here: give what the loss sees.

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,).
    centers : floating (m, D). center_labels : integer (m,). Centres of classes without samples are ignored.

    Returns
    -------
    (C,) radii, one per class among `labels`, classes sorted; in the units of the embeddings.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, distances beyond the largest number, or a class that has samples
        but no centre.
    """
    return covering_summary(embeddings, labels, centers, center_labels).radius


@torch.no_grad()
def covering_summary(embeddings: Any, labels: Any, centers: Any, center_labels: Any) -> CoveringSummary:
    """Radius, 95 % quantile and mean of the distance to the nearest own centre; arguments as in `covering_radius`.

    Raises
    ------
    LabError : as `covering_radius`.
    """
    samples, classes = as_pair(embeddings, labels)
    centres = as_embeddings("centers", centers).to(samples)
    if centres.shape[1] != samples.shape[1]:
        raise LabError("centers", f"{samples.shape[1]} columns, as the embeddings have", f"shape {tuple(centres.shape)}")
    owners = as_labels("center_labels", center_labels, centres, of="centers")
    check_finite("centers", centres)  # in the dtype of the samples, which may be too small for them
    own = dict(_by_class(owners))
    usual = binary_scale(peak(samples, centres), samples.dtype) == 1.0
    names, rows = [], []
    for label, members in _by_class(classes):
        if label not in own:
            raise LabError("center_labels", "a centre for every class among the labels", f"none for class {label}")
        points, middles, scale = samples[members], centres[own[label]], 1.0
        if not usual:
            points, middles, scale = rescaled(points, middles)
        nearest = _nearest_distance(points, middles)
        figures = torch.stack((nearest.max(), _quantile(nearest, 0.95), nearest.mean()))
        names.append(label)
        rows.append(unscaled("embeddings", figures, scale, samples.dtype))
    radius, quantile, mean = torch.stack(rows).unbind(1)
    return CoveringSummary(torch.tensor(names, device=classes.device), radius, quantile, mean)


@torch.no_grad()
def covering_curve(embeddings: Any, labels: Any) -> list[Tensor]:
    """The k-Center curve of each class: covering radius of the class by k = 1 … n_c of its own samples, taken greedily.

    It starts at the sample whose farthest neighbour is nearest (the lower index among equals), so that it is the same
    for the same samples; the last radius is 0. The mean over k, then over classes, is the figure that "Deep Metric
    Learning with Chance Constraints" shows for its test domains.

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,).

    Returns
    -------
    One (n_c,) tensor of radii per class, classes sorted; in the units of the embeddings.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, distances beyond the largest number.
    """
    samples, classes = as_pair(embeddings, labels)
    usual = binary_scale(peak(samples), samples.dtype) == 1.0
    curves = []
    for _, members in _by_class(classes):
        points = samples[members]
        start = _eccentricity(points if usual else rescaled(points, points)[0]).argmin()
        # The start goes to the front, where the selection begins; the order of the others, which decides ties, is kept.
        order = torch.arange(points.shape[0], device=points.device)
        order = torch.cat((start[None], order[order != start]))
        curves.append(greedy_k_center(points[order], points.shape[0]).radii)
    return curves


@torch.no_grad()
def mean_covering_curve(embeddings: Any, labels: Any) -> MeanCoveringCurve:
    """The mean of the k-Center curves over classes, and the mean of that: how far classes reach, in one number.

    "Deep Metric Learning with Chance Constraints" shows that number for classes never seen in training: a mean over k,
    then over classes. A radius depends on how many samples the class has, so compare sets with as many samples a class
    only.

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,).

    Returns
    -------
    MeanCoveringCurve : `.radii` (m,), `.classes` (C,), `.per_class` (C,) and `.mean`, in the units of the embeddings.

    Raises
    ------
    LabError : as `covering_curve`.

    Examples
    --------
    >>> line = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> mean_covering_curve(line, torch.tensor([0, 0, 0, 1, 1])).radii.tolist()
    [1.0, 0.5, 0.0]
    """
    curves = covering_curve(embeddings, labels)
    radii = mean_radii(curves)
    per_class = torch.stack([curve.mean() for curve in curves])
    classes = torch.tensor([label for label, _ in _by_class(as_pair(embeddings, labels)[1])])
    return MeanCoveringCurve(radii, classes, per_class, float(per_class.mean()))


def mean_radii(curves: Sequence[Tensor]) -> Tensor:
    """Mean over classes of (n_c,) radii at k = 1 … max n_c, (max n_c,); a class counts 0 from its n_c-th centre on."""
    return torch.nn.utils.rnn.pad_sequence(list(curves), batch_first=True).mean(0)  # filled up with zeros


def _by_class(labels: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each label with the indices of its members, ascending; labels sorted."""
    order = labels.argsort(stable=True)
    ordered = labels[order]
    ends = [*(torch.nonzero(ordered[1:] != ordered[:-1])[:, 0] + 1).tolist(), ordered.numel()]
    start = 0
    for end in ends:
        yield int(ordered[start]), order[start:end]
        start = end


def _nearest_distance(points: Tensor, centres: Tensor) -> Tensor:
    """Distance (n,) from each point to its nearest centre, in blocks."""
    step = max(1, _BLOCK // centres.shape[0])
    blocks = range(0, points.shape[0], step)
    return torch.cat([direct_distance(points[i : i + step], centres).amin(1) for i in blocks])


def _eccentricity(points: Tensor) -> Tensor:
    """Distance (n,) from each point to the farthest of them all, in blocks."""
    step = max(1, _BLOCK // points.shape[0])
    blocks = range(0, points.shape[0], step)
    return torch.cat([direct_distance(points[i : i + step], points).amax(1) for i in blocks])


def _quantile(values: Tensor, q: float) -> Tensor:
    """Quantile with linear interpolation; torch.quantile refuses more than 16 million values."""
    ordered = values.sort().values
    place = q * (ordered.numel() - 1)
    low = int(place)
    high = min(low + 1, ordered.numel() - 1)
    return torch.lerp(ordered[low], ordered[high], place - low)
