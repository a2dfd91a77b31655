"""Layouts of several snapshots: raw and principal components exactly, UMAP and t-SNE by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.plots.plane import Plane
from labkit.plots.projections import MOST_SNAPSHOTS, project


def film(snapshots=3, n=36, size=4, classes=3):
    """Well separated classes that drift a little from snapshot to snapshot."""
    random = np.random.default_rng(0)
    labels = np.arange(n) % classes
    start = 8 * np.eye(classes, size)[labels] + 0.3 * random.normal(size=(n, size))
    return np.stack([start + 0.1 * t for t in range(snapshots)]), labels


def test_raw_is_the_embedding_itself():
    x, _ = film(size=2)
    layout = project(x, "raw")
    assert np.array_equal(layout.xy, x.astype(np.float32))
    assert layout.snapshots.tolist() == [0, 1, 2] and layout.rows.tolist() == list(range(36)) and layout.note == ""


def test_chosen_rows_of_all():
    x, _ = film(size=2)
    for method in ("raw", "pca"):
        layout = project(x, method, np.array([5, 2]))
        assert layout.xy == pytest.approx(x[:, [5, 2]].astype(np.float32)) and layout.rows.tolist() == [5, 2]


def test_principal_components_are_those_of_the_last_snapshot():
    x, _ = film()
    layout = project(x, "pca")
    assert layout.xy == pytest.approx(Plane.of(x[-1])(x).astype(np.float32), abs=1e-5)
    assert "principal" in layout.note and layout.axes[0] == "principal component 1"


def separation(xy, labels):
    """Mean distance to the own class's centre over the mean distance to the others'."""
    centers = np.stack([xy[labels == c].mean(0) for c in range(3)])
    distance = np.linalg.norm(xy[:, None] - centers, axis=2)
    own = distance[np.arange(len(xy)), labels]
    return own.mean() / ((distance.sum(1) - own) / 2).mean()


@pytest.mark.parametrize("method", ["umap", "tsne"])
def test_classes_stay_apart_and_samples_keep_their_place(method):
    x, labels = film()
    layout = project(x, method)
    assert layout.xy.shape == (3, 36, 2) and np.isfinite(layout.xy).all()
    assert all(separation(xy, labels) < 0.5 for xy in layout.xy)
    size = np.linalg.norm(layout.xy[0] - layout.xy[0].mean(0), axis=1).mean()
    moved = np.linalg.norm(layout.xy[2] - layout.xy[1], axis=1).mean()
    assert moved < size  # shuffled places would move by about 1.4 times the size


def test_torch_keeps_its_number_of_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        project(film()[0], "umap")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_the_seed_decides():
    x, _ = film()
    assert np.array_equal(project(x, "tsne", seed=1).xy, project(x, "tsne", seed=1).xy)
    assert not np.array_equal(project(x, "tsne", seed=1).xy, project(x, "tsne", seed=2).xy)


def test_one_snapshot_and_chosen_rows():
    x, _ = film(snapshots=1)
    layout = project(x, "tsne", np.arange(0, 36, 2))
    assert layout.xy.shape == (1, 18, 2) and layout.rows.tolist() == list(range(0, 36, 2))
    assert "18 samples" in layout.note


def test_few_snapshots_are_kept_the_first_and_the_last_among_them(monkeypatch):
    monkeypatch.setattr("labkit.plots.projections._tsne", lambda parts, seed: [p[:, :2] for p in parts])
    x, _ = film(snapshots=23)
    kept = project(x, "tsne").snapshots.tolist()
    assert len(kept) == MOST_SNAPSHOTS and kept[0] == 0 and kept[-1] == 22


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((film()[0], "raw"), "method: expected"),
        ((film()[0], "isomap"), "method: expected one of"),
        ((film()[0][:, :4], "umap"), "embeddings: expected at least 5 samples"),
        ((film()[0][0], "pca"), "embeddings: expected a non-empty array"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(LabError, match=message):
        project(*arguments)
