"""Embeddings of several snapshots on one plane, so that a sample keeps its place from one to the next."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.plots.plane import Plane
from labkit.plots.reading import Floats, Ints, float_array
from labkit.threads import threads_kept
from labkit.validation import check_choice

METHODS = ("raw", "pca", "umap", "tsne")
MOST_SNAPSHOTS, MOST_SAMPLES = 5, 500  # that umap and t-SNE lay out in about 10 s on one core
_FEWEST = 5  # samples without which neither has neighbours to work with
_EPOCHS, _ITERATIONS = 50, 500


@dataclass(frozen=True)
class Projection:
    """Where every drawn sample lies in every drawn snapshot.

    xy : (S, m, 2). snapshots : (S,) which snapshots. rows : (m,) which samples. note : what a reader must know of the axes.
    axes : names of the two axes.
    """

    xy: NDArray[np.float32]
    snapshots: Ints
    rows: Ints
    note: str
    axes: tuple[str, str]


def project(embeddings: Floats, method: str, rows: Ints | None = None, *, seed: int = 0) -> Projection:
    """Lay out (T, n, D) embeddings in the plane.

    "raw" draws the two coordinates of 2-D embeddings, "pca" the first two principal components of the last snapshot for
    all of them, which are shown whole. "umap" lays out at most five snapshots, evenly spread, with AlignedUMAP (McInnes et
    al., umap-learn), which ties each sample to itself in the next snapshot; "tsne" the same, each snapshot beginning at the
    one before it. Both show who is near whom; distances between groups and the groups' sizes mean little.

    Parameters
    ----------
    embeddings : (T, n, D). method : one of "raw", "pca", "umap", "tsne". rows : samples to lay out; None: all, for umap
        and t-SNE the first 500. seed : of umap and t-SNE.

    Raises
    ------
    LabError : another method, "raw" with D other than 2, or fewer than five samples for umap or t-SNE.
    """
    x = float_array("embeddings", embeddings, "T, n, D")
    check_choice("method", method, METHODS)
    snapshots = np.arange(len(x))
    chosen = np.arange(x.shape[1]) if rows is None else np.asarray(rows)
    if method == "raw":
        if x.shape[2] != 2:
            raise LabError("method", '"pca", "umap" or "tsne" for embeddings of another width than 2', '"raw"')
        return Projection(x[:, chosen].astype(np.float32), snapshots, chosen, "", ("coordinate 1", "coordinate 2"))
    if method == "pca":
        plane = Plane.of(x[-1])
        axes = (
            ("principal component 1", "principal component 2") if plane.projected else ("coordinate 1", "coordinate 2")
        )
        return Projection(plane(x[:, chosen]).astype(np.float32), snapshots, chosen, plane.note, axes)
    chosen = chosen[:MOST_SAMPLES] if rows is None else chosen
    if len(chosen) < _FEWEST:
        raise LabError("embeddings", f"at least {_FEWEST} samples for {method}", len(chosen))
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_SNAPSHOTS)).round().astype(int))
    parts = [x[at][chosen] for at in kept]
    with threads_kept():
        xy = _umap(parts, seed) if method == "umap" else _tsne(parts, seed)
    name = "UMAP" if method == "umap" else "t-SNE"
    note = f"{name} of {len(chosen)} samples: near means alike; how far apart groups lie, and how large they are, means little"
    return Projection(np.stack(xy).astype(np.float32), kept, chosen, note, (f"{name} 1", f"{name} 2"))


def _umap(parts: list[Floats], seed: int) -> list[Floats]:
    import umap

    neighbours = min(15, len(parts[0]) - 1)
    with warnings.catch_warnings():  # of one thread, which a seed needs, and of its own deprecated calls
        warnings.simplefilter("ignore")
        if len(parts) == 1:
            single = umap.UMAP(n_neighbors=neighbours, random_state=seed)
            return [np.asarray(single.fit_transform(parts[0]), dtype=np.float64)]
        same = {i: i for i in range(len(parts[0]))}
        aligned = umap.AlignedUMAP(n_neighbors=neighbours, n_epochs=_EPOCHS, random_state=seed)
        aligned.fit(parts, relations=[same] * (len(parts) - 1))
    return [np.asarray(xy, dtype=np.float64) for xy in aligned.embeddings_]


def _tsne(parts: list[Floats], seed: int) -> list[Floats]:
    from sklearn.manifold import TSNE

    layouts: list[Floats] = []
    for part in parts:
        perplexity = min(30.0, (len(part) - 1) / 3)
        # A layout begun at the one before it, without the usual exaggeration, which would tear it apart first, stays near it.
        begun = {"init": layouts[-1].astype(np.float32), "early_exaggeration": 1.0} if layouts else {"init": "random"}
        tsne = TSNE(perplexity=perplexity, max_iter=_ITERATIONS, random_state=seed, n_jobs=1, **begun)
        layouts.append(np.asarray(tsne.fit_transform(part.astype(np.float32)), dtype=np.float64))
    return layouts
