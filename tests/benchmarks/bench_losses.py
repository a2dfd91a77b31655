"""Forward and backward of each pair loss against pytorch-metric-learning's: time and peak memory, in one run.

    python tests/benchmarks/bench_losses.py [--losses ContrastiveLoss TripletLoss] [--batches 32 1024] [--crowded]

Both sides get the same tensors and give the same loss (checked). Within the batch, and against 11,318 classes with
4 proxies each; classes come in fours. Times are the least of many interleaved runs (whatever else runs only adds);
peak memory is what the tensor allocator held at most during one forward and backward, inputs excluded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from pytorch_metric_learning import distances, reducers
from pytorch_metric_learning import losses as peer_losses
from torch import Tensor

from labkit import losses

WIDTH, CLASSES, PROXIES, PER_CLASS = 128, 11_318, 4, 4
BATCHES = (32, 64, 128, 256, 512, 1024)


class PeerC1(torch.nn.Module):
    """pytorch-metric-learning has no mean over anchors: its sum of the pairs, divided."""

    def __init__(self) -> None:
        super().__init__()
        cosine, total = distances.CosineSimilarity(), reducers.SumReducer()
        self.loss = peer_losses.ContrastiveLoss(pos_margin=1, neg_margin=0.5, distance=cosine, reducer=total)

    def forward(self, embeddings: Tensor, *others: Tensor | None) -> Tensor:
        return self.loss(embeddings, *others) / len(embeddings)


def euclidean() -> distances.LpDistance:
    return distances.LpDistance(normalize_embeddings=False)


PAIRS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], torch.nn.Module]]] = {
    "CosineContrastiveLoss": (losses.CosineContrastiveLoss, PeerC1),
    "ContrastiveLoss": (
        lambda: losses.ContrastiveLoss(0.2858, 0.5130),
        lambda: peer_losses.ContrastiveLoss(0.2858, 0.5130, distance=euclidean()),
    ),
    "TripletLoss": (
        lambda: losses.TripletLoss(0.0451),
        lambda: peer_losses.TripletMarginLoss(0.0451, distance=euclidean()),
    ),
    "MultiSimilarityLoss": (losses.MultiSimilarityLoss, lambda: peer_losses.MultiSimilarityLoss(2, 40, 0.5)),
}


def make_batch(n: int, width: int, crowded: bool, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings of n / 4 classes and all proxies around the unit sphere: classes that overlap a little, or `crowded`
    into four dimensions, as early in training, where many more pairs cost something."""
    own = torch.Generator().manual_seed(seed)
    centers = torch.randn(CLASSES, width, generator=own)
    if crowded:
        centers[:, 4:] = 0.0
    centers = torch.nn.functional.normalize(centers)
    labels = torch.randperm(CLASSES, generator=own)[: max(1, n // PER_CLASS)].repeat_interleave(PER_CLASS)[:n]
    proxy_labels = torch.arange(CLASSES).repeat_interleave(PROXIES)
    noise = (0.3 if crowded else 1.2) / width**0.5
    embeddings = centers[labels] + noise * torch.randn(n, width, generator=own)
    proxies = centers[proxy_labels] + noise * torch.randn(len(proxy_labels), width, generator=own)
    return embeddings, labels, proxies, proxy_labels


def peak_memory(work: Callable[[], object], forget: Callable[[], object]) -> int:
    """Largest number of bytes that tensors made by `work` held at one time; `forget` frees what it leaves."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
        forget()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def compare(name: str, n: int, with_references: bool, crowded: bool, seconds: float) -> None:
    ours, peer = (make() for make in PAIRS[name])
    embeddings, labels, proxies, proxy_labels = make_batch(n, WIDTH, crowded)
    embeddings.requires_grad_()
    proxies.requires_grad_()
    lipschitz = getattr(ours, "normalize", None) == "lipschitz"

    def normal(x: Tensor) -> Tensor:
        return x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1.0) if lipschitz else x

    def run_ours() -> Tensor:
        rest = (None, proxies, proxy_labels) if with_references else ()
        value = ours(embeddings, labels, *rest)
        value.backward()
        return value.detach()

    def run_peer() -> Tensor:
        x = normal(embeddings)
        if not with_references:
            value = peer(x, labels)
        elif ours.anchor == "proxy":
            value = peer(normal(proxies), proxy_labels, None, x, labels)
        else:
            value = peer(x, labels, None, normal(proxies), proxy_labels)
        value.backward()
        return value.detach()

    def forget() -> None:
        embeddings.grad = proxies.grad = None

    values, gradients, memories = [], [], []
    for work in (run_ours, run_peer):
        forget()
        values.append(work())
        gradients.append(embeddings.grad)
        forget()
        memories.append(peak_memory(work, forget))
    torch.testing.assert_close(values[0], values[1], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=2e-2, atol=1e-5)
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[1]) < 3:
        for work, record in zip((run_ours, run_peer), times):
            forget()
            start = time.perf_counter()
            work()
            record.append(time.perf_counter() - start)
    mine, theirs = (min(record) * 1e3 for record in times)
    where = f"{CLASSES * PROXIES} refs" if with_references else "in batch"
    print(
        f"{name:22s} {n:5d} {where:10s}  ours {mine:9.3f} ms  peer {theirs:9.3f} ms  x{theirs / mine:6.2f}"
        f"   peak {memories[0] / 2**20:8.2f} MB  peer {memories[1] / 2**20:8.2f} MB  x{memories[1] / memories[0]:6.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--batches", nargs="*", type=int, default=list(BATCHES))
    parser.add_argument("--where", nargs="*", default=["batch", "references"], choices=["batch", "references"])
    parser.add_argument("--crowded", action="store_true", help="many active pairs, as early in training")
    parser.add_argument("--seconds", type=float, default=1.0, help="at least this long for each line")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.losses:
        for where in args.where:
            for n in args.batches:
                compare(name, n, where == "references", args.crowded, args.seconds)


if __name__ == "__main__":
    main()
