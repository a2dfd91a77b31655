"""Live panels for notebooks, the only place that needs ipywidgets. Each is loaded when it is first named."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.panels.embedding_explorer import EmbeddingExplorer
    from labkit.panels.k_center_stepper import KCenterStepper
    from labkit.panels.loss_lens import LossLens
    from labkit.panels.playground import Playground
    from labkit.panels.playground_presets import live_experiment
    from labkit.panels.run_comparison import RunComparison
    from labkit.panels.setting_grid import SettingGrid

_HOME = {
    "EmbeddingExplorer": "embedding_explorer",
    "KCenterStepper": "k_center_stepper",
    "LossLens": "loss_lens",
    "Playground": "playground",
    "RunComparison": "run_comparison",
    "SettingGrid": "setting_grid",
    "live_experiment": "playground_presets",
}

__all__ = [
    "EmbeddingExplorer",
    "KCenterStepper",
    "LossLens",
    "Playground",
    "RunComparison",
    "SettingGrid",
    "live_experiment",
]


def __getattr__(name: str) -> Any:
    """Import a panel, or what else has a name here, on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'labkit.panels' has no attribute {name!r}")
    return getattr(importlib.import_module(f"labkit.panels.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
