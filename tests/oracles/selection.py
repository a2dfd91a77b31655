"""Selection by the definition: Python loops, float64, every distance from scratch."""

import itertools
import math


def distance(a, b):
    return math.sqrt(sum((float(u) - float(v)) ** 2 for u, v in zip(a, b, strict=True)))


def radius(points, centres):
    """Largest distance from a point to its nearest centre."""
    return max(min(distance(p, c) for c in centres) for p in points)


def greedy(points, k, initial=()):
    """Indices and radii of greedy K-Center over a list of points; `initial` empty: start at point 0."""
    centres, picks, radii = [list(c) for c in initial], [], []
    for _ in range(k):
        if not centres:
            best = 0
        else:
            free = [i for i in range(len(points)) if i not in picks]
            best = max(free, key=lambda i: (min(distance(points[i], c) for c in centres), -i))
        picks.append(best)
        centres.append(points[best])
        radii.append(radius(points, centres))
    return picks, radii


def optimal_radius(points, k, initial=()):
    """Smallest radius that any k of the points reach, together with centres that are there already."""
    return min(radius(points, [*chosen, *initial]) for chosen in itertools.combinations(points, k))
