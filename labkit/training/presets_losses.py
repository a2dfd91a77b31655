"""Presets that put the nine losses on one data set and one budget: on the plane, and on classes never seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.training.experiment import Experiment
from labkit.training.registry import LOSSES, owns_its_proxies
from labkit.training.sections import Data, Loss, Memory, Network, Optimizer, Projections

# What each loss was given to choose from, on each task: two settings of its own, times two learning rates. The seed that
# chose between the four takes no part in any result; `notebooks/record.py tune` makes the choice again. On the plane the
# first is made for it: ten classes on a circle have .62 between neighbours, a cosine of .81.
CANDIDATES: dict[str, dict[str, list[dict[str, Any]]]] = {
    "2d": {
        "c1": [{}, {"margin": 0.0, "normalize": "lipschitz"}],
        "c2": [{}, {"neg_margin": 0.7}],
        "triplet": [{}, {"margin": 0.3}],
        "ms": [{}, {"beta": 5.0, "normalize": "lipschitz"}],
        "rll": [{}, {"alpha": 0.7, "margin": 0.4, "normalize": "lipschitz"}],
        "soft_triple": [{}, {"gamma": 1.0, "weight_reg_weight": 0.2}],
        "proxy_nca": [{}, {"temperature": 0.03}],
        "proxy_anchor": [{}, {"alpha": 16.0, "normalize": "lipschitz"}],
        "proxy_gml": [{"ratio": 0.3}, {"ratio": 0.3, "proxy_weight": 0.0}],
    },
    "unseen": {
        "c1": [{}, {"margin": 0.2}],
        "c2": [{}, {"pos_margin": 0.2652, "neg_margin": 0.5409}],
        "triplet": [{}, {"margin": 0.3}],
        "ms": [{}, {"alpha": 14.35, "beta": 75.83, "base": 0.66}],
        "rll": [{}, {"alpha": 1.0, "margin": 0.2}],
        "soft_triple": [{}, {"gamma": 1.0, "weight_reg_weight": 0.2}],
        "proxy_nca": [{}, {"temperature": 0.3}],
        "proxy_anchor": [{}, {"alpha": 16.0}],
        "proxy_gml": [{"ratio": 0.4}, {"ratio": 0.4, "proxy_weight": 0.0}],
    },
}
RATES = (1e-3, 3e-3)
# The choice: (which of the two settings, learning rate).
CHOSEN: dict[str, dict[str, tuple[int, float]]] = {
    "2d": {
        "c1": (0, 3e-3), "c2": (1, 3e-3), "triplet": (1, 3e-3), "ms": (1, 3e-3), "rll": (1, 3e-3),
        "soft_triple": (1, 3e-3), "proxy_nca": (0, 3e-3), "proxy_anchor": (1, 3e-3), "proxy_gml": (0, 3e-3),
    },
    "unseen": {
        "c1": (1, 3e-3), "c2": (1, 3e-3), "triplet": (1, 3e-3), "ms": (0, 3e-3), "rll": (0, 3e-3),
        "soft_triple": (1, 3e-3), "proxy_nca": (1, 3e-3), "proxy_anchor": (1, 3e-3), "proxy_gml": (0, 3e-3),
    },
}  # fmt: skip
# Proxies of each class, as the papers have them.
PROXIES = {"soft_triple": 10, "proxy_nca": 1, "proxy_anchor": 1, "proxy_gml": 12}
STEPS = {"2d": 1500, "unseen": 800}


def candidate(task: str, loss: str, which: int, rate: float) -> Experiment:
    """A loss alone on a task ("2d" or "unseen") with one of its two settings and a learning rate, for the small net.

    A pair loss sees the pairs of the batch; a loss that owns proxies starts them at random and gives them ten times the
    learning rate.
    """
    owner = owns_its_proxies(loss)
    plane = task == "2d"
    return Experiment(
        name=f"mnist-{task}-{loss.replace('_', '-')}",
        method="proxy" if owner else "pairs",
        steps=STEPS[task],
        evaluate_every=50,
        stop_patience=0,
        sample_size=1000,
        data=Data(
            train_classes=0 if plane else 5,
            classes_per_batch=10 if plane else 5,
            samples_per_class=12 if plane else 24,
        ),
        network=Network(name="small", embedding_size=2 if plane else 64, precision="float32"),
        loss=Loss(loss, CANDIDATES[task][loss][which]),
        projections=Projections(
            proxies_per_class=PROXIES.get(loss, 4), pool_size=16, start="random" if owner else "samples"
        ),
        optimizer=Optimizer(learning_rate=rate, proxy_multiplier=10.0),
    )


def alone(task: str, loss: str) -> Experiment:
    """The chosen candidate of a loss on a task."""
    return candidate(task, loss, *CHOSEN[task][loss])


def with_ccp(task: str, loss: str) -> Experiment:
    """The same with alternating projections: proxies chosen by K-Center from samples, again and again."""
    base = alone(task, loss)
    name, k = f"{base.name}-ccp", base.projections.proxies_per_class
    return base.replace(name=name, method="ccp", projections=Projections(proxies_per_class=k, pool_size=16))


def with_memory(task: str, loss: str) -> Experiment:
    """The same with the embeddings of the last 20 batches as further references, from the 100th step on."""
    base = alone(task, loss)
    return base.replace(name=f"{base.name}-xbm", memory=Memory(size=20 * 120, warmup_steps=100))


def _presets() -> dict[str, Callable[[], Experiment]]:
    presets: dict[str, Callable[[], Experiment]] = {}
    for task in ("2d", "unseen"):
        for loss in LOSSES:
            name = f"mnist-{task}-{loss.replace('_', '-')}"
            presets[name] = partial(alone, task, loss)
            if task == "unseen":
                presets[f"{name}-ccp"] = partial(with_ccp, task, loss)
                if not owns_its_proxies(loss):
                    presets[f"{name}-xbm"] = partial(with_memory, task, loss)
    return presets


LOSS_PRESETS = _presets()
