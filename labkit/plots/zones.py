"""What is active in each loss: which references pull or push a sample, and how that is called. One table for all.

A rule looks at the distances and dot products of samples and references after the loss's normalisation, and tells
which of the pairs act. In a loss of hinges a pair acts or does not. A loss of soft sums lets all of them act a little:
there the boundary is where a term turns on (`MultiSimilarityLoss`, `ProxyAnchorLoss`) or where a reference has more than
a tenth of the largest pull that the loss can make, if it stood alone for its class (`SoftTripleLoss`, `ProxyNCALoss`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from labkit.plots.probing import Scene
from labkit.plots.reading import Floats

SHARE = 0.1  # of the largest pull, above which a term of a softmax counts as active
Mask = Callable[[Any, Floats, Floats, Scene], Any]


@dataclass(frozen=True)
class Rule:
    """How a loss treats a sample and its references.

    Attributes
    ----------
    title : its name in pictures. on : "distance" or "similarity", what its formula is written in.
    mask : (loss, distances (G, M), dot products (G, M), scene) -> (G, M), whether each reference acts on each sample.
    same, other : when a reference of the own class pulls and one of another class pushes; formats of the loss as `l`.
    companion : whether a reference alone says nothing, so that profiles need another one beside it.
    notice : what to look for in its pictures.
    """

    title: str
    on: str
    mask: Mask
    same: str
    other: str
    companion: bool
    notice: str

    def texts(self, loss: Any) -> tuple[str, str]:
        """Why a reference of the own class pulls, and why one of another class pushes, with the loss's numbers."""
        numbers = {"l": loss, "near": _near(loss)}
        return self.same.format(**numbers), self.other.format(**numbers)


def _near(loss: Any) -> str:
    """Ranked list loss's boundary for positives, ProxyAnchor's for negatives."""
    if isinstance(loss, ProxyAnchorLoss):
        return f"{0 - loss.margin:g}".replace("-", "−")
    return f"{loss.alpha - loss.margin:g}" if isinstance(loss, RankedListLoss) else ""


def rule_of(loss: Any) -> Rule | None:
    """The rule of a loss or of what it was derived from; None for a loss that the table does not know."""
    return next((RULES[kind] for kind in type(loss).__mro__ if kind in RULES), None)


def active(loss: Any, distances: Floats, products: Floats, scene: Scene) -> Any:
    """(G, M) which references act on which samples; None for a loss without a rule. Arrays as in `Rule.mask`."""
    rule = rule_of(loss)
    return None if rule is None else rule.mask(loss, distances, products, scene)


def _contrastive(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    return np.where(scene.same, d > loss.pos_margin, d < loss.neg_margin)


def _cosine(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    return np.where(scene.same, s < 1 - 1e-9, s > loss.margin)


def _triplet(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    nearest = np.where(scene.same, np.inf, d).min(axis=1, keepdims=True)
    farthest = np.where(scene.same, d, -np.inf).max(axis=1, keepdims=True)
    return np.where(scene.same, d > nearest - loss.margin, d < farthest + loss.margin)


def _multi_similarity(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    return np.where(scene.same, s < loss.base, s > loss.base)


def _ranked_list(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    return np.where(scene.same, d > loss.alpha - loss.margin, d < loss.alpha)


def _proxy_anchor(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    return np.where(scene.same, s < loss.margin, s > -loss.margin)


def _soft_triple(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    by_class = s.reshape(len(s), loss.num_classes, loss.proxies_per_class)
    chosen = center_weights(by_class, loss.gamma)
    ahead = loss.margin * (np.arange(loss.num_classes) == scene.own)
    return _outstanding(_softmax(loss.la * ((chosen * by_class).sum(axis=2) - ahead)), chosen, scene)


def _proxy_nca(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    exponents = (-(d**2) / loss.temperature).reshape(len(d), loss.num_classes, loss.proxies_per_class)
    together = _softmax(exponents.reshape(len(d), -1)).reshape(exponents.shape).sum(axis=2)
    return _outstanding(together, _softmax(exponents), scene)


def _outstanding(classes: Floats, chosen: Floats, scene: Scene) -> Any:
    """(G, C·K) which proxies stand out, from a softmax over classes (G, C) and one over each class's proxies (G, C, K).

    The pull of the own class is what the softmax lacks to 1, the push of another what it gives to it.
    """
    share = classes.copy()
    share[:, scene.own] = 1 - share[:, scene.own]
    relative = chosen / chosen.max(axis=2, keepdims=True)
    return (share[:, :, None] * relative > SHARE).reshape(len(classes), -1)


def _proxy_gml(loss: Any, d: Floats, s: Floats, scene: Scene) -> Any:
    first = np.where(scene.same, np.inf, s) if loss.positive_mask else s
    chosen = np.argsort(-first, axis=1, kind="stable")[:, : loss.k]
    mask = np.zeros(s.shape, dtype=bool)
    np.put_along_axis(mask, chosen, True, axis=1)
    return mask


def _softmax(values: Floats) -> Floats:
    """Over the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    result: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return result


def center_weights(similarities: Floats, gamma: float) -> Floats:
    """SoftTriple's weights of a class's centres (…, K): softmax of similarity / gamma, with both limits of gamma."""
    gaps = similarities - similarities.max(axis=-1, keepdims=True)
    if gamma == 0:
        nearest = (gaps == 0).astype(np.float64)
        shared: Floats = nearest / nearest.sum(axis=-1, keepdims=True)
        return shared
    return _softmax(np.zeros_like(gaps) if np.isinf(gamma) else gaps / gamma)


RULES: dict[type, Rule] = {
    CosineContrastiveLoss: Rule(
        "C1, contrastive on cosines", "similarity", _cosine,
        "s < 1: always", "s > m = {l.margin:g}", False,
        "Both sides are straight lines in s: the pull never ends before s = 1, the push ends at the margin, and neither "
        "grows as things get worse.",
    ),
    ContrastiveLoss: Rule(
        "C2, contrastive on distances", "distance", _contrastive,
        "d > m⁺ = {l.pos_margin:g}", "d < m⁻ = {l.neg_margin:g}", False,
        "Straight lines with an end: beyond the margin there is silence, within it every pair pulls or pushes equally "
        "hard, however near the end it is.",
    ),
    TripletLoss: Rule(
        "Triplet", "distance", _triplet,
        "d > d(nearest other) − m, m = {l.margin:g}", "d < d(farthest own) + m, m = {l.margin:g}", True,
        "Only the difference of two distances counts: move the other reference and the zone moves with it. A sample far "
        "from everything is content as long as its own class is nearer.",
    ),
    MultiSimilarityLoss: Rule(
        "Multi-similarity", "similarity", _multi_similarity,
        "s < λ = {l.base:g} (beyond the corner)", "s > λ = {l.base:g} (beyond the corner)", False,
        "Soft hinges round λ: α bends the pull slowly, β switches the push on within a few hundredths. Of several "
        "references of a kind the hardest takes nearly all of the force.",
    ),
    RankedListLoss: Rule(
        "Ranked list", "distance", _ranked_list,
        "in P*: d > α − m = {near}", "in N*: d < α = {l.alpha:g}", False,
        "Own class inside α − m, others outside α: between the two lies a strip in which both act, and inside α − m the "
        "own class is left as it is: it keeps its shape.",
    ),
    SoftTripleLoss: Rule(
        "SoftTriple", "similarity", _soft_triple,
        "own class's share of the softmax < 0.9", "its share of the softmax > 0.1", True,
        "The pull goes to the nearest centre of the own class: between two of them there is a watershed. Where the own "
        "class leads clearly there is no force at all.",
    ),
    ProxyNCALoss: Rule(
        "ProxyNCA++", "distance", _proxy_nca,
        "own class's share of the softmax < 0.9", "its share of the softmax > 0.1", True,
        "A classifier's softmax: forces live where classes are confused and fade where the own proxy leads. A low "
        "temperature makes the seam between two classes narrow.",
    ),
    ProxyAnchorLoss: Rule(
        "ProxyAnchor", "similarity", _proxy_anchor,
        "s < δ = {l.margin:g} (beyond the corner)", "s > −δ = {near} (beyond the corner)", False,
        "Every proxy judges by itself, without a comparison: own ones pull until s passes δ, each of the others pushes "
        "until s falls below −δ, and for −δ < s < δ all of them act at once.",
    ),
    ProxyGMLLoss: Rule(
        "ProxyGML", "similarity", _proxy_gml,
        "in the subgraph", "among the {l.k} of the subgraph", True,
        "Only proxies in the sample's subgraph act. The seams are where another proxy enters it: there the force jumps. "
        "All proxies of the own class pull, the nearest as hard as the farthest.",
    ),
}  # fmt: skip
