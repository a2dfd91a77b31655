"""The playground's controls, in two groups: what acts at once, and what restarts the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import ipywidgets

from labkit.panels.common import close_all
from labkit.panels.control_widgets import field, grid, group, log_slider, menu, put, slider, typed, whole_slider
from labkit.panels.playground_losses import maker_of
from labkit.training.controls import OPTION, acts, named
from labkit.training.experiment import METHODS, Experiment
from labkit.training.live_run import Snapshot
from labkit.training.presets_losses import CANDIDATES, PROXIES
from labkit.training.registry import owns_its_proxies
from labkit.training.sections import NETWORKS, SOURCES

LOSS_LABELS = {
    "c2": "C2: contrastive",
    "c1": "C1: cosines",
    "triplet": "Triplet",
    "ms": "Multi-similarity",
    "rll": "Ranked list",
    "soft_triple": "SoftTriple (own)",
    "proxy_nca": "ProxyNCA++ (own)",
    "proxy_anchor": "ProxyAnchor (own)",
    "proxy_gml": "ProxyGML (own)",
}
METHOD_LABELS = {
    "ccp": "CCP: many problems",
    "proxy": "one proxy problem",
    "samples": "samples as proxies",
    "pairs": "pairs, no proxies",
}
NETWORK_LABELS = {"small": "small, fast", "resnet20v2": "ResNet20 v2, slow"}
SOURCE_LABELS = {
    "auto": "best that is here", "mnist": "MNIST", "mnist-5k": "5,000 of MNIST", "digits-8x8": "digits of 8 × 8",
}  # fmt: skip
_WHEN = "at the next step; patience: next evaluation; pool, selection: next problem"
_NONE = "none"  # not None: a menu loses sight of an entry whose value is that
WAYS = [("into the ball", "lipschitz"), ("onto the circle", "l2"), ("none", _NONE)]
_LAMBDA = "projections.projection_weight"
_PULL = "λ, pull towards the weights at the end of the last problem"


class Controls:
    """Widgets under the names of the settings they stand for.

    Parameters
    ----------
    change : called as `change(setting, value)` when somebody moves a control that acts at once.
    restart : called as `restart(changes)` with the experiment's changes when somebody moves another.
    losses : names of losses of the user's own, first in the loss menu.

    Attributes
    ----------
    hot, cold : widgets by setting. box : both groups.
    """

    def __init__(
        self, change: Callable[[str, Any], None], restart: Callable[[dict[str, Any]], None], losses: Iterable[str] = ()
    ) -> None:
        self._change, self._restart = change, restart
        self._own = list(losses)
        self._shown: dict[str, Any] = {}
        self._quiet = False
        self.hot: dict[str, Any] = {
            "optimizer.learning_rate": log_slider("Learning rate", -5, 0),
            _LAMBDA: log_slider("λ (pull back)", -6, 2, zero="λ = 0 (no pull)"),
            "projections.patience": whole_slider("Patience", 1, 40),
            "projections.pool_size": whole_slider("Pool size", 1, 64),
            "projections.selection": menu("Selection", [("K-Center", "k_center"), ("random", "random")]),
        }
        self.cold: dict[str, Any] = {
            "method": menu("Method", _labelled(METHOD_LABELS, METHODS)),
            "loss.name": menu("Loss", _labelled(LOSS_LABELS, [*self._own, *LOSS_LABELS])),
            "projections.proxies_per_class": whole_slider("Proxies K", 1, 16),
            "loss.options.normalize": menu("Normalisation", WAYS),
            "network.name": menu("Network", _labelled(NETWORK_LABELS, NETWORKS)),
            "data.source": menu("Data", _labelled(SOURCE_LABELS, SOURCES)),
            "seed": field("Seed", 0, low=0, high=2**31 - 1),
        }
        self.cold["loss.name"].tooltip = "Loss; (own): it brings proxies of its own"
        for setting, widget in self.hot.items():
            self._listen(setting, widget, self._moved)
        for setting, widget in self.cold.items():
            self._listen(setting, widget, self._replaced)
        self._hot_grid = grid()
        self._arrange()
        parts = [group("Acts at once", _WHEN, self._hot_grid), group("Restarts", "", grid(self.cold.values()))]
        self.box = ipywidgets.HBox(parts, layout={"flex_flow": "row wrap", "grid_gap": "4px 20px", "overflow": "hidden"})

    def _arrange(self) -> None:
        for setting, widget in self.hot.items():
            name = _PULL if setting == _LAMBDA else widget.description
            widget.tooltip = f"{name}: acts {acts(setting)}"
        self._hot_grid.children = tuple(self.hot.values())

    def _listen(self, setting: str, widget: Any, does: Callable[[str, Any], None]) -> None:
        widget.observe(lambda change: None if self._quiet else does(setting, change["new"]), names="value")

    def _moved(self, setting: str, value: Any) -> None:
        self._change(setting, typed(self.hot[setting], value))

    def _replaced(self, setting: str, value: Any) -> None:
        changes = {setting: None if value == _NONE and setting == "loss.options.normalize" else value}
        if setting == "loss.name" and value not in self._own:
            changes = {"loss": {"name": value, "options": dict(CANDIDATES["2d"][value][-1])}}
            if owns_its_proxies(value):
                changes |= {"projections.proxies_per_class": PROXIES[value], "projections.pair_weight": 0.0}
        if "projections.proxies_per_class" in changes:  # K of a pool of fewer cannot be chosen
            pool = self._shown["projections.pool_size"]
            changes["projections.pool_size"] = max(pool, changes["projections.proxies_per_class"])
        self._restart(changes)

    # ------------------------------------------------------------ what is in force

    def show(self, snapshot: Snapshot, *, force: bool = False) -> None:
        """Set the widgets to a snapshot's settings; only those that changed since the last one, unless forced."""
        own_loss = maker_of(snapshot).own_loss
        with self._silence():
            if set(snapshot.options) != {name.removeprefix(OPTION) for name in self.hot if name.startswith(OPTION)}:
                self._offer(snapshot.options)
            for setting, widget in (*self.hot.items(), *self.cold.items()):
                value = self._value(snapshot, setting, own_loss)
                if force or setting not in self._shown or self._shown[setting] != value:
                    self._shown[setting] = value
                    put(widget, value)
            self._forbid(snapshot.settings, own_loss)

    @contextmanager
    def _silence(self) -> Any:
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _value(self, snapshot: Snapshot, setting: str, own_loss: str) -> Any:
        if setting == "loss.name":
            return own_loss or snapshot.settings.loss.name
        if setting == "loss.options.normalize":
            return snapshot.settings.loss.options.get("normalize", _normalize_of(snapshot.settings)) or _NONE
        if setting.startswith(OPTION):
            return snapshot.options[setting.removeprefix(OPTION)]
        section, _, name = setting.rpartition(".")
        return getattr(getattr(snapshot.settings, section) if section else snapshot.settings, name)

    def _offer(self, options: Mapping[str, float]) -> None:
        """Controls for the margins and scales that the loss has."""
        for setting in [s for s in self.hot if s.startswith(OPTION)]:
            close_all(self.hot.pop(setting))
            self._shown.pop(setting, None)
        for name, value in options.items():
            setting = OPTION + name
            label = named(setting).capitalize()
            widget = self.hot[setting] = slider(label, 0.0, 2.0) if "margin" in name else field(label, value)
            self._listen(setting, widget, self._moved)
        self._arrange()

    def _forbid(self, settings: Experiment, own_loss: str) -> None:
        """Grey out what the method or the loss does not have."""
        for setting, widget in self.hot.items():
            section, _, name = setting.partition(".")
            widget.disabled = section == "projections" and (
                settings.method == "pairs" or (settings.method == "proxy" and name == "patience")
            )
        self.cold["loss.options.normalize"].disabled = bool(own_loss)
        self.cold["projections.proxies_per_class"].disabled = settings.method == "pairs"


def _normalize_of(settings: Experiment) -> str | None:
    """The normalisation that the experiment's loss has by default."""
    from labkit.training.registry import build_loss

    value: str | None = getattr(build_loss(settings), "normalize", None)
    return value


def _labelled(labels: Mapping[str, str], known: Iterable[str]) -> list[tuple[str, str]]:
    """Entries of a menu: each name that is known, under its label where it has one."""
    return [(labels.get(name, name), name) for name in known]
