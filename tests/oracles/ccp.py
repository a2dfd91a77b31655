"""Algorithm 2 of the CCP paper written out with plain loops, one class at a time."""

from __future__ import annotations

import numpy as np


def greedy_choice(pool: np.ndarray, centres: np.ndarray, k: int) -> list[int]:
    """Indices of k pool rows, each the one farthest from the centres so far; ties to the lower index."""
    centres, picked = [row for row in centres], []
    for _ in range(k):
        farthest, best = -1.0, -1
        for index, row in enumerate(pool):
            if index in picked:
                continue
            nearest = min(float(np.linalg.norm(row - centre)) for centre in centres)
            if nearest > farthest:
                farthest, best = nearest, index
        picked.append(best)
        centres.append(pool[best])
    return picked
