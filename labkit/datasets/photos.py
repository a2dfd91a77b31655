"""Photographs on disk with the interface of an `ImageSet` in memory."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from labkit.datasets.decoding import BadPicture
from labkit.datasets.images import ImageSet
from labkit.datasets.store import PictureStore
from labkit.datasets.views import Views
from labkit.errors import LabError
from labkit.threads import cores
from labkit.validation import check_labels, check_number, describe

MOST_WORKERS = 16


class PhotoSet:
    """Some of the pictures of a store with their labels; nothing is read before it is asked for.

    Parameters
    ----------
    store : the decoded pictures. rows : int64 (n,), which of them. labels : int64 (n,).
    views : how they are cropped. workers : threads that read and crop; None for one a core (at most 16).

    Attributes
    ----------
    images : the central views as `LazyImages`, uint8 (n, 3, size, size).

    Raises
    ------
    LabError : no picture, labels of another length, views of another resizing than the store's.
    """

    def __init__(
        self, store: PictureStore, rows: Tensor, labels: Tensor, views: Views, workers: int | None = None
    ) -> None:
        if (views.resized, views.square) != (store.side, store.square):
            raise LabError("views", f"pictures resized to {store.side} (square: {store.square})", views)
        if rows.numel() == 0:
            raise LabError("rows", "at least one picture", "none")
        self.store, self.rows, self.view_settings = store, rows, views
        self.labels = check_labels("labels", labels, len(rows), of="the pictures")
        self.workers = min(MOST_WORKERS, cores()) if workers is None else int(check_number("workers", workers, low=1, whole=True))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The central view, uint8 (3, size, size), and the label: a map-style data set, as `torch.utils.data` calls it."""
        return self.images[index], int(self.labels[index])

    @property
    def images(self) -> LazyImages:
        return LazyImages(self)

    @property
    def identity(self) -> str:
        """Changes whenever a file, the choice of pictures, or their views do."""
        parts = f"{self.store.identity} {self.view_settings}".encode() + self.rows.numpy().tobytes()
        return hashlib.sha256(parts).hexdigest()

    def subset(self, indices: Tensor) -> PhotoSet:
        """The photographs at `indices` (int64 (m,)), in that order; still on disk."""
        return PhotoSet(self.store, self.rows[indices], self.labels[indices], self.view_settings, self.workers)

    def in_memory(self) -> ImageSet:
        """The central views and the labels as an `ImageSet`."""
        return ImageSet(self.images[:], self.labels)

    def central(self, indices: Tensor) -> Tensor:
        """The views for evaluation at `indices` (m,): uint8 (m, 3, size, size)."""
        return self._gather(indices, lambda picture, _: self.view_settings.central(picture)).result()

    def random(self, indices: Tensor, draws: Tensor) -> PendingBatch:
        """Random views at `indices` (m,) by their numbers (m, 5), handed to the threads at once; `result()` waits for them."""
        return self._gather(indices, lambda picture, i: self.view_settings.random(picture, draws[i]))

    def _gather(self, indices: Tensor, view: Callable[[Tensor, int], Tensor]) -> PendingBatch:
        """Cut the work into one piece per thread; which thread does which piece changes nothing."""
        size, rows = self.view_settings.size, self.rows[indices].tolist()
        batch = torch.empty(len(rows), 3, size, size, dtype=torch.uint8)

        def fill(places: range) -> None:
            for place in places:
                batch[place] = view(self._picture(rows[place]), place)

        pieces = [range(start, len(rows), self.workers) for start in range(min(self.workers, len(rows)))]
        return PendingBatch(batch, [_threads(self.workers, os.getpid()).submit(fill, piece) for piece in pieces])

    def _picture(self, row: int) -> Tensor:
        try:
            return self.store.picture(row)
        except BadPicture as bad:
            raise LabError(str(self.store.catalogue.path(row)), "the picture that was there before", bad) from bad


class PendingBatch:
    """A batch that threads are filling."""

    def __init__(self, batch: Tensor, pieces: Sequence[Future[None]]) -> None:
        self._batch, self._pieces = batch, pieces

    def result(self) -> Tensor:
        """Wait for uint8 (m, 3, size, size).

        Raises
        ------
        LabError : a picture that has gone bad since it was looked at.
        """
        for piece in self._pieces:
            piece.result()
        return self._batch


class LazyImages:
    """The central views of a `PhotoSet` as if they were one tensor: shape, length, and what indexing reads from disk.

    Indexing takes a slice, a whole number, or a tensor of indices, and gives uint8 tensors.
    """

    dtype = torch.uint8

    def __init__(self, photos: PhotoSet) -> None:
        self._photos = photos

    @property
    def shape(self) -> torch.Size:
        size = self._photos.view_settings.size
        return torch.Size((len(self._photos), 3, size, size))

    @property
    def ndim(self) -> int:
        return 4

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, which: int | slice | Tensor) -> Tensor:
        n = len(self)
        if isinstance(which, int):
            if not -n <= which < n:
                raise IndexError(f"picture {which} of {n}")
            return self._photos.central(torch.tensor([which % n]))[0]
        if isinstance(which, slice):
            return self._photos.central(torch.arange(n)[which])
        if isinstance(which, Tensor) and which.dtype == torch.bool:
            which = torch.nonzero(which).squeeze(1)
        if not isinstance(which, Tensor) or which.ndim != 1 or which.is_floating_point():
            raise LabError("images[...]", "a whole number, a slice or a tensor of indices (m,)", describe(which))
        return self._photos.central(which.cpu())


@functools.cache
def _threads(workers: int, process: int) -> ThreadPoolExecutor:
    """One crew for all sets: a set and its subsets are not read at the same time.

    process : whose it is; a forked process inherits this cache, but not the threads of the crews in it.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="pictures")
