"""Ranked list loss, ProxyGML and cross-batch memory, forward and backward, against what there is to compare them with.

    python tests/benchmarks/bench_lists_and_memory.py [--what rll gml xbm] [--threads 2] [--seconds 2]

Ranked list loss: pytorch-metric-learning's (whose gradient also runs through gallery and weights), and the formulas
written down with tensors. ProxyGML: the formulas with dense masks, and the same with sums over classes in place of the
product with the one-hot matrix. Cross-batch memory: the one matrix product of batch and memory that it cannot do
without, and the same there and back, as a gradient needs it. Values agree (checked). Times are the least of many
interleaved runs; peak memory is what the tensor allocator held at most during one forward and backward, inputs excluded,
gradients included.
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
from torch.nn.functional import normalize

from labkit import losses

MANY = 11_318
Work = Callable[[], Tensor]


def best_times(contenders: dict[str, Work], forget: Callable[[], None], seconds: float) -> dict[str, float]:
    """Milliseconds of the fastest run of each; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    end, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or rounds < 3:
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            times[name].append((time.perf_counter() - start) * 1e3)
            forget()
        rounds += 1
    return {name: min(record) for name, record in times.items()}


PROFILE = False  # whether to print, below ours, where its time goes


def report(title: str, contenders: dict[str, Work], forget: Callable[[], None], seconds: float) -> None:
    """One line for each contender; the first is ours, and the others' times and memory are told as multiples of it."""
    values, memories = [], {}
    for name, work in contenders.items():
        values.append(work())
        forget()
        memories[name] = peak_memory(work, forget) / 2**20
        forget()
    for value in values[1:]:
        torch.testing.assert_close(value, values[0], rtol=5e-3, atol=1e-5)
    times = best_times(contenders, forget, seconds)
    ours = next(iter(contenders))
    for name in contenders:
        ratios = (
            f"x{times[name] / times[ours]:6.2f}   memory x{memories[name] / memories[ours]:6.2f}"
            if name != ours
            else ""
        )
        print(f"{title:34s} {name:14s} {times[name]:9.3f} ms {memories[name]:8.1f} MB  {ratios}", flush=True)
        if PROFILE and name == ours:
            print(where_time_goes(contenders[ours], forget), flush=True)


def ranked_list_written_down(x: Tensor, labels: Tensor) -> Tensor:
    """METHODS' formulas with α = 1.2, m = .4, T = 10, λ = 1; gallery and weights constant."""
    unit = normalize(x)
    squared = 2 - 2 * unit @ unit.detach().T
    d = squared.clamp(min=1e-12).sqrt()
    same = labels[:, None] == labels
    itself = torch.eye(len(x), dtype=torch.bool)
    positive, negative = same & ~itself & (d > 0.8), ~same & (d < 1.2)
    near = ((d - 0.8) * positive).sum(1) / positive.sum(1).clamp(min=1)
    weights = torch.exp(10 * (1.2 - d.detach())) * negative
    far = (weights * (1.2 - d)).sum(1) / weights.sum(1).clamp(min=1e-12)
    return (near + far).mean()


def ranked_list(n: int, width: int, seconds: float) -> None:
    own = torch.Generator().manual_seed(0)
    labels = torch.arange(n) // 3
    x = (torch.randn(n // 3 + 1, width, generator=own)[labels] + torch.randn(n, width, generator=own)).requires_grad_()
    ours = losses.RankedListLoss()
    peer = peer_losses.RankedListLoss(margin=0.4, Tn=10, imbalance=0.5, alpha=1.2)

    def run(loss: Callable[..., Tensor], scale: float = 1.0) -> Work:
        def work() -> Tensor:
            value = loss(x, labels) * scale
            value.backward()
            return value.detach()

        return work

    contenders = {"ours": run(ours), "peer": run(peer, 2.0), "written down": run(ranked_list_written_down)}
    report(f"ranked list, {n} x {width}", contenders, lambda: setattr(x, "grad", None), seconds)


def gml_written_down(
    x: Tensor, weight: Tensor, labels: Tensor, n: int, k: int, proxy_weight: float, dense: bool
) -> Tensor:
    """Equations 2 to 12 with masks as wide as all proxies; positives ahead outright."""
    classes = len(weight) // n
    owners = torch.arange(classes).repeat_interleave(n)
    one_hot = torch.nn.functional.one_hot(owners, classes).float() if dense else None

    def by_class(w: Tensor) -> Tensor:
        return w @ one_hot if one_hot is not None else w.unflatten(1, (classes, n)).sum(2)

    proxies = normalize(weight)
    s = normalize(x) @ proxies.T
    chosen = (s.detach() + 4 * (labels[:, None] == owners)).topk(k, dim=1).indices
    mask = torch.zeros_like(s).scatter_(1, chosen, 1.0)
    z, counts = by_class(s * mask), by_class(mask) > 0
    exponents = z.exp() * counts
    loss = -(exponents / exponents.sum(1, keepdim=True)).gather(1, labels[:, None]).log().mean()
    if proxy_weight > 0:
        loss = loss + proxy_weight * torch.nn.functional.cross_entropy(by_class(proxies @ proxies.T), owners)
    return loss


def gml(m: int, classes: int, n: int, width: int, proxy_weight: float, seconds: float) -> None:
    own = torch.Generator().manual_seed(0)
    ours = losses.ProxyGMLLoss(classes, width, n, proxy_weight=proxy_weight, generator=own)
    x = torch.randn(m, width, generator=own).requires_grad_()
    labels = torch.randint(classes, (m,), generator=own)

    def run(loss: Callable[[], Tensor]) -> Work:
        def work() -> Tensor:
            value = loss()
            value.backward()
            return value.detach()

        return work

    def forget() -> None:
        x.grad = ours.weight.grad = None

    contenders = {"ours": run(lambda: ours(x, labels))}
    for name, dense in (("dense masks", True), ("class sums", False)):
        arguments = (x, ours.weight, labels, n, ours.k, proxy_weight, dense)
        contenders[name] = run(lambda arguments=arguments: gml_written_down(*arguments))
    report(f"ProxyGML, {m} x {width}, C {classes}, N {n}", contenders, forget, seconds)


def memory(name: str, make: Callable[[], torch.nn.Module], n: int, width: int, ids: bool, seconds: float) -> None:
    rows = 44_800
    own = torch.Generator().manual_seed(0)
    loss = losses.CrossBatchMemory(make(), width, rows)
    centers = normalize(torch.randn(MANY, width, generator=own))

    def batch(size: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(MANY, (size // 4,), generator=own).repeat_interleave(4)
        return centers[labels] + 0.8 / width**0.5 * torch.randn(size, width, generator=own), labels

    past, owners = batch(rows)
    loss.memory.push(past, owners, torch.arange(rows))
    x, labels = batch(n)
    x.requires_grad_()
    sample_ids = torch.arange(100, 100 + n) if ids else None
    alone = make()

    def ours() -> Tensor:
        loss.memory.pushed = rows  # always the same memory but for the rows that a batch of this size replaces
        value = loss(x, labels, sample_ids=sample_ids)
        value.backward()
        return value.detach()

    def in_batch() -> Tensor:
        value = alone(x, labels)
        value.backward()
        return value.detach()

    def forget() -> None:
        x.grad = None

    def there_and_back() -> Tensor:
        return (x.detach() @ past.T) @ past

    contenders: dict[str, Work] = {"step": ours, "in-batch part": in_batch}
    contenders |= {"product": lambda: x.detach() @ past.T, "there and back": there_and_back}
    peak = peak_memory(ours, forget) / 2**20
    times = best_times(contenders, forget, seconds)
    part = times["step"] - times["in-batch part"]
    title = f"XBM {name}, {n} x {width}{', ids' if ids else ''}"
    once, both = times["product"], times["there and back"]
    print(
        f"{title:24s} step {times['step']:8.2f} ms, memory's part {part:8.2f} ms: x{part / once:5.2f} of the product"
        f" {once:7.2f} ms, x{part / both:5.2f} of there and back   peak {peak:6.1f} MB",
        flush=True,
    )
    if PROFILE:
        print(where_time_goes(ours, forget), flush=True)


def main() -> None:
    global PROFILE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", nargs="*", default=["rll", "gml", "xbm"], choices=["rll", "gml", "xbm"])
    parser.add_argument("--seconds", type=float, default=1.0, help="at least this long for each comparison")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="below each line of ours, where its time goes")
    args = parser.parse_args()
    PROFILE = args.profile
    torch.set_num_threads(args.threads)
    if "rll" in args.what:
        for n, width in ((32, 64), (180, 64), (180, 512), (720, 512)):
            ranked_list(n, width, args.seconds)
    if "gml" in args.what:
        for m in (32, 180):
            gml(m, 100, 12, 512, 0.3, args.seconds)
            gml(m, MANY, 1, 64, 0.0, args.seconds)
            gml(m, MANY, 1, 512, 0.0, args.seconds)
    if "xbm" in args.what:
        kinds = {"C1": lambda: losses.CosineContrastiveLoss(anchor="sample"), "C2": losses.ContrastiveLoss}
        kinds |= {"MS": losses.MultiSimilarityLoss, "RLL": losses.RankedListLoss}
        for name, make in kinds.items():
            for n, width in ((32, 128), (32, 512), (180, 512)):
                memory(name, make, n, width, False, args.seconds)
        memory("MS", losses.MultiSimilarityLoss, 180, 512, True, args.seconds)


if __name__ == "__main__":
    main()
