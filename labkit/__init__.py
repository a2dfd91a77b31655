"""labkit: an interactive lab for deep metric learning. See how an embedding space learns.

The names below are loaded when they are first used, so that `import labkit` costs next to nothing on top of torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError

if TYPE_CHECKING:
    from labkit.ccp import AlternatingProjections
    from labkit.datasets import load_digits
    from labkit.geometry import lipschitz_normalize, pairwise_distance
    from labkit.losses import ContrastiveLoss
    from labkit.metrics import covering_curve, covering_radius, nmi, retrieval_metrics, violation_rate
    from labkit.models import ResNet20V2
    from labkit.selection import greedy_k_center
    from labkit.training import Experiment, Recording, Trainer

__version__ = "0.1.0"

_HOME = {
    "AlternatingProjections": "labkit.ccp",
    "ContrastiveLoss": "labkit.losses",
    "Experiment": "labkit.training",
    "Recording": "labkit.training",
    "ResNet20V2": "labkit.models",
    "Trainer": "labkit.training",
    "covering_curve": "labkit.metrics",
    "covering_radius": "labkit.metrics",
    "greedy_k_center": "labkit.selection",
    "lipschitz_normalize": "labkit.geometry",
    "load_digits": "labkit.datasets",
    "nmi": "labkit.metrics",
    "pairwise_distance": "labkit.geometry",
    "retrieval_metrics": "labkit.metrics",
    "violation_rate": "labkit.metrics",
}

__all__ = [
    "AlternatingProjections",
    "ContrastiveLoss",
    "Experiment",
    "LabError",
    "Recording",
    "ResNet20V2",
    "Trainer",
    "covering_curve",
    "covering_radius",
    "greedy_k_center",
    "lipschitz_normalize",
    "load_digits",
    "nmi",
    "pairwise_distance",
    "retrieval_metrics",
    "violation_rate",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its room on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
