"""What the recorded studies vary: of notebooks 05 to 07 one setting at a time, on digits never seen, over three seeds; of
notebook 02 only the places of the proxies, from one and the same step on."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from labkit.datasets import Splits
from labkit.metrics import retrieval_metrics
from labkit.panels.playground_presets import live_experiment
from labkit.plots import distinct_centers
from labkit.training import Experiment, Recording, Trainer
from labkit.training.controls import next_problem
from labkit.training.presets_losses import candidate
from labkit.training.registry import load_splits
from labkit.training.sections import Loss

SEEDS = (0, 1, 2)
RATE = 3e-3  # what the tuning chose for each of the three with its paper's settings
Row = tuple[dict[str, Any], Experiment]
RLL = {"alpha": 1.2, "margin": 0.4, "temperature": 10.0}
SOFT_TRIPLE = {"la": 20.0, "gamma": 0.1, "margin": 0.01, "weight_reg_weight": 0.0}
PROXY_GML = {"ratio": 0.4, "proxy_weight": 0.3, "positive_mask": True, "mask_softmax": True}
PEERS = ("n-pair", "lifted-structure", "semi-hard-triplet")
# λ, γ, τ, δ and centres of each class, as the CCP paper prints them; In-shop has CUB's with 4 centres.
PRINTED = {
    "CUB": (20.0, 0.1, 0.2, 0.01, 10),
    "Cars": (17.69, 19.18, 0.0669, 0.3588, 10),
    "SOP": (100.0, 47.9, 0.2, 0.3145, 4),
}


def base(loss: str, options: dict[str, Any]) -> Experiment:
    """A loss with its paper's settings, alone, on digits never seen; half as long as its preset."""
    return candidate("unseen", loss, 0, RATE).replace(loss=Loss(loss, options), steps=400, evaluate_every=100)


def varied(start: Experiment, values: dict[str, tuple[str, list[Any]]], seed: int) -> Iterator[Row]:
    """Each value of each setting by itself; {name: (setting, values)}."""
    for name, (setting, chosen) in values.items():
        for value in chosen:
            yield {"varied": name, "value": value, "seed": seed}, start.replace(seed=seed, **{setting: value})


def rll() -> Iterator[Row]:
    """The seed's Tables 3 to 7 in kind, and the losses that it is compared with."""
    start = base("rll", RLL)
    values: dict[str, tuple[str, list[Any]]] = {
        "temperature": ("loss.options.temperature", [0.0, 5.0, 10.0, 15.0, 20.0]),
        "margin": ("loss.options.margin", [0.0, 0.2, 0.4, 0.6, 1.2]),
        "alpha": ("loss.options.alpha", [1.0, 1.2, 1.4]),
        "levels": ("network.levels", ["low", "middle", "high", "low+middle+high"]),
        "batch": ("data.samples_per_class", [8, 12, 24, 40]),
    }
    for seed in SEEDS:
        yield from varied(start, values, seed)
        for rate, peer in product((1e-3, 3e-3), ("rll", *PEERS)):
            smaller = start.replace(seed=seed, **{"data.samples_per_class": 12, "optimizer.learning_rate": rate})
            name = start.name if peer == "rll" else f"mnist-unseen-{peer}"
            yield {"varied": "peer", "value": peer, "rate": rate, "seed": seed}, smaller.replace(name=name)


def soft_triple() -> Iterator[Row]:
    """Centres, the regulariser, γ, the CCP paper's settings, and classes with two modes."""
    start = base("soft_triple", SOFT_TRIPLE)
    values: dict[str, tuple[str, list[Any]]] = {
        "centers": ("projections.proxies_per_class", [1, 2, 5, 10, 20]),
        "tau": ("loss.options.weight_reg_weight", [0.0, 0.2, 0.5, 1.0, 2.0]),
        "gamma": ("loss.options.gamma", [0.0, 0.01, 0.1, 1.0, 100.0]),
    }
    start = start.replace(**{"projections.pool_size": 20})
    for seed in SEEDS:
        yield from varied(start, values, seed)
        for name, (la, gamma, tau, margin, centers) in PRINTED.items():
            for inverse in (False, True) if gamma > 1 else (False,):
                used = 1 / gamma if inverse else gamma
                options = {"la": la, "gamma": used, "margin": margin, "weight_reg_weight": tau}
                changes = {"loss": Loss("soft_triple", options), "projections.proxies_per_class": centers}
                key = {"varied": "printed", "value": f"{name}, 1/γ" if inverse else name, "seed": seed}
                yield key, start.replace(seed=seed, **changes)
        for width, centers in product((2, 64), (1, 10)):
            changes = {"network.embedding_size": width, "projections.proxies_per_class": centers, "steps": 600}
            changes |= {"data.train_classes": 0, "name": f"mnist-joined-{width}d-soft-triple", "seed": seed}
            yield {"varied": "modes", "value": centers, "width": width, "seed": seed}, start.replace(**changes)


def proxy_gml() -> Iterator[Row]:
    """The seed's eight-fold ablation, its N and its r, in kind."""
    start = base("proxy_gml", PROXY_GML)
    values: dict[str, tuple[str, list[Any]]] = {
        "proxies": ("projections.proxies_per_class", [1, 4, 8, 12, 16]),
        "ratio": ("loss.options.ratio", [0.25, 0.4, 0.6, 1.0]),
    }
    start = start.replace(**{"projections.pool_size": 16})
    switches = sorted(product((False, True), repeat=3), key=lambda on: (sum(on), [not each for each in on]))
    for seed in SEEDS:
        for number, (mask, softmax, regulariser) in enumerate(switches, 1):
            options = {"positive_mask": mask, "mask_softmax": softmax, "proxy_weight": 0.3 if regulariser else 0.0}
            key = {
                "varied": "modules",
                "value": f"#{number}",
                "mask": mask,
                "softmax": softmax,
                "regulariser": regulariser,
            }
            yield {**key, "seed": seed}, start.replace(seed=seed, loss=Loss("proxy_gml", {**PROXY_GML, **options}))
        yield from varied(start, values, seed)


def trainer(experiment: Experiment) -> Trainer:
    """A trainer for any row: a peer's loss where its name says so, joined classes where it says that."""
    splits: Splits | None = None
    if experiment.name.startswith("mnist-joined-"):
        splits = load_splits(experiment).joined(2)
    return Trainer(experiment, loss=peer_loss(experiment.name.removeprefix("mnist-unseen-")), splits=splits)


def peer_loss(name: str) -> Any:
    """A loss of pytorch-metric-learning with its own defaults, for the shared interface; None for ours."""
    if name not in PEERS:
        return None
    from pytorch_metric_learning import losses, miners, regularizers

    from labkit.losses import MinedLoss

    if name == "n-pair":  # dot products of any length, held back as its paper does
        return MinedLoss(
            losses.NPairsLoss(embedding_regularizer=regularizers.LpRegularizer(), embedding_reg_weight=0.02)
        )
    if name == "lifted-structure":
        return MinedLoss(losses.LiftedStructureLoss())
    miner = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")
    return MinedLoss(losses.TripletMarginLoss(margin=0.2), miner)


def more_figures(finished: Trainer, recording: Recording) -> dict[str, float]:
    """Distinct centres of each class, where proxies are owned; for joined classes retrieval of the single digits."""
    figures: dict[str, float] = {}
    proxies = recording.problems[-1].proxies if recording.problems else None
    if proxies is not None:
        figures["distinct_centers"] = float(distinct_centers(proxies).mean())
    if finished.experiment.name.startswith("mnist-joined-"):
        digits = load_splits(finished.experiment).test
        found = retrieval_metrics(finished.embed(digits.images), digits.labels, ks=(1,))
        figures |= {f"digit_{name}": float(found[name]) for name in ("map_at_r", "p_at_1")}
    return figures


BRANCH_AT, BRANCH_LOOKS = 700, (700, 800, 900, 1000, 1100, 1200)
BRANCHES = (
    "left alone",
    "Next problem",
    "old proxies, moved onto the samples",
    "new proxies, each class on one point",
    "new proxies, moved back",
)


def branches(seed: int) -> list[dict[str, Any]]:
    """The collapse preset up to step 700, and five ways to go on that differ in nothing but where the proxies are.

    All but the first press Next problem, so that the network, its optimiser and the draws of the next batches are the same in
    all four; then the proxies are put where the branch has them. `moved` means all of them together, by one vector, which
    takes the middle of the old proxies to the middle of those that K-Center chose, or back.

    Returns
    -------
    list of dict, one per branch: its `key`; its `figures`, which are what the proxies are like as it begins (`layout`), then
    MAP@R on held-out pictures and proxy spread at each look ("map_at_r_700", …); `seconds`, with the way to step 700.
    """
    experiment = live_experiment("collapse", seed=seed)
    started = time.perf_counter()
    trunk = Trainer(experiment)
    trunk.recording()
    trunk.step(BRANCH_AT)
    state, samples = copy.deepcopy(trunk.state_dict()), torch.from_numpy(trunk.recording().embeddings[-1])
    labels, trunk_seconds = torch.from_numpy(trunk.recording().labels), time.perf_counter() - started
    rows = []
    for branch in BRANCHES:
        started = time.perf_counter()
        run = Trainer(experiment)
        run.recording()
        run.load_state_dict(copy.deepcopy(state))
        assert run.projections is not None and run.projections.proxies is not None
        old = run.projections.proxies.detach().clone()
        if branch != "left alone":
            next_problem(run)
            proxies = run.projections.proxies
            with torch.no_grad():
                proxies.copy_(placed(branch, old, proxies.detach().clone()))
        start = layout(run.projections.proxies.detach(), samples, labels)
        run.step(BRANCH_LOOKS[-1] - BRANCH_AT)
        recording, later = run.recording(), {}
        for name in ("map_at_r", "proxy_spread"):
            for step in BRANCH_LOOKS:
                value = recording.metrics[name][recording.metrics["step"] == step]
                later[f"{name}_{step}"] = round(float(value[0]), 5)
        seconds = round(trunk_seconds + time.perf_counter() - started, 1)
        rows.append({
            "key": {"branch": branch, "seed": seed}, "figures": start | later, "seconds": seconds,
            "data": recording.environment["data"], "experiment": experiment.to_dict(),
        })  # fmt: skip
    return rows


def placed(branch: str, old: Tensor, new: Tensor) -> Tensor:
    """(C, K, D) proxies of a branch, from those before Next problem and those after it."""
    moved = new.mean((0, 1)) - old.mean((0, 1))
    if branch == "old proxies, moved onto the samples":
        return old + moved
    if branch == "new proxies, each class on one point":
        return new.mean(1, keepdim=True).expand_as(new)
    return new - moved if branch == "new proxies, moved back" else new


def layout(proxies: Tensor, samples: Tensor, labels: Tensor) -> dict[str, float]:
    """What (C, K, D) proxies are like against (n, D) samples: distances, and a cosine.

    `spread`: between two proxies of a class, mean. `between`: between two classes' centres. `away`: from a sample to a
    proxy, all with all. `same_way`: the cosine of the angle, at a sample, between the mean direction of its own class's
    proxies and that of all others: 1 where pull and push act along one line.
    """
    towards = torch.nn.functional.normalize(proxies[None] - samples[:, None, None], dim=-1)  # (n, C, K, D)
    own = torch.nn.functional.one_hot(labels.long(), len(proxies)).bool()
    mine = towards[own].mean(1)
    others = torch.stack([one[~is_own].mean((0, 1)) for one, is_own in zip(towards, own, strict=True)])
    figures = {
        "spread": torch.stack([torch.pdist(one).mean() for one in proxies]).mean(),
        "between": torch.pdist(proxies.mean(1)).mean(),
        "away": torch.cdist(samples, proxies.flatten(0, 1)).mean(),
        "same_way": torch.nn.functional.cosine_similarity(mine, others).mean(),
    }
    return {name: round(float(value), 4) for name, value in figures.items()}
