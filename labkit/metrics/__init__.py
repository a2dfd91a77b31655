"""Metrics of an embedding space: retrieval, clustering, covering, spread, and the chance constraint.

Nothing heavy is imported here; k-means loads scikit-learn or faiss when it is called.
"""

from labkit.metrics.anchors import AnchorGap, anchor_gaps, choose_anchors
from labkit.metrics.by_class import ClassFigures, class_figures
from labkit.metrics.choices import BestCover, optimal_k_center, radii_in_order, random_radii
from labkit.metrics.clustering import nmi
from labkit.metrics.constraints import ViolationRate, violation_rate
from labkit.metrics.covering import (
    CoveringSummary,
    MeanCoveringCurve,
    covering_curve,
    covering_radius,
    covering_summary,
    mean_covering_curve,
)
from labkit.metrics.domains import domain_figures, equal_rows
from labkit.metrics.pairs import inter_class_distance, proxy_spread
from labkit.metrics.retrieval import retrieval_metrics
from labkit.metrics.space import Hubness, effective_rank, hubness

__all__ = [
    "AnchorGap",
    "BestCover",
    "ClassFigures",
    "CoveringSummary",
    "Hubness",
    "MeanCoveringCurve",
    "ViolationRate",
    "anchor_gaps",
    "choose_anchors",
    "class_figures",
    "covering_curve",
    "covering_radius",
    "covering_summary",
    "domain_figures",
    "effective_rank",
    "equal_rows",
    "hubness",
    "inter_class_distance",
    "mean_covering_curve",
    "nmi",
    "optimal_k_center",
    "proxy_spread",
    "radii_in_order",
    "random_radii",
    "retrieval_metrics",
    "violation_rate",
]
