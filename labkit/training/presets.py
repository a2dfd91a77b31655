"""Experiments by name. A preset is a function, so that looking at the names builds nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.training.experiment import METHODS, Experiment
from labkit.training.presets_images import IMAGE_PRESETS
from labkit.training.presets_losses import LOSS_PRESETS, PROXIES
from labkit.training.registry import owns_its_proxies
from labkit.training.sections import Data, Loss, Network, Optimizer, Projections

# For each pair loss the settings that differ from its defaults on the plane. Ten classes on the unit circle leave
# 0.62 between neighbours, so that C2's negative margin of 0.7 asks for all of the room there is. The losses on
# similarities want the inside of the circle too (the Lipschitz normalisation, the CCP paper's own): 800 steps of the
# small net with CCP (seed 0) gave a test MAP@R of .82 with these settings of multi-similarity against .10 with its defaults, and
# .22 against .10 for C1, whose many negatives outweigh its positives on the plane whatever the margin.
MNIST_LOSSES: dict[str, dict[str, Any]] = {
    "c2": {"neg_margin": 0.7},
    "c1": {"margin": 0.0, "normalize": "lipschitz"},
    "triplet": {},
    "ms": {"beta": 5.0, "normalize": "lipschitz"},
    "soft_triple": {},
    "proxy_nca": {},
    "proxy_anchor": {},
    "proxy_gml": {"ratio": 0.3},
}


def mnist_2d(method: str, loss: str = "c2", name: str = "") -> Experiment:
    """The proof of concept at full size: ResNet20 v2, 2-D, four proxies per class, a pool of 16."""
    return Experiment(
        name=name or f"mnist-2d-{method}",
        method=method,
        steps=2000,
        evaluate_every=25,
        data=Data(source="auto", augmentation="affine", classes_per_batch=10, samples_per_class=12),
        network=Network(name="resnet20v2", embedding_size=2),
        loss=Loss(name=loss, options=MNIST_LOSSES[loss]),
        projections=Projections(proxies_per_class=PROXIES.get(loss, 4), pool_size=16),
        optimizer=Optimizer(learning_rate=2e-3, proxy_multiplier=10.0 if owns_its_proxies(loss) else 1.0),
    )


def poc(method: str, name: str = "") -> Experiment:
    """One run of the proof of concept, less than half a minute: the small net on the digits that a package carries.

    The margin is the loss's default, 0.5: with 0.7 this net does not get away from the start in so few steps.
    """
    return Experiment(
        name=name or f"poc-{method}",
        method=method,
        steps=1500,
        evaluate_every=25,
        sample_size=1000,
        data=Data(source="mnist-5k", augmentation="affine", classes_per_batch=10, samples_per_class=12),
        network=Network(name="small", embedding_size=2, precision="float32"),
        loss=Loss(name="c2"),
        projections=Projections(proxies_per_class=4, pool_size=16),
        optimizer=Optimizer(learning_rate=3e-3),
    )


def _with_loss(loss: str, method: str) -> tuple[str, Callable[[], Experiment]]:
    name = f"mnist-2d-{loss.replace('_', '-')}-{method}"
    return name, partial(mnist_2d, method, loss, name)


PRESETS: dict[str, Callable[[], Experiment]] = {
    **{f"mnist-2d-{method}": partial(mnist_2d, method) for method in METHODS},
    **dict(_with_loss(loss, method) for loss in ("c1", "triplet", "ms") for method in METHODS),
    **dict(_with_loss(loss, method) for loss in PROXIES for method in ("ccp", "proxy")),
    **LOSS_PRESETS,
    **IMAGE_PRESETS,
    **{f"poc-{method}": partial(poc, method) for method in METHODS},
}
