"""The nine losses on a plane, and the references that the tests of their pictures share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from labkit.losses import (
    ContrastiveLoss,
    CosineContrastiveLoss,
    MultiSimilarityLoss,
    ProxyAnchorLoss,
    ProxyGMLLoss,
    ProxyNCALoss,
    RankedListLoss,
    SoftTripleLoss,
    TripletLoss,
)

ANGLES = np.radians([80, 20, 170, 140, 280, 320])
REFERENCES = 0.8 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
LABELS = np.array([0, 0, 1, 1, 2, 2])


def nine() -> dict[str, Any]:
    """A fresh instance of each, those with proxies for 3 classes with 2 proxies each."""
    g = torch.Generator().manual_seed(3)
    return {
        "c1": CosineContrastiveLoss(),
        "c2": ContrastiveLoss(0.2, 0.7),
        "triplet": TripletLoss(0.3),
        "ms": MultiSimilarityLoss(),
        "rll": RankedListLoss(),
        "soft_triple": SoftTripleLoss(3, 2, 2, generator=g),
        "nca": ProxyNCALoss(3, 2, 2, generator=g),
        "anchor": ProxyAnchorLoss(3, 2, proxies_per_class=2, generator=g),
        "gml": ProxyGMLLoss(3, 2, 2, ratio=0.6, generator=g),
    }


NAMES = tuple(nine())


def one_value(name: str, point: Any, references: Any = REFERENCES, labels: Any = LABELS, label: int = 0) -> float:
    """The loss of one sample among references, called by hand; without ProxyGML's part that no sample changes."""
    loss = nine()[name]
    x, y = torch.tensor(np.array([point])), torch.tensor([label])
    if name in ("soft_triple", "nca", "anchor", "gml"):
        loss = loss.double()
        loss.weight.data = torch.tensor(references)
        if name == "gml":
            loss.proxy_weight = 0.0
        return float(loss(x, y).detach())
    loss.anchor = "sample"
    return float(loss(x, y, ref_emb=torch.tensor(references), ref_labels=torch.tensor(labels)))
