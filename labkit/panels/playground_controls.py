"""The playground's controls, in two groups: what acts at once, and what restarts the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import ipywidgets

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
_PULL = "λ, pull towards the weights at the end of the last problem"
_WIDE = {"width": "auto"}
_STYLE = {"description_width": "96px"}


def _log(low: float, high: float, **more: Any) -> Any:
    return ipywidgets.FloatLogSlider(
        base=10, min=low, max=high, step=0.05, readout_format=".2g", continuous_update=False, layout=_WIDE, style=_STYLE, **more
    )


def _whole(low: int, high: int, **more: Any) -> Any:
    return ipywidgets.IntSlider(min=low, max=high, continuous_update=False, layout=_WIDE, style=_STYLE, **more)


def _menu(options: Mapping[str, str], known: Iterable[str], **more: Any) -> Any:
    pairs = [(options.get(name, name), name) for name in known]
    return ipywidgets.Dropdown(options=pairs, layout=_WIDE, style=_STYLE, **more)


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
            "optimizer.learning_rate": _log(-5, 0, description="Learning rate"),
            "projections.projection_weight": _log(-6, 2, description="λ (pull back)"),
            "projections.patience": _whole(1, 40, description="Patience"),
            "projections.pool_size": _whole(1, 64, description="Pool size"),
            "projections.selection": ipywidgets.Dropdown(
                options=[("K-Center", "k_center"), ("random", "random")], description="Selection", layout=_WIDE, style=_STYLE
            ),
        }
        self.cold: dict[str, Any] = {
            "method": _menu(METHOD_LABELS, METHODS, description="Method"),
            "loss.name": _menu(LOSS_LABELS, [*self._own, *LOSS_LABELS], description="Loss"),
            "projections.proxies_per_class": _whole(1, 16, description="Proxies K"),
            "loss.options.normalize": ipywidgets.Dropdown(
                options=[("into the ball", "lipschitz"), ("onto the circle", "l2"), ("none", _NONE)],
                description="Normalisation", layout=_WIDE, style=_STYLE,
            ),
            "network.name": _menu(NETWORK_LABELS, NETWORKS, description="Network"),
            "data.source": _menu(SOURCE_LABELS, SOURCES, description="Data"),
            "seed": ipywidgets.BoundedIntText(min=0, max=2**31 - 1, description="Seed", layout=_WIDE, style=_STYLE),
        }  # fmt: skip
        self.cold["loss.name"].tooltip = "Loss; (own): it brings proxies of its own"
        for setting, widget in self.hot.items():
            self._listen(setting, widget, self._moved)
        for setting, widget in self.cold.items():
            self._listen(setting, widget, self._replaced)
        self._hot_grid = _grid()
        self._arrange()
        parts = [_group("Acts at once", _WHEN, self._hot_grid), _group("Restarts", "", _grid(self.cold.values()))]
        self.box = ipywidgets.HBox(parts, layout={"flex_flow": "row wrap", "grid_gap": "4px 20px", "overflow": "hidden"})

    def _arrange(self) -> None:
        for setting, widget in self.hot.items():
            name = _PULL if setting == "projections.projection_weight" else widget.description
            widget.tooltip = f"{name}: acts {acts(setting)}"
        self._hot_grid.children = tuple(self.hot.values())

    def _listen(self, setting: str, widget: Any, does: Callable[[str, Any], None]) -> None:
        widget.observe(lambda change: None if self._quiet else does(setting, change["new"]), names="value")

    def _moved(self, setting: str, value: Any) -> None:
        if isinstance(value, float):
            value = float(f"{value:.2g}")
        self._change(setting, value)

    def _replaced(self, setting: str, value: Any) -> None:
        changes = {setting: None if value == _NONE and setting == "loss.options.normalize" else value}
        if setting == "loss.name" and value not in self._own:
            changes = {"loss": {"name": value, "options": dict(CANDIDATES["2d"][value][-1])}}
            if owns_its_proxies(value):
                changes |= {"projections.proxies_per_class": PROXIES[value], "projections.pair_weight": 0.0}
        if "projections.proxies_per_class" in changes:  # K of a pool of fewer cannot be chosen
            pool = self.hot["projections.pool_size"].value
            changes["projections.pool_size"] = max(pool, changes["projections.proxies_per_class"])
        self._restart(changes)

    # ------------------------------------------------------------ what is in force

    def show(self, snapshot: Snapshot, own_loss: str, *, force: bool = False) -> None:
        """Set the widgets to a snapshot's settings; only those that changed since the last one, unless forced."""
        with self._silence():
            if set(snapshot.options) != {name.removeprefix(OPTION) for name in self.hot if name.startswith(OPTION)}:
                self._offer(snapshot.options)
            for setting, widget in (*self.hot.items(), *self.cold.items()):
                value = self._value(snapshot, setting, own_loss)
                if force or setting not in self._shown or self._shown[setting] != value:
                    self._shown[setting] = value
                    _set(widget, value)
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
            self.hot.pop(setting).close()
            self._shown.pop(setting, None)
        for name, value in options.items():
            setting = OPTION + name
            label = named(setting).capitalize()
            if "margin" in name:
                widget = ipywidgets.FloatSlider(
                    value=value, min=min(0.0, value), max=max(2.0, value), step=0.01, description=label,
                    continuous_update=False, layout=_WIDE, style=_STYLE,
                )  # fmt: skip
            else:
                widget = ipywidgets.FloatText(value=value, description=label, layout=_WIDE, style=_STYLE)
            self.hot[setting] = widget
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


def _set(widget: Any, value: Any) -> None:
    if hasattr(widget, "min") and isinstance(value, (int, float)):
        logarithmic = isinstance(widget, ipywidgets.FloatLogSlider)
        low, high = (10**widget.min, 10**widget.max) if logarithmic else (widget.min, widget.max)
        value = min(max(value, low), high)
    widget.value = value


def _grid(widgets: Iterable[Any] = ()) -> Any:
    columns = "repeat(auto-fill, minmax(225px, 1fr))"
    return ipywidgets.GridBox(tuple(widgets), layout={"grid_template_columns": columns, "grid_gap": "0 10px"})


def _group(title: str, note: str, grid: Any) -> Any:
    head = ipywidgets.HTML(f'<b>{title}</b> <span style="color:#555;font-size:11px">{note}</span>')
    return ipywidgets.VBox([head, grid], layout={"flex": "1 1 480px", "overflow": "hidden"})
