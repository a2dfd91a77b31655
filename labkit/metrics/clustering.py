"""Clustering quality: do k-means clusters of the embeddings agree with the classes?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from labkit.errors import LabError
from labkit.metrics.arrays import as_pair
from labkit.scaling import binary_scale, peak
from labkit.validation import check_number

_SMALL = 1 << 30  # n * C * D up to which scikit-learn's careful start is affordable


def nmi(embeddings: Any, labels: Any, seed: int = 0) -> float:
    """Normalised mutual information of k-means clusters and classes, 2 I / (H + H), k = number of classes.

    Few classes: scikit-learn's k-means with its k-means++ start. Many (thousands of product classes): faiss, 20
    iterations. The same input and seed give the same value.

    Parameters
    ----------
    embeddings : floating (n, D). labels : integer (n,). seed : whole number >= 0 of the k-means start.

    Returns
    -------
    A number in 0 … 1.

    Raises
    ------
    LabError : wrong shapes or dtypes, NaN or infinity, fewer than two classes, seed < 0.
    """
    from sklearn.metrics import normalized_mutual_info_score

    samples, classes = as_pair(embeddings, labels)
    seed = int(check_number("seed", seed, low=0, high=2**31 - 1, whole=True))
    truth = classes.cpu().numpy()
    k = np.unique(truth).size
    if k < 2:
        raise LabError("labels", "at least two classes", f"only class {truth[0]}")
    # Clusters do not depend on the scale, but k-means squares distances.
    points = (samples * binary_scale(peak(samples), samples.dtype)).cpu().numpy()
    cluster = _sklearn_clusters if points.size * k <= _SMALL else _faiss_clusters
    return float(np.clip(normalized_mutual_info_score(truth, cluster(points, k, seed)), 0.0, 1.0))


def _sklearn_clusters(points: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Threads add up the partial sums of a centre in the order they finish; one thread always gives the same sum.
    with threadpool_limits(limits=1, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters: a low NMI says so
        return KMeans(k, n_init=1, random_state=seed).fit_predict(points)


def _faiss_clusters(points: Any, k: int, seed: int) -> Any:
    import faiss

    rows = np.ascontiguousarray(points, dtype=np.float32)
    # Without the raised limit faiss would train on a sample of 256 points per cluster.
    means = faiss.Kmeans(rows.shape[1], k, niter=20, seed=seed, min_points_per_centroid=1,
                         max_points_per_centroid=len(rows))
    means.train(rows)
    return means.assign(rows)[1]
