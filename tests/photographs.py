"""Experiments on photographs that take a second, a folder to run them on, and a cache that no other test writes to."""

from __future__ import annotations

import pytest

from tests.datasets.pictures import make_folder

SMALL = {
    "steps": 6, "evaluate_every": 2, "stop_patience": 0, "sample_size": 20, "seed": 3, "photos.size": 32, "photos.side": 36,
    "data.classes_per_batch": 3, "data.samples_per_class": 2, "network.name": "small", "network.embedding_size": 8,
    "network.weights": "none", "network.pooling": "average", "network.head": "random", "projections.patience": 1,
    "projections.pool_size": 4, "projections.proxies_per_class": 2, "optimizer.learning_rate": 1e-3,
}  # fmt: skip
# A few birds in all folds: only that it works is looked at.
TINY = {
    "steps": 2, "evaluate_every": 2, "sample_size": 20, "photos.size": 16, "photos.side": 18, "network.name": "small",
    "network.weights": "none", "network.embedding_size": 4, "data.classes_per_batch": 2, "data.samples_per_class": 2,
}  # fmt: skip
# A head on features that are computed once.
FROZEN = SMALL | {
    "network.name": "timm:mobilenetv3_small_050", "network.train": "head", "network.head": "pca", "network.embedding_size": 4,
    "network.precision": "float32",
}  # fmt: skip


def eight_classes(root, each=5):
    """A folder of eight classes, c0 ... c7, half of which are trained on."""
    return make_folder(root / "pictures", [f"c{i}" for i in range(8)], each=each)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Decoded pictures and features are kept in a folder of this test's own, which may not be there yet."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def photo_folder(tmp_path, own_cache):
    """Eight classes of five pictures each, decoded into a cache of their own."""
    return eight_classes(tmp_path)
