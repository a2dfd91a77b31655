"""Metrics of an embedding space: retrieval, clustering, covering, spread, and the chance constraint.

Nothing heavy is imported here; k-means loads scikit-learn or faiss when it is called.
"""

from labkit.metrics.clustering import nmi
from labkit.metrics.constraints import ViolationRate, violation_rate
from labkit.metrics.covering import CoveringSummary, covering_curve, covering_radius, covering_summary
from labkit.metrics.pairs import inter_class_distance, proxy_spread
from labkit.metrics.retrieval import retrieval_metrics

__all__ = [
    "CoveringSummary",
    "ViolationRate",
    "covering_curve",
    "covering_radius",
    "covering_summary",
    "inter_class_distance",
    "nmi",
    "proxy_spread",
    "retrieval_metrics",
    "violation_rate",
]
