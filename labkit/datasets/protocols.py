"""Which classes a model learns, which choose it, and which judge it: the protocols of the sources, for any data set."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.datasets.catalogue import Catalogue, counted, some
from labkit.datasets.images import Splits, spread_sample
from labkit.datasets.photos import PhotoSet
from labkit.datasets.readers import read_catalogue
from labkit.datasets.store import PictureStore
from labkit.datasets.views import Views
from labkit.errors import LabError
from labkit.threads import cores
from labkit.validation import check_choice, check_number

PROTOCOLS = ("mlrc", "conventional")
UNUSABLE = ("refuse", "skip")
NOT_COLOUR = ("convert", "skip", "refuse")
SEEN = 2000


class DataWarning(UserWarning):
    """Something about the data that changes what a result means, though it can be used."""


@dataclass(frozen=True, eq=False)
class PhotoSplits(Splits):
    """Splits of photographs on disk; `train`, `held_out` and `test` are `PhotoSet`s.

    No protocol has test pictures of the classes trained on; `seen` is a fixed sample of the training pictures instead, so
    that both sides of the divide can be looked at. Under the conventional protocol `held_out` is that sample, too.
    `gallery` is what the queries in `test` are looked up in, where the data set has one (In-shop); None: each test picture
    is looked up among the others.
    """

    gallery: PhotoSet | None = None


def fold_of_classes(ids: NDArray[np.int64], folds: int, numbering: int = 0) -> NDArray[np.int64]:
    """The fold 0 ... folds - 1 of each of the training classes `ids`: contiguous ranges of ids, as equal as they can be.

    With `numbering`, the ranges are those of all official ids 1 ... numbering, so that a partial copy's fold is a part of
    the official one. Where the numbers do not divide, the first folds get one more.
    """
    everything = np.arange(1, numbering + 1) if numbering else np.unique(ids)
    last = np.cumsum([len(part) for part in np.array_split(everything, folds)]) - 1
    return np.searchsorted(everything[last], ids)


def load_images(
    source: str | os.PathLike[str],
    *,
    protocol: str = "mlrc",
    fold: int = 0,
    folds: int = 4,
    train_folds: int | None = None,
    views: Views | None = None,
    unusable: str = "refuse",
    not_colour: str = "convert",
    keep_pixels: bool = True,
    root: Path | None = None,
    cache: Path | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> PhotoSplits:
    """Photographs, cut by classes into train / held-out / test as a protocol has it.

    "mlrc" (Musgrave et al., "A Metric Learning Reality Check"; the CCP paper's): the training half of the classes is cut
    into `folds` contiguous parts; part `fold` validates, the others are trained on. "conventional": the whole training
    half is trained on and nothing validates; `held_out` is a fixed sample of what is trained on, which shows the progress.

    Every picture is decoded once and kept on disk (`PictureStore`); the first call takes the time for that.

    Parameters
    ----------
    source : as in `read_catalogue`.
    train_folds : train on so many folds only, those after the validating one in a circle; None for all. The 3-split
        ablation trains on 2 of 3: `folds=3`.
    views : crops; None for the MLRC ones at 227 pixels.
    unusable : "refuse" pictures that cannot be decoded, are missing, tiny or huge, naming them; or "skip" them with a warning.
    not_colour : "convert" grey and CMYK pictures, "skip" or "refuse" them.
    keep_pixels : False decodes anew whenever a picture is wanted, and keeps nothing but what was found wrong.
    root, cache : the data root, the folder for decoded pictures (each data set has its own in it); None for the usual ones.

    Returns
    -------
    PhotoSplits : labels of training classes are 0 ... C - 1, validation classes follow, then test classes.

    Raises
    ------
    LabError : the data set is not there, holds unusable pictures, or too few classes for the folds.

    Warns
    -----
    DataWarning : a partial copy, classes with no picture or one, skipped pictures, one file in two classes.
    """
    check_choice("unusable", unusable, UNUSABLE)
    check_choice("not_colour", not_colour, NOT_COLOUR)
    _check_folds(protocol, fold, folds, train_folds)
    views = views or Views()
    catalogue = read_catalogue(source, root)
    store = PictureStore(
        catalogue, views.resized, views.square,
        keep_pixels=keep_pixels, cache=cache, workers=workers or cores(), progress=progress,
    )  # fmt: skip
    usable = choose_usable(catalogue, store, unusable, not_colour)
    for remark in [*catalogue.remarks(), *duplicate_remarks(catalogue, store)]:
        warnings.warn(remark, DataWarning, stacklevel=2)
    order, rows_of = cut_classes(catalogue, usable, protocol, fold, folds, train_folds)
    parts = {name: PhotoSet(store, rows, labels, views, workers) for name, (rows, labels) in rows_of.items()}
    for name in ("train", "test", *(["held_out"] if protocol == "mlrc" else [])):
        if name not in parts:
            raise LabError(str(catalogue.folder), f"pictures for {name.replace('_', ' ')}", "none")
    how = f"fold {fold} of {folds}" if protocol == "mlrc" else "conventional protocol"
    description = f"Data in use: {_described(catalogue, how, parts)}; {views.size} pixels."
    names = tuple(catalogue.class_names.get(label, str(label)) for label in order)
    train = parts["train"]
    seen = train.subset(spread_sample(train.labels, SEEN))
    # PhotoSet stands in for ImageSet: the same names, read from disk.
    return PhotoSplits(
        train, parts.get("held_out", seen), parts["test"], catalogue.name, description, names, seen, gallery=parts.get("gallery")  # type: ignore[arg-type]
    )  # fmt: skip


def _check_folds(protocol: str, fold: int, folds: int, train_folds: int | None) -> None:
    check_choice("protocol", protocol, PROTOCOLS)
    check_number("folds", folds, low=2, whole=True)
    check_number("fold", fold, low=0, high=folds - 1, whole=True)
    if train_folds is not None:
        check_number("train_folds", train_folds, low=1, high=folds - 1, whole=True)


def _described(catalogue: Catalogue, how: str, parts: Mapping[str, PhotoSet]) -> str:
    counts = ", ".join(f"{len(p):,} of {counted(len(set(p.labels.tolist())), 'class')} {_WORDS[n]}" for n, p in parts.items())
    return f"{catalogue.name}{', a partial copy' if catalogue.shortfall() else ''}, {how}: {counts}"


def cut_classes(
    catalogue: Catalogue, usable: NDArray[np.bool_], protocol: str, fold: int, folds: int, train_folds: int | None
) -> tuple[list[int], dict[str, tuple[Tensor, Tensor]]]:
    """Which pictures are in which part, and their new labels: no picture is opened for that.

    Parameters
    ----------
    usable : (n,), pictures to use at all. Others as in `load_images`.

    Returns
    -------
    The class ids in order of the new labels (training classes, validation classes, test classes), and for each part that
    has pictures ("train", "held_out", "test", "gallery") its rows of the catalogue and their labels, int64 (m,).
    """
    group = _groups(catalogue, usable, protocol, fold, folds, train_folds)
    order = [*_ids(catalogue, group == "train"), *_ids(catalogue, group == "held_out")]
    order = list(dict.fromkeys([*order, *_ids(catalogue, np.isin(group, ("test", "gallery")))]))
    rank = {label: number for number, label in enumerate(order)}
    parts = {}
    for name in ("train", "held_out", "test", "gallery"):
        rows = np.flatnonzero(group == name)
        if len(rows):
            labels = torch.tensor([rank[int(i)] for i in catalogue.labels[rows]])
            parts[name] = torch.from_numpy(rows), labels
    return order, parts


_WORDS = {"train": "to train", "held_out": "to validate", "test": "to test", "gallery": "in the gallery"}


def _ids(catalogue: Catalogue, chosen: NDArray[np.bool_]) -> list[int]:
    found: list[int] = np.unique(catalogue.labels[chosen]).tolist()
    return found


def _groups(
    catalogue: Catalogue, usable: NDArray[np.bool_], protocol: str, fold: int, folds: int, train_folds: int | None
) -> NDArray[np.str_]:
    """ "train", "held_out", "test", "gallery" or "" (unused) for each picture."""
    group = np.where(np.isin(catalogue.parts, ("test", "query")), "test", catalogue.parts).astype("<U8")
    learning = catalogue.parts == "train"
    if protocol == "mlrc":
        classes = np.array(_ids(catalogue, learning & usable))
        if len(classes) < folds:
            hint = f"Set photos.folds; where half of the classes are for tests, {folds} folds need {2 * folds} classes."
            raise LabError("folds", f"at most the {len(classes)} training classes that there are", folds, hint)
        number = dict(zip(classes.tolist(), fold_of_classes(classes, folds, catalogue.numbering).tolist()))
        used = {(fold + 1 + i) % folds for i in range(folds - 1 if train_folds is None else train_folds)}
        for row in np.flatnonzero(learning & usable):
            mine = number[int(catalogue.labels[row])]
            group[row] = "held_out" if mine == fold else "train" if mine in used else ""
    return np.where(usable, group, "")


def choose_usable(catalogue: Catalogue, store: PictureStore, unusable: str, not_colour: str) -> NDArray[np.bool_]:
    """Which pictures may be used; the others are refused or skipped with a warning, as the caller chose.

    Raises
    ------
    LabError : pictures are to be refused; a few are named with what is wrong, and how many there are.
    """
    bad = {i: problem for i, problem in enumerate(store.problems) if problem}
    _judge(catalogue, bad, unusable, "unusable", 'Set unusable="skip" to go on without them.')
    pale = {i: f"{kind}" for i, kind in enumerate(store.kinds) if kind} if not_colour != "convert" else {}
    _judge(catalogue, pale, not_colour, "not_colour", 'Set not_colour="convert" to use them as they are.')
    left = np.ones(len(catalogue), dtype=bool)
    left[list({**bad, **pale})] = False
    return left


def _judge(catalogue: Catalogue, found: dict[int, str], choice: str, name: str, hint: str) -> None:
    if not found:
        return
    told = some([f"{catalogue.files[i]} ({why})" for i, why in found.items()])
    if choice == "refuse":
        raise LabError(name, f"pictures that can be used in {catalogue.folder}", f"{len(found):,} that cannot: {told}", hint)
    warnings.warn(f"Left out {counted(len(found), 'picture')} of {catalogue.name}: {told}.", DataWarning, stacklevel=4)


def duplicate_remarks(catalogue: Catalogue, store: PictureStore) -> Iterable[str]:
    """A sentence where the same file, byte for byte, is in several classes; another where it is in training and test."""
    same: dict[str, list[int]] = defaultdict(list)
    for i, digest in enumerate(store.digests):
        if digest:
            same[digest].append(i)
    across = [rows for rows in same.values() if len({int(catalogue.labels[i]) for i in rows}) > 1]
    if across:
        told = some([" = ".join(catalogue.files[i] for i in rows[:2]) for rows in across])
        are = "is" if len(across) == 1 else "are"
        yield f"{counted(len(across), 'picture')} of {catalogue.name} {are} in several classes: {told}."
    leaked = [rows for rows in across if len({bool(catalogue.parts[i] == "train") for i in rows}) > 1]
    if leaked:
        yield f"{len(leaked):,} of them {'is' if len(leaked) == 1 else 'are'} both in training and in test classes."
