"""Small indices of random points, for the tests of searching and of keeping them."""

import numpy as np

from labkit.serving import ImageIndex


def points(n=60, width=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def named(x, **options):
    n = len(x)
    return ImageIndex(x, [f"{i}.png" for i in range(n)], [f"c{i % 3}" for i in range(n)], **({"normalize": "none"} | options))
