"""Forward and backward of each loss that owns proxies against pytorch-metric-learning's: time and peak memory, in one run.

    python tests/benchmarks/bench_proxy_losses.py [--losses SoftTripleLoss] [--threads 2]

Both sides get the same embeddings and proxies and give the same loss (checked). Times are the least of many interleaved
runs (whatever else runs only adds); peak memory is what the tensor allocator held at most during one forward and
backward, inputs excluded, the gradient of the proxies included. The last line, SoftTriple with its regulariser at
11,318 classes of 10 centres, has no peer: the mask over all pairs of centres alone would need 12 GB, the similarities
four times that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from bench_losses import peak_memory
from measure import where_time_goes
from pytorch_metric_learning import losses as peer_losses
from torch import Tensor

from labkit import losses

MANY = 11_318
Maker = Callable[[int, int, int], torch.nn.Module]
PAIRS: dict[str, tuple[Maker, Maker | None]] = {
    "SoftTripleLoss": (
        lambda c, d, k: losses.SoftTripleLoss(c, d, k),
        lambda c, d, k: peer_losses.SoftTripleLoss(c, d, k),
    ),
    "ProxyNCALoss": (
        lambda c, d, k: losses.ProxyNCALoss(c, d, k),
        lambda c, d, k: peer_losses.ProxyNCALoss(c, d, softmax_scale=10),
    ),
    "ProxyAnchorLoss": (
        lambda c, d, k: losses.ProxyAnchorLoss(c, d, proxies_per_class=k),
        lambda c, d, k: peer_losses.ProxyAnchorLoss(c, d),
    ),
    "SoftTripleLoss, tau": (
        lambda c, d, k: losses.SoftTripleLoss(
            c, d, k, weight_regularizer=losses.SparseCentersRegularizer(c, k), weight_reg_weight=0.2
        ),
        None,
    ),
}
SIZES = [(100, 64), (100, 512), (MANY, 64), (MANY, 512)]


def sides(name: str, classes: int, width: int, per_class: int) -> list[torch.nn.Module]:
    """Ours and, where there is one, the peer's loss with the same proxies."""
    ours, peer = PAIRS[name]
    mine = ours(classes, width, per_class)
    if peer is None:
        return [mine]
    theirs = peer(classes, width, per_class)
    with torch.no_grad():
        if hasattr(theirs, "fc"):
            theirs.fc.copy_(mine.weight.T)
        else:
            theirs.proxies.copy_(mine.weight)
    return [mine, theirs]


def compare(name: str, n: int, classes: int, width: int, per_class: int, seconds: float, profile: bool) -> None:
    own = torch.Generator().manual_seed(0)
    x = torch.randn(n, width, generator=own).requires_grad_()
    labels = torch.randint(classes, (n,), generator=own)
    contenders = sides(name, classes, width, per_class)

    def run(loss: torch.nn.Module) -> Tensor:
        value = loss(x, labels)
        value.backward()
        return value.detach()

    def forget(loss: torch.nn.Module) -> None:
        x.grad = None
        loss.zero_grad(set_to_none=True)

    values, gradients, memories = [], [], []
    for loss in contenders:
        values.append(run(loss))
        gradients.append(x.grad)
        forget(loss)
        memories.append(peak_memory(lambda loss=loss: run(loss), lambda loss=loss: forget(loss)) / 2**20)
    torch.testing.assert_close(values[0], values[-1], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[-1], rtol=2e-2, atol=1e-4)
    times: list[list[float]] = [[] for _ in contenders]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for loss, record in zip(contenders, times):
            start = time.perf_counter()
            run(loss)
            record.append(time.perf_counter() - start)
            forget(loss)
    best = [min(record) * 1e3 for record in times]
    line = f"{name:20s} N {n:4d}  C {classes:6d}  K {per_class:2d}  D {width:4d}  ours {best[0]:9.3f} ms {memories[0]:8.1f} MB"
    if len(contenders) == 2:
        line += f"  peer {best[1]:9.3f} ms {memories[1]:8.1f} MB"
        line += f"  x{best[1] / best[0]:5.2f}  memory x{memories[0] / memories[1]:4.2f}"
    print(line, flush=True)
    if profile:
        print(where_time_goes(lambda: run(contenders[0]), lambda: forget(contenders[0])), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--batches", nargs="*", type=int, default=[32, 180])
    parser.add_argument("--sizes", nargs="*", type=int, default=range(len(SIZES)), help=f"which of {SIZES}")
    parser.add_argument("--seconds", type=float, default=1.0, help="at least this long for each line")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="below each line, where our time goes")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.losses:
        per_class = 10 if name.startswith("SoftTriple") else 1
        for n in args.batches:
            for classes, width in (SIZES[i] for i in args.sizes):
                compare(name, n, classes, width, per_class, args.seconds, args.profile)


if __name__ == "__main__":
    main()
