"""From D-dimensional embeddings to points of a plane: as they are for D = 2, else by principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.plots.reading import Floats


@dataclass(frozen=True)
class Plane:
    """An affine map from D dimensions to the picture's two.

    Attributes
    ----------
    mean : (D,) subtracted first.
    axes : (D, 2) directions of the picture's axes.
    explained : share of the samples' variance that the plane shows, in 0 ... 1; 1 for D <= 2.
    """

    mean: Floats
    axes: Floats
    explained: float

    @classmethod
    def of(cls, embeddings: Floats) -> Plane:
        """The plane to draw (n, D) embeddings in: themselves for D = 2, a line for D = 1, else principal components."""
        dimensions = embeddings.shape[1]
        if dimensions <= 2:
            return cls(np.zeros(dimensions), np.eye(dimensions, 2), 1.0)
        mean = embeddings.mean(axis=0)
        # The D x D matrix is small where the samples are many.
        variances, directions = np.linalg.eigh(np.cov(embeddings - mean, rowvar=False, bias=True))
        axes = directions[:, :-3:-1]
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), range(2)])  # a sign that does not depend on the machine
        total = float(variances.sum())
        return cls(mean, axes, float(variances[-2:].sum()) / total if total > 0 else 1.0)

    @property
    def projected(self) -> bool:
        """Whether something is lost: D > 2."""
        return len(self.mean) > 2

    @property
    def note(self) -> str:
        """What a reader must know about the axes; empty for D <= 2."""
        if not self.projected:
            return ""
        return f"{len(self.mean)}-D, drawn in its 2 first principal components ({self.explained:.0%} of the variance)"

    def __call__(self, points: Floats) -> Floats:
        """(…, D) points to (…, 2)."""
        flat: Floats = (points - self.mean) @ self.axes
        return flat
