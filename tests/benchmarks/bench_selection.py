"""Greedy K-Center against anomalib's KCenterGreedy, the plain loop in torch, and reading the array k times.

    python tests/benchmarks/bench_selection.py [--repeats 3]

anomalib is measured where it is installed; `pip install --no-deps anomalib` is enough, since only its two files for this are
loaded. As published it first projects the points at random (here 128 columns become more); "no projection" is its loop alone.
The batched case is one re-initialisation of the proxies of 11,318 classes.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import line, measure
from torch import Tensor

from labkit.selection import greedy_k_center

N, WIDTH, PICKS = 50_000, 128, 500
CLASSES, POOL, PROXIES = 11_318, 7, 4


def cloud(kind: str) -> Tensor:
    """50,000 x 128: one Gaussian, or 1,000 classes of it, which is what an embedding looks like."""
    own = torch.Generator().manual_seed(0)
    points = torch.randn(N, WIDTH, generator=own)
    if kind == "classes":
        centers = torch.randn(1000, WIDTH, generator=own)
        points = centers[torch.randint(1000, (N,), generator=own)] + 0.3 * points
    return torch.nn.functional.normalize(points)


def ours(kind: str) -> Callable[[], Any]:
    points = cloud(kind)

    def run() -> Any:
        chosen = greedy_k_center(points, PICKS)
        return chosen.indices.tolist(), float(chosen.radii[-1])

    return run


def plain(kind: str) -> Callable[[], Any]:
    points = cloud(kind)

    def run() -> Any:
        picks, minima = [0], torch.full((N,), torch.inf)
        for _ in range(PICKS):
            torch.minimum(minima, torch.linalg.vector_norm(points - points[picks[-1]], dim=1), out=minima)
            picks.append(int(minima.argmax()))
        return picks[:PICKS], float(minima.max())

    return run


def reading(kind: str) -> Callable[[], Any]:
    points = cloud(kind)
    vector = points[0].clone()
    return lambda: [torch.mv(points, vector) for _ in range(PICKS)] and None


def anomalib_folder() -> Path | None:
    spec = importlib.util.find_spec("anomalib")
    return Path(spec.origin).parent / "models" / "components" if spec and spec.origin else None


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anomalib(kind: str, project: bool) -> Callable[[], Any]:
    folder = anomalib_folder()
    assert folder
    # The package imports a training framework; the two files need only each other.
    names = ["anomalib", "anomalib.models", "anomalib.models.components"]
    sys.modules.update({name: types.ModuleType(name) for name in names})
    reduction = load("reduction", folder / "dimensionality_reduction" / "random_projection.py")
    sys.modules["anomalib.models.components.dimensionality_reduction"] = reduction
    module = load("k_center_greedy", folder / "sampling" / "k_center_greedy.py")
    module.tqdm = lambda steps, **_: steps
    points = cloud(kind)
    # Anything but two dimensions is taken as it is.
    embedding = points if project else points[..., None]
    return lambda: module.KCenterGreedy(embedding, PICKS / N).select_coreset_idxs()


def pools() -> tuple[Tensor, Tensor]:
    own = torch.Generator().manual_seed(0)
    shape = (CLASSES, POOL + PROXIES, WIDTH)
    rows = torch.nn.functional.normalize(torch.randn(shape, generator=own), dim=2)
    return rows[:, :POOL].contiguous(), rows[:, POOL:].contiguous()


def ours_batched() -> Callable[[], Any]:
    points, centres = pools()
    return lambda: greedy_k_center(points, PROXIES, initial=centres).indices.numpy()


def plain_batched() -> Callable[[], Any]:
    points, centres = pools()

    def run() -> Any:
        minima, picks = torch.cdist(points, centres).amin(2), []
        for _ in range(PROXIES):
            picks.append(minima.argmax(1))
            chosen = points[torch.arange(CLASSES), picks[-1]]
            torch.minimum(minima, torch.linalg.vector_norm(points - chosen[:, None], dim=2), out=minima)
        return torch.stack(picks, 1).numpy()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; fastest of {repeats}")
    for kind in ("gaussian", "classes"):
        print(f"{N:,} x {WIDTH}, {PICKS} picks, {kind}")
        mine = measure(ours, kind, repeats=repeats)
        print(line("labkit greedy_k_center", mine))
        other = measure(plain, kind, repeats=repeats)
        print(line("plain loop in torch", other, mine))
        same = other.result[0] == mine.result[0] and abs(other.result[1] - mine.result[1]) < 1e-5
        print(f"    same picks and radius as the plain loop: {same}")
        print(line(f"matrix times vector, {PICKS} times", measure(reading, kind, repeats=repeats), mine))
        if anomalib_folder():
            print(line("anomalib KCenterGreedy, as published", measure(anomalib, kind, True, repeats=repeats), mine))
            print(line("anomalib KCenterGreedy, no projection", measure(anomalib, kind, False, repeats=repeats), mine))
        else:
            print("  anomalib is not installed: pip install --no-deps anomalib")
    print(f"{CLASSES:,} sets of {POOL} x {WIDTH}, {PROXIES} initial centres, {PROXIES} picks each")
    mine = measure(ours_batched, repeats=repeats)
    print(line("labkit greedy_k_center", mine))
    other = measure(plain_batched, repeats=repeats)
    print(line("plain batched loop in torch", other, mine))
    print(f"    same picks as the plain loop: {(mine.result == other.result).all()}")


if __name__ == "__main__":
    main()
