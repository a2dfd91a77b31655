"""MAP@R, P@1 and P@R against pytorch-metric-learning's AccuracyCalculator(k="max_bin_count"), in one run.

    python tests/benchmarks/bench_retrieval.py [--repeats 3] [--large]

The sizes are those of the MNIST test set in 2-D, of CUB-200-2011's and, with --large (minutes for the peer), of Stanford Online
Products' test classes. Classes are Gaussian and overlap, so that the figures are neither 0 nor 1; both sides must agree.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from measure import line, measure
from torch import Tensor

SIZES = {"mnist": (10_000, 2, 10), "cub": (5_924, 512, 100), "products": (60_502, 512, 11_316)}


def cloud(n: int, width: int, classes: int) -> tuple[Tensor, Tensor]:
    own = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % classes
    centers = torch.nn.functional.normalize(torch.randn(classes, width, generator=own))
    points = centers[labels] + (1.2 if width == 2 else 2.5) / width**0.5 * torch.randn(n, width, generator=own)
    return (torch.nn.functional.normalize(points) if width > 2 else points), labels


def ours(*shape: int) -> Callable[[], Any]:
    from labkit.metrics import retrieval_metrics

    points, labels = cloud(*shape)

    def run() -> Any:
        result = retrieval_metrics(points, labels)
        return [result[name] for name in ("map_at_r", "p_at_1", "p_at_r")]

    return run


def peer(*shape: int) -> Callable[[], Any]:
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    points, labels = cloud(*shape)
    names = ("mean_average_precision_at_r", "precision_at_1", "r_precision")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", device=torch.device("cpu"))

    def run() -> Any:
        result = calculator.get_accuracy(points, labels)
        return [result[name] for name in names]

    return run


def products(*shape: int) -> Callable[[], Any]:
    """The multiplications alone: every dot product of two different points once, tile by tile, in all threads."""
    from labkit.threads import in_threads

    points = cloud(*shape)[0].numpy()
    step = min(2048, len(points) // 8)
    tiles = [slice(i, i + step) for i in range(0, len(points), step)]
    pairs = [(a, b) for i, a in enumerate(tiles) for b in tiles[i:]]
    room = threading.local()

    def product(pair: tuple[slice, slice]) -> None:
        a, b = (points[rows] for rows in pair)
        if not hasattr(room, "buffer"):
            room.buffer = np.empty(step * step, points.dtype)
        np.matmul(a, b.T, out=room.buffer[: len(a) * len(b)].reshape(len(a), len(b)))

    return lambda: in_threads(product, pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", choices=SIZES)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; fastest of {arguments.repeats}")
    for name, shape in SIZES.items():
        if arguments.only not in (None, name) or (name == "products" and not arguments.large):
            continue
        repeats = 1 if name == "products" else arguments.repeats
        print("{}: {:,} x {}, {:,} classes".format(name, *shape))
        mine = measure(ours, *shape, repeats=repeats)
        print(line("labkit retrieval_metrics", mine), flush=True)
        if shape[1] > 16:
            print(line("its multiplications alone, by NumPy", measure(products, *shape, repeats=repeats), mine))
        other = measure(peer, *shape, repeats=repeats)
        print(line("pytorch-metric-learning AccuracyCalculator", other, mine))
        gap = max(abs(a - b) for a, b in zip(mine.result, other.result, strict=True))
        print(f"    MAP@R {mine.result[0]:.4f}, P@1 {mine.result[1]:.4f}, P@R {mine.result[2]:.4f}; largest difference {gap:.1e}")


if __name__ == "__main__":
    main()
