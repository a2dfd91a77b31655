"""Numbers too large or too small to be squared: lengths and distances of them, by exact scales that are powers of two."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from labkit.errors import LabError

_LARGEST_EXPONENT = 40  # between 2^-40 and 2^40 squares and their sums stay clear of the ends of float32


def unusual(lengths: Tensor, kind: str) -> bool:
    """Whether some of these lengths (…,) came of squares that overflowed or, where "l2" divides by them, vanished.

    Zero counts as unusual: it may be the length of a row too small to be squared. "lipschitz" leaves small rows alone.
    """
    if lengths.numel() == 0:
        return False
    if kind == "lipschitz":
        return lengths.amax().item() == math.inf
    low, high = lengths.aminmax()
    return low.item() < _least_length(lengths.dtype) or high.item() == math.inf


def careful_rows(x: Tensor, unit: Tensor, lengths: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Normalised rows of `x` (…, D) and their lengths (…, 1), those whose length is unusual measured anew.

    Such a row is divided by its largest entry first. A length beyond the largest number counts as that.
    """
    if x.shape[-1] == 0:
        return unit, lengths
    peaks = x.abs().amax(dim=-1, keepdim=True)
    rare = (lengths < _least_length(x.dtype)) | (lengths == torch.inf)
    scaled = x / peaks.masked_fill(peaks == 0, 1.0)
    relative = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True).clamp(min=1.0)  # 1 … √D, but for a row of zeros
    lengths = torch.where(rare, (relative * peaks).clamp(max=torch.finfo(x.dtype).max), lengths)
    if kind == "lipschitz":
        rare &= lengths > 1
    return torch.where(rare, scaled / relative, unit), lengths


@functools.cache
def _least_length(dtype: torch.dtype) -> float:
    """Below this, squares lose digits; far enough above the root of the smallest number for sums of many."""
    return float(torch.finfo(dtype).tiny ** 0.5) * 4096


def peak(*arrays: Tensor) -> float:
    """The largest magnitude in these tensors; 0 for nothing in them."""
    ends = [end.item() for a in arrays if a.numel() for end in a.detach().aminmax()]
    return float(max(map(abs, ends), default=0.0))


def binary_scale(largest: float, dtype: torch.dtype, *, always: bool = False) -> float:
    """A power of two, hence exact, by which squares of numbers up to `largest` neither overflow nor vanish.

    1 where they do not anyway (unless `always`). Both it and its reciprocal are ordinary numbers of the dtype.
    """
    exponent = math.frexp(largest)[1]
    if largest == 0 or (abs(exponent) <= _LARGEST_EXPONENT and not always):
        return 1.0
    ends = 1022 if dtype == torch.float64 else 126
    return 2.0 ** -min(max(exponent, -ends), ends)


def rescaled(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, float]:
    """Both sets of points at a size at which distances neither overflow nor vanish, and by what they were multiplied.

    Those that are multiplied come in double precision (where the device has it), so that one point far away does not make the
    distances between all others vanish.
    """
    scale = binary_scale(peak(x) if x is y else peak(x, y), x.dtype)
    return (x, y, 1.0) if scale == 1.0 else (widened(x) * scale, widened(y) * scale, scale)


def widened(x: Tensor) -> Tensor:
    """`x` in double precision, but on a device that has none."""
    return x if x.device.type == "mps" else x.double()


def unscaled(name: str, distances: Tensor, scale: float | Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`distances` between points that were multiplied by `scale`, in the points' own units and, where told, their `dtype`.

    Raises
    ------
    LabError : one is larger than the largest number of its dtype.
    """
    if isinstance(scale, float) and scale == 1.0:
        return distances
    result = (distances / scale).to(dtype or distances.dtype)
    if not bool(torch.isfinite(result).all()):
        most = torch.finfo(result.dtype).max
        raise LabError(name, f"numbers whose distances are below {most:.2g}", "larger ones", "Scale them down.")
    return result
