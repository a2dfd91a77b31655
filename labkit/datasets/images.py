"""A set of images in memory, and the three parts that every experiment needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.validation import check_labels, check_number, describe

PER_CLASS = 8  # samples that a spread sample leaves for each of its classes


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with their labels.

    Parameters
    ----------
    images : uint8 tensor (n, channels, height, width), 0 … 255.
    labels : int64 tensor (n,).

    Raises
    ------
    LabError : images of another dtype or number of dimensions, none at all, or labels of another length.
    """

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        good = isinstance(self.images, Tensor) and self.images.dtype == torch.uint8 and self.images.ndim == 4
        if not good or self.images.shape[0] == 0:
            raise LabError("images", "a uint8 tensor (n, channels, height, width), n >= 1", describe(self.images))
        object.__setattr__(self, "labels", check_labels("labels", self.labels, len(self.images), of="images"))

    def __len__(self) -> int:
        return int(self.images.shape[0])

    def subset(self, indices: Tensor) -> ImageSet:
        """The images and labels at `indices` (int64 (m,)), copied, in that order."""
        return ImageSet(self.images[indices], self.labels[indices])


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set cut into what is trained on, what the model is chosen by, and what is reported.

    Parameters
    ----------
    train, held_out, test : ImageSet. No image is in two of them.
    name : the source, e.g. "mnist".
    description : one line for the reader: which data is in use, how many images, whence.
    class_names : a name for each label, those of the training classes first.
    seen : where `test` holds other classes than `train`: test pictures of the training classes, else None.
    """

    train: ImageSet
    held_out: ImageSet
    test: ImageSet
    name: str
    description: str
    class_names: tuple[str, ...]
    seen: ImageSet | None = None

    @property
    def train_classes(self) -> int:
        """C: the labels of `train` are 0 … C - 1."""
        return int(self.train.labels.max()) + 1

    def disjoint(self, classes: int) -> Splits:
        """Train on the first `classes` classes, judge on all others; test pictures of the former become `seen`.

        Raises
        ------
        LabError : fewer than 2 classes on either side, or no sample of one of them.
        """
        total = len(self.class_names)
        check_number("train_classes", classes, low=2, high=total - 2, whole=True)
        train, held_out, seen = (_where(part, part.labels < classes) for part in (self.train, self.held_out, self.test))
        test = _where(self.test, self.test.labels >= classes)
        first, last = self.class_names[0], self.class_names[classes - 1]
        counts = f"{len(train):,} to train, {len(held_out):,} held out, {len(seen):,} and {len(test):,} to test"
        said = f"Trained on classes {first} to {last} alone, judged on the others, never seen ({counts})."
        return Splits(train, held_out, test, self.name, f"{self.description} {said}", self.class_names, seen)

    def joined(self, size: int = 2) -> Splits:
        """Every `size` classes that follow each other made one, so that a class has `size` modes; the rest makes the last.

        Raises
        ------
        LabError : `size` leaves fewer than 2 classes, or classes never seen are joined with ones that are.
        """
        total = len(self.class_names)
        check_number("size", size, low=2, high=(total + 1) // 2, whole=True)
        if self.seen is not None and self.train_classes % size:
            raise LabError("size", f"a divisor of the {self.train_classes} classes that are trained on", size)
        train, held_out, test = (_relabelled(part, size) for part in (self.train, self.held_out, self.test))
        seen = None if self.seen is None else _relabelled(self.seen, size)
        names = tuple("/".join(self.class_names[at : at + size]) for at in range(0, total, size))
        said = f"Classes joined: {', '.join(names)}."
        return Splits(train, held_out, test, f"{self.name}-joined-{size}", f"{self.description} {said}", names, seen)


def _relabelled(part: ImageSet, size: int) -> ImageSet:
    return ImageSet(part.images, torch.div(part.labels, size, rounding_mode="floor"))


def _where(part: ImageSet, wanted: Tensor) -> ImageSet:
    return part.subset(torch.nonzero(wanted).squeeze(1))


def stratified_split(labels: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Set `size` samples aside, every class by its share, without any random number.

    Each class gives `size * n_c / n` samples (rounded so that the sum is exact: the largest remainders are rounded
    up, ties to the lower class), and gives them at even distances along its own order in `labels`. The rule depends
    on the labels alone, so that every experiment, whatever its seed, is judged on the same samples.

    Parameters
    ----------
    labels : integers (n,).
    size : how many to set aside, 1 … n - 1.

    Returns
    -------
    (rest, aside) : two int64 tensors of indices, (n - size,) and (size,), each ascending.

    Raises
    ------
    LabError : labels are not integers of shape (n,), `size` is no whole number or leaves one of the two parts empty.
    """
    n = labels.shape[0] if isinstance(labels, Tensor) and labels.ndim else 0
    labels = check_labels("labels", labels, n, of="the data").cpu()
    size = int(check_number("size", size, whole=True))
    if not 0 < size < n:
        raise LabError("size", f"between 1 and {n - 1}, so that both parts of {n} samples have some", size)
    counts = torch.unique(labels, return_counts=True)[1]
    quota, remainder = size * counts // n, size * counts % n
    up = torch.argsort(remainder, descending=True, stable=True)[: size - int(quota.sum())]
    quota[up] += 1
    aside = torch.zeros(n, dtype=torch.bool)
    by_class = torch.tensor_split(torch.argsort(labels, stable=True), torch.cumsum(counts, 0)[:-1])
    for members, take in zip(by_class, quota.tolist(), strict=True):
        # The middle of each of `take` equal stretches; distinct because take <= len(members).
        steps = (2 * torch.arange(take) + 1) * len(members) // (2 * max(take, 1))
        aside[members[steps]] = True
    return torch.nonzero(~aside).squeeze(1), torch.nonzero(aside).squeeze(1)


def spread_sample(labels: Tensor, size: int) -> Tensor:
    """At most `size` samples, by no random number: from as many classes, at even distances, as leave 8 for each, and from
    these by their shares. Classes of one sample, in which nothing can be retrieved, are rare in it however many there are.

    Parameters
    ----------
    labels : (n,). size : at least 16.

    Returns
    -------
    int64 (m,), m <= size : indices, ascending.
    """
    classes = torch.tensor(sorted(set(labels.tolist())))
    wanted = min(len(classes), max(2, size // PER_CLASS))
    chosen = classes[torch.arange(wanted) * len(classes) // wanted]
    rows = torch.nonzero(torch.isin(labels, chosen)).squeeze(1)
    return rows if len(rows) <= size else rows[stratified_split(labels[rows], size)[1]]
