"""Presets for photographs: every row of the CCP paper's MLRC tables, the conventional protocol, RLL and ProxyGML, on four
data sets, and the small runs that two processor cores can do. `presets_tables` holds the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.training.experiment import Experiment
from labkit.training.presets_tables import (
    BATCH,
    PAIR_OPTIONS,
    PROXY_LOSSES,
    SETTINGS,
    SOFT_TRIPLE,
    TRUNKS,
    TWO_CORES,
    VARIANTS,
)
from labkit.training.sections import Data, Loss, Memory, Network, Optimizer, Photos, Projections


def mlrc(data: str, loss: str, variant: str) -> Experiment:
    """A row of the MLRC tables: BN-Inception, 128-D, batches of 8 classes x 4, Adam at 1e-5, validated on one of four folds.

    `variant` is "" for the batch's own pairs, "xbm-s" and "xbm-l" for a memory, "ccp-s" (K = 1) and "ccp-l" for alternating
    projections, "proxy" for ccp-l's first problem alone, never re-initialised: with the same ceiling of steps, but patience
    does not end it, so that it takes all of them where ccp-l may end long before.
    """
    s = SETTINGS[data]
    ccp = variant in ("ccp-s", "ccp-l", "proxy")
    size = {"xbm-s": s.memory[0], "xbm-l": s.memory[1]}.get(variant, 0)
    return Experiment(
        name="-".join(part for part in (data, loss, variant) if part),
        method="proxy" if variant == "proxy" else "ccp" if ccp else "pairs",
        steps=s.steps,
        evaluate_every=s.every,
        stop_patience=0 if variant == "proxy" else 60,
        sample_size=1000,
        data=Data(source=data, classes_per_batch=8, samples_per_class=4),
        photos=Photos(protocol="mlrc"),
        network=Network(name="bn-inception", embedding_size=128, weights="imagenet"),
        loss=Loss(loss, _options(data, loss, variant)),
        memory=Memory(size=BATCH * size, warmup_steps=1000 if size else 0),
        projections=Projections(
            proxies_per_class=1 if variant == "ccp-s" else s.proxies, pool_size=s.pool, pair_weight=0.1 if ccp else 0.0
        ),
        optimizer=Optimizer(learning_rate=1e-5, schedule="constant", warmup_steps=0),
    )


def proxy_baseline(data: str, loss: str) -> Experiment:
    """SoftTriple, ProxyNCA++ or ProxyAnchor in the MLRC protocol: 32 classes x 1, proxies at 100 times the learning rate,
    one epoch of the embedding layer first. "soft-triple-s" has one centre a class, "soft-triple" as many as its L variant."""
    s = SETTINGS[data]
    options: dict[str, Any] = {}
    kind = loss.removesuffix("-s")
    if kind == "soft-triple":
        options = dict(zip(("la", "gamma", "weight_reg_weight", "margin"), SOFT_TRIPLE[data], strict=True))
    base = mlrc(data, "c2", "proxy")
    return base.replace(
        name=f"{data}-{loss}",
        stop_patience=60,
        data=Data(source=data, classes_per_batch=32, samples_per_class=1),
        loss=Loss(kind.replace("-", "_"), options),
        projections=Projections(
            proxies_per_class=s.centers if loss == "soft-triple" else 1, pool_size=s.pool, start="random"
        ),
        optimizer=Optimizer(
            learning_rate=1e-5, schedule="constant", warmup_steps=0, proxy_multiplier=100.0,
            head_only_steps=math.ceil(0.75 * s.pictures / BATCH),
        ),
    )  # fmt: skip


def conventional(base: Callable[[], Experiment], trunk: str) -> Experiment:
    """A preset of the MLRC tables under the conventional protocol: 512-D, average + max pooling, larger batches, trained on
    the whole first half of the classes.

    Nothing validates, so that patience does not end a run and its last weights are judged. How many steps is ours to
    choose: as many pictures as the MLRC budget has. CCP's own patience ends its problems by the figure of training
    pictures. What is counted in batches or epochs (a memory, the first epoch of the embedding layer) is so in these
    batches; where a data set has fewer classes than a batch of one picture each wants, a batch has two of each.
    """
    experiment = base()
    (name, batch), s = TRUNKS[trunk], SETTINGS[experiment.data.source]
    each = experiment.data.samples_per_class
    each *= 2 if batch // each > s.classes else 1
    return experiment.replace(
        name=f"conventional-{trunk}-{experiment.name}",
        steps=experiment.steps * BATCH // batch,
        stop_patience=0,
        photos=Photos(protocol="conventional"),
        network=Network(name=name, embedding_size=512, weights="imagenet", pooling="average+max"),
        **{
            "data.classes_per_batch": batch // each,
            "data.samples_per_class": each,
            "memory.size": experiment.memory.size // BATCH * batch,
            "optimizer.head_only_steps": math.ceil(s.pictures / batch) if experiment.optimizer.head_only_steps else 0,
        },
    )


def ranked_list(data: str, levels: str) -> Experiment:
    """RLL-H ("high") or RLL-(L,M,H) ("low+middle+high"): 60 classes x 3, three heads of 512-D, SGD with new layers at 10
    times the rate; pictures are resized to 256 x 256 and cropped to 227. A fixed number of steps, the last weights judged.
    In-shop is not in the paper: its rate and steps are SOP's."""
    s = SETTINGS[data]
    return Experiment(
        name=f"{data}-rll-{'h' if levels == 'high' else 'lmh'}",
        method="pairs",
        steps=s.rll_steps,
        evaluate_every=s.every * 10,
        stop_patience=0,
        sample_size=1000,
        data=Data(source=data, classes_per_batch=60, samples_per_class=3),
        photos=Photos(protocol="conventional", square=True, crop="plain"),
        network=Network(name="bn-inception", embedding_size=512, levels=levels, weights="imagenet"),
        loss=Loss("rll"),
        optimizer=Optimizer(
            name="sgd", learning_rate=s.rll_rate, momentum=0.9, weight_decay=1e-5, head_multiplier=10.0, schedule="constant",
            warmup_steps=0,
        ),
    )  # fmt: skip


def proxy_gml(data: str) -> Experiment:
    """ProxyGML: BN-Inception, 512-D, batches of 32, Adam at 1e-4 with proxies at 3e-2 (SOP: one a class at 3e-1, no
    regulariser), a tenth of the rate every 20 of 50 epochs, 224 pixels. The last weights are
    judged. In-shop is not in the paper: all as on CUB."""
    epoch = math.ceil(SETTINGS[data].pictures / 32)
    single = data == "sop"
    return Experiment(
        name=f"{data}-proxy-gml",
        method="proxy",
        steps=50 * epoch,
        evaluate_every=epoch,
        stop_patience=0,
        sample_size=1000,
        data=Data(source=data, classes_per_batch=32, samples_per_class=1),
        photos=Photos(protocol="conventional", size=224),
        network=Network(name="bn-inception", embedding_size=512, weights="imagenet"),
        loss=Loss("proxy_gml", {"ratio": 0.05, "proxy_weight": 0.0 if single else 0.3}),
        projections=Projections(proxies_per_class=1 if single else 12, pool_size=16, start="random"),
        optimizer=Optimizer(
            learning_rate=1e-4, proxy_multiplier=3000.0 if single else 300.0, schedule="step", step_size=20 * epoch,
            warmup_steps=0,
        ),
    )  # fmt: skip


def on_two_cores(base: Callable[[], Experiment], name: str, rate: float = 2e-5) -> Experiment:
    """A preset of CUB made small enough for two processor cores: EfficientNet-Lite0 by a package's weights with a head from
    principal components, 160 pixels, milder crops, bfloat16, Adam, proxies at a rate of 2e-3, 20 minutes or so."""
    experiment = base()
    classes, samples = experiment.data.classes_per_batch, experiment.data.samples_per_class
    if classes * samples > 32:
        classes, samples = 8, 4
    return experiment.replace(
        name=name,
        steps=600,
        evaluate_every=60,
        stop_patience=0,
        photos=Photos(protocol="mlrc", size=160, smallest=0.66),
        network=Network(name="efficientnet-lite0", embedding_size=128, weights="package", head="pca", precision="bfloat16"),
        data=Data(source="cub", classes_per_batch=classes, samples_per_class=samples),
        optimizer=Optimizer(learning_rate=rate, schedule="constant", warmup_steps=0, proxy_multiplier=2e-3 / rate),
        **{"projections.patience": 2},
    )  # fmt: skip


def nothing_trained() -> Experiment:
    """The weights as they came, with the head from principal components: one step at a rate of next to nothing, so that
    this row is judged and recorded as the others are."""
    base = on_two_cores(partial(mlrc, "cub", "c2", ""), "cub-lite0-pretrained")
    return base.replace(steps=1, evaluate_every=1, **{"optimizer.learning_rate": 1e-30, "optimizer.weight_decay": 0.0})


def _options(data: str, loss: str, variant: str) -> dict[str, Any]:
    """XBM has the embeddings as anchors: C1 divides by their number, which must not be the size of the memory."""
    options = dict(PAIR_OPTIONS[loss][data])
    return options | {"anchor": "sample"} if variant.startswith("xbm") else options


def _presets() -> dict[str, Callable[[], Experiment]]:
    presets: dict[str, Callable[[], Experiment]] = {}
    for data in SETTINGS:
        for loss in PAIR_OPTIONS:
            for variant in VARIANTS:
                name = "-".join(part for part in (data, loss, variant) if part)
                presets[name] = partial(mlrc, data, loss, variant)
        for loss in PROXY_LOSSES:
            presets[f"{data}-{loss}"] = partial(proxy_baseline, data, loss)
    for trunk in TRUNKS:
        bases = {name: base for name, base in presets.items() if not name.startswith("conv")}
        presets |= {f"conventional-{trunk}-{name}": partial(conventional, base, trunk) for name, base in bases.items()}
    for data in SETTINGS:
        presets[f"{data}-rll-h"] = partial(ranked_list, data, "high")
        presets[f"{data}-rll-lmh"] = partial(ranked_list, data, "low+middle+high")
        presets[f"{data}-proxy-gml"] = partial(proxy_gml, data)
    presets["cub-lite0-pretrained"] = nothing_trained
    for row, rate in TWO_CORES.items():
        name = f"cub-lite0-{row}"
        presets[name] = partial(on_two_cores, presets[f"cub-{row}"], name, rate)
    return presets


IMAGE_PRESETS = _presets()
