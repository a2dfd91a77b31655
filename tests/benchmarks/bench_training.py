"""What alternating projections add to a training step, what a step of each network costs, and what `import labkit` costs.

    python tests/benchmarks/bench_training.py [--rounds 30]

The step with CCP is one of its second problem, projection term included; the step without is the same step of the same
run but for that term (how many pairs are active, which decides what the loss costs, is then the same). Both trainers take
turns, a few steps each, and the median of the paired ratios is told.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import torch

from labkit.datasets import load_digits
from labkit.training import Experiment, Trainer


def make(network: str, projection_weight: float = 2e-4) -> Trainer:
    """A trainer in the second problem of CCP, past the early snapshots."""
    settings = {"evaluate_every": 10**6, "steps": 10**6, "network.name": network, "data.source": "digits-8x8"}
    trainer = Trainer(Experiment.preset("mnist-2d-ccp", **settings, **{"projections.projection_weight": projection_weight}))
    trainer.step(40)
    ccp = trainer.projections
    for score in (0.5, *[0.4] * ccp.patience):
        ccp.observe(score, trainer.model)
    trainer.references.choose(trainer.optimizer)
    trainer.step(3)
    assert ccp.problem == 1 and ccp.progress.previous_weights is not None
    return trainer


def seconds(trainer: Trainer, steps: int) -> float:
    started = time.perf_counter()
    trainer.step(steps)
    return (time.perf_counter() - started) / steps


def step_overhead(network: str, rounds: int) -> None:
    plain, ccp = make(network, 0.0), make(network)
    ratios, plain_times, ccp_times = [], [], []
    for turn in range(rounds):
        pair = (plain, ccp) if turn % 2 == 0 else (ccp, plain)  # whoever goes second finds warm caches
        times = {id(trainer): seconds(trainer, 4) for trainer in pair}
        plain_times.append(times[id(plain)])
        ccp_times.append(times[id(ccp)])
        ratios.append(times[id(ccp)] / times[id(plain)])
    kept = sum(tensor.numel() * tensor.element_size() for tensor in ccp.projections.progress.previous_weights)
    model = sum(p.numel() * p.element_size() for p in ccp.model.parameters())
    proxies = ccp.projections.proxies.numel() * 4
    print(f"{network}: step {1e3 * statistics.median(plain_times):.1f} ms without CCP, "
          f"{1e3 * statistics.median(ccp_times):.1f} ms with; ratio {statistics.median(ratios):.3f} "
          f"(median of {rounds} pairs, {torch.get_num_threads()} threads, {plain.embedder.dtype})")
    print(f"  memory for θ_prev {kept / 1e6:.2f} MB, model {model / 1e6:.2f} MB, proxies {proxies / 1e3:.1f} kB")


def network_cost() -> None:
    images = load_digits("digits-8x8").train.images[:120].float() / 255
    costs = {}
    for name in ("resnet20v2", "small"):
        trainer = make(name)
        model, times = trainer.model.train(), []
        for _ in range(12):
            started = time.perf_counter()
            model(images).square().sum().backward()
            times.append(time.perf_counter() - started)
        costs[name] = statistics.median(times)
    print(f"float32, batch 120: resnet20v2 {1e3 * costs['resnet20v2']:.1f} ms, small {1e3 * costs['small']:.1f} ms, "
          f"ratio {costs['resnet20v2'] / costs['small']:.1f}")


def import_cost(repeats: int = 7) -> None:
    def run(code: str) -> float:
        program = f"import time, torch; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)

    added = statistics.median(run("import labkit") for _ in range(repeats))
    print(f"import labkit adds {added:.3f} s to import torch (median of {repeats})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="pairs of turns, four steps each")
    rounds = parser.parse_args().rounds
    import_cost()
    network_cost()
    for each in ("resnet20v2", "small"):
        step_overhead(each, rounds)
