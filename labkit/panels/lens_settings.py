"""What `LossLens` offers: the losses with the settings that sliders move, the scenes, and the presets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from torch import nn

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
from labkit.plots.reading import Floats, Ints


@dataclass(frozen=True)
class Setting:
    """One slider: the loss's attribute, what is written beside it, its range, and whether it goes by powers of ten."""

    attribute: str
    text: str
    low: float
    high: float
    step: float
    log: bool = False


@dataclass(frozen=True)
class Kind:
    """A loss of the menu: how it is made for C classes of K references, and its sliders."""

    make: Callable[[int, int], nn.Module]
    settings: tuple[Setting, ...]


def _range(attribute: str, text: str, low: float, high: float, step: float) -> Setting:
    return Setting(attribute, text, low, high, step)


def _powers(attribute: str, text: str, low: float, high: float) -> Setting:
    return Setting(attribute, text, math.log10(low), math.log10(high), 0.05, log=True)


KINDS: dict[str, Kind] = {
    "C1 · contrastive on cosines": Kind(
        lambda c, k: CosineContrastiveLoss(), (_range("margin", "margin m", -1.0, 1.0, 0.05),)
    ),
    "C2 · contrastive on distances": Kind(
        lambda c, k: ContrastiveLoss(neg_margin=0.7),
        (_range("pos_margin", "margin m⁺", 0.0, 1.0, 0.02), _range("neg_margin", "margin m⁻", 0.0, 2.0, 0.02)),
    ),
    "Triplet": Kind(lambda c, k: TripletLoss(), (_range("margin", "margin m", 0.0, 1.0, 0.02),)),
    "Multi-similarity": Kind(
        lambda c, k: MultiSimilarityLoss(),
        (_powers("alpha", "α (pull)", 0.5, 100), _powers("beta", "β (push)", 0.5, 100),
         _range("base", "λ (base)", -1.0, 1.0, 0.05)),
    ),
    "Ranked list": Kind(
        lambda c, k: RankedListLoss(),
        (_range("alpha", "α", 0.0, 2.0, 0.02), _range("margin", "margin m", 0.0, 2.0, 0.02),
         _range("temperature", "T", 0.0, 50.0, 0.5), _range("weight", "λ (weight)", 0.0, 5.0, 0.1)),
    ),
    "SoftTriple": Kind(
        lambda c, k: SoftTripleLoss(c, 2, k),
        (_range("la", "λ (scale)", 0.0, 60.0, 1.0), _powers("gamma", "γ", 1e-3, 100),
         _range("margin", "δ", 0.0, 1.0, 0.01)),
    ),
    "ProxyNCA++": Kind(lambda c, k: ProxyNCALoss(c, 2, k), (_powers("temperature", "T", 0.01, 10),)),
    "ProxyAnchor": Kind(
        lambda c, k: ProxyAnchorLoss(c, 2, proxies_per_class=k),
        (_powers("alpha", "α", 0.5, 100), _range("margin", "δ", -0.5, 0.9, 0.02)),
    ),
    "ProxyGML": Kind(
        lambda c, k: ProxyGMLLoss(c, 2, k, ratio=1.0 if c == 2 else round(2 / c, 2)),
        (_range("ratio", "r (ratio)", 0.01, 1.0, 0.01),),
    ),
}  # fmt: skip


def _circle(*degrees: float, radius: float = 1.0) -> Floats:
    turn = np.radians(degrees)
    points: Floats = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return points


# Every class has as many references as the others, so that losses with proxies can take them as theirs.
SCENES: dict[str, tuple[Floats, Ints]] = {
    "three classes, two references each": (_circle(80, 20, 170, 140, 280, 320), np.array([0, 0, 1, 1, 2, 2])),
    "the same, inside the unit ball": (_circle(80, 20, 170, 140, 280, 320, radius=0.55), np.array([0, 0, 1, 1, 2, 2])),
    "two classes, one each": (_circle(60, 190), np.array([0, 1])),
    "a class in two places": (_circle(0, 180, 90, 270), np.array([0, 0, 1, 1])),
    "a wide class beside a tight one": (_circle(50, 75, 100, 230, 238, 246), np.array([0, 0, 0, 1, 1, 1])),
    "six classes round the circle": (_circle(*range(15, 375, 60)), np.arange(6)),
}


@dataclass(frozen=True)
class LensPreset:
    """A state of the lens that shows something, and what."""

    loss: str
    scene: str
    settings: dict[str, float] = field(default_factory=dict)
    probe: tuple[float, float] = (-0.3, -0.5)
    notice: str = ""
    normalize: str | None = None


_THREE, _BALL, _, _TWO_PLACES, _WIDE, _SIX = SCENES
PRESETS: dict[str, LensPreset] = {
    "C2: margins make silence": LensPreset(
        "C2 · contrastive on distances", _BALL, {"pos_margin": 0.3, "neg_margin": 0.6}, (0.2, -0.2),
        "Within m⁺ of its own class a sample is not pulled, beyond m⁻ from others not pushed. Raise m⁻: the orange zones "
        "meet, and a sample has nowhere left to be at rest.",
    ),
    "Triplet: only the difference counts": LensPreset(
        "Triplet", _BALL, {"margin": 0.1}, (-0.2, 0.5),
        "The white zone is where the own class is nearer by the margin, far beyond any fixed radius. Raise the margin: "
        "its edge moves towards the own class.",
    ),
    "Ranked list: a class keeps its shape": LensPreset(
        "Ranked list", _WIDE, {"alpha": 1.2, "margin": 0.4}, (-0.9, 0.6),
        "Near the wide class there is a sector without any pull: α − m lets a class be as wide as that. Raise the margin "
        "to α and every reference of the class pulls, to a point.",
    ),
    "Ranked list: T picks the hardest": LensPreset(
        "Ranked list", _SIX, {"temperature": 0.0}, (0.5, -0.6),
        "At T = 0 all negatives within α push alike, and opposite pushes cancel. Raise T: the nearest decides alone.",
    ),
    "SoftTriple: nearest centre or mean": LensPreset(
        "SoftTriple", _TWO_PLACES, {"gamma": 0.1}, (0.2, 0.7),
        "A class in two places: each half of the plane is pulled to its own centre. Raise γ to 10: the two centres "
        "average to nothing, and so does the pull.",
    ),
    "ProxyNCA++: a seam as narrow as T": LensPreset(
        "ProxyNCA++", _SIX, {"temperature": 1.0}, (-0.2, 0.9),
        "At T = 1 forces reach everywhere. Lower T to 0.02: only samples nearer to another class than to their own are "
        "moved, and they are moved hard.",
    ),
    "ProxyGML: few proxies act": LensPreset(
        "ProxyGML", _THREE, {"ratio": 0.5}, (-0.4, 0.3),
        "At r = 0.5 three of six proxies are in the subgraph: two of the own class and the nearest other. The force jumps "
        "where that other changes. Raise r to 1: the seams are gone.",
    ),
    "C1: the Lipschitz normalisation": LensPreset(
        "C1 · contrastive on cosines", _THREE, {"margin": 0.0}, (0.0, -0.4),
        "Inside the unit ball nothing is rescaled: arrows are the same everywhere between two boundaries. Choose l2: the "
        "same loss makes arrows that only turn and that grow towards the origin.",
        normalize="lipschitz",
    ),
}  # fmt: skip
