"""The figures of one evaluation: retrieval on held-out pictures, geometry on the recorded sample."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from labkit.datasets import ImageSet, PhotoSplits, Splits
from labkit.losses.contrastive import MARGINS
from labkit.metrics import (
    covering_summary,
    inter_class_distance,
    mean_covering_curve,
    nmi,
    proxy_spread,
    retrieval_metrics,
    violation_rate,
)
from labkit.training.world import World


def retrieval_figures(
    embeddings: Tensor, labels: Tensor, gallery: tuple[Tensor, Tensor] | None = None, ks: tuple[int, ...] = (1,)
) -> dict[str, float]:
    """MAP@R, P@1 and P@R of each sample among the others, or among a gallery (embeddings, labels); Recall@k for k > 1."""
    reference, reference_labels = gallery or (None, None)
    figures = retrieval_metrics(embeddings, labels, reference, reference_labels, ks)
    names = ["map_at_r", "p_at_1", "p_at_r", *(f"recall_at_{k}" for k in ks if k > 1)]
    return {name: float(figures[name]) for name in names}


def geometry_figures(embeddings: Tensor, labels: Tensor, proxies: Tensor | None, loss: nn.Module) -> dict[str, float]:
    """Covering of the classes by their proxies, proxy spread, inter-class distance, and the chance constraint.

    Parameters
    ----------
    embeddings : (n, D) normalised, labels : (n,).
    proxies : (C, K, D) normalised; None leaves the covering and the spread out.
    loss : its `pos_margin` and `neg_margin`, or C2's defaults where it has none, set the constraint: beta is their
        middle, alpha half their difference (equation 4.2). Without room between them, `violation` and `surrogate` are NaN.
    """
    figures: dict[str, float] = {}
    if proxies is not None:
        owners = torch.arange(proxies.shape[0]).repeat_interleave(proxies.shape[1])
        covered = labels < len(proxies)  # classes never trained on have no proxies
        covering = covering_summary(embeddings[covered], labels[covered], proxies.flatten(0, 1), owners)
        figures["covering_mean"] = covering.covering_mean
        figures["covering_q95"] = covering.covering_q95
        figures["covering_max"] = covering.covering_max
        figures["proxy_spread"] = proxy_spread(proxies)
    figures["inter_class_distance"] = inter_class_distance(embeddings, labels)
    low, high = (getattr(loss, name, default) for name, default in zip(("pos_margin", "neg_margin"), MARGINS, strict=True))
    figures["violation"] = figures["surrogate"] = math.nan
    if high > low:
        constraint = violation_rate(embeddings, labels, beta=(low + high) / 2, alpha=(high - low) / 2)
        figures["violation"], figures["surrogate"] = constraint.probability, constraint.surrogate
    return figures


class Evaluator:
    """Looks at the network: where the recorded sample lies, and how good retrieval is among other pictures.

    Parameters
    ----------
    embed : bytes (n, c, h, w) -> normalised embeddings (n, D).
    sample : the recorded pictures. loss : as in `geometry_figures`.
    world : the processes that share the embedding; the main one computes the figures.
    seen : test pictures of the training classes, where others are judged.
    """

    def __init__(
        self,
        embed: Callable[[Tensor], Tensor],
        sample: ImageSet,
        loss: nn.Module,
        world: World,
        seen: ImageSet | None = None,
    ) -> None:
        self.embed, self.sample, self.loss, self.world, self.seen = embed, sample, loss, world, seen

    def look(self, judged: ImageSet, proxies: Tensor | None) -> tuple[Tensor, dict[str, float]]:
        """Embeddings (n, D) of the sample, and all figures: retrieval among `judged`, geometry on the sample."""
        embeddings, held_out = self.embed(self.sample.images), self.embed(judged.images)

        def figures() -> dict[str, float]:
            retrieval = retrieval_figures(held_out, judged.labels)
            return retrieval | geometry_figures(embeddings, self.sample.labels, proxies, self.loss)

        return embeddings, self.world.on_main(figures)

    def sides(self, embeddings: Tensor, classes: int) -> dict[str, float]:
        """MAP@R within the recorded sample: `seen` among the training classes (labels below `classes`), `unseen` among
        the others. Nothing where there are no others."""
        return self.world.on_main(lambda: self._sides(embeddings, classes))

    def _sides(self, embeddings: Tensor, classes: int) -> dict[str, float]:
        if self.seen is None:
            return {}
        labels, result = self.sample.labels, {}
        for name, chosen in (("seen_map_at_r", labels < classes), ("unseen_map_at_r", labels >= classes)):
            result[name] = retrieval_figures(embeddings[chosen], labels[chosen])["map_at_r"]
        return result

    def judge(self, splits: Splits, proxies: Tensor | None) -> dict[str, float]:
        """The figures of a finished run on the test pictures; those of the training classes are named `seen_…`.

        Of photographs there are Recall@2, 4, 8 and the mean of the k-Center curves as well, and the gallery is searched
        where there is one.
        """
        test, photos, gallery = splits.test, isinstance(splits, PhotoSplits), getattr(splits, "gallery", None)
        embeddings, sample = self.embed(test.images), self.embed(self.sample.images)
        among = None if gallery is None else (self.embed(gallery.images), gallery.labels)
        others = None if self.seen is None else (self.embed(self.seen.images), self.seen.labels)

        def figures() -> dict[str, float]:
            found = retrieval_figures(embeddings, test.labels, among, (1, 2, 4, 8) if photos else (1,))
            found |= geometry_figures(sample, self.sample.labels, proxies, self.loss)
            found["nmi"] = nmi(embeddings, test.labels)
            if photos:
                found["covering_curve_mean"] = mean_covering_curve(embeddings, test.labels).mean
            seen = {} if others is None else retrieval_figures(*others)
            return found | {f"seen_{name}": value for name, value in seen.items()}

        return self.world.on_main(figures)
