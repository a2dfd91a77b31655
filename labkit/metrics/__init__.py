"""Metrics of an embedding space: retrieval, clustering, covering, spread, and the chance constraint.

Nothing heavy is imported here; k-means loads scikit-learn or faiss when it is called.
"""

from labkit.metrics.anchors import AnchorGap, anchor_gaps, choose_anchors
from labkit.metrics.choices import BestCover, optimal_k_center, radii_in_order, random_radii
from labkit.metrics.clustering import nmi
from labkit.metrics.constraints import ViolationRate, violation_rate
from labkit.metrics.covering import CoveringSummary, covering_curve, covering_radius, covering_summary
from labkit.metrics.pairs import inter_class_distance, proxy_spread
from labkit.metrics.retrieval import retrieval_metrics

__all__ = [
    "AnchorGap",
    "BestCover",
    "CoveringSummary",
    "ViolationRate",
    "anchor_gaps",
    "choose_anchors",
    "covering_curve",
    "covering_radius",
    "covering_summary",
    "inter_class_distance",
    "nmi",
    "optimal_k_center",
    "proxy_spread",
    "radii_in_order",
    "random_radii",
    "retrieval_metrics",
    "violation_rate",
]
