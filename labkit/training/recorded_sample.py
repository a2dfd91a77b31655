"""Which pictures a recording's embeddings are of: classes trained on or never seen, and the photographs themselves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.datasets import read_catalogue, spread_sample
from labkit.datasets.decoding import BadPicture, decode
from labkit.datasets.photos import MOST_WORKERS
from labkit.datasets.protocols import SEEN, cut_classes
from labkit.errors import LabError
from labkit.training.experiment import Experiment
from labkit.training.recording import Recording
from labkit.validation import check_number


class Sides(NamedTuple):
    """Rows of a recording's sample: `train`, of classes trained on; `test`, of classes never seen."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def recorded_sides(recording: Recording) -> Sides:
    """Rows of the recorded sample on both sides of the divide, where a run was judged on classes never seen.

    Raises
    ------
    LabError : a recording of one side alone, such as one of digits that are all trained on.
    """
    classes = recording.environment.get("train_classes")
    learnt = np.zeros(len(recording.labels), dtype=bool) if classes is None else np.asarray(recording.labels) < int(classes)
    if learnt.all() or not learnt.any():
        hint = "Only a run that is tested on other classes than it trains on has two sides."
        raise LabError("recording", "a sample of classes trained on and of classes never seen", "one of them alone", hint)
    return Sides(np.flatnonzero(learnt), np.flatnonzero(~learnt))


def recorded_pictures(
    recording: Recording, rows: Any = None, *, side: int = 72, root: Path | None = None
) -> NDArray[np.uint8] | None:
    """The photographs that a recording's embeddings are of, small and square; recordings themselves never hold them.

    They are looked up in the data root by the settings of the run, and only those asked for are opened. A copy of the
    data set with other classes or pictures than the run had gives None: there the rows are other pictures.

    Parameters
    ----------
    rows : of the recorded sample (m,); None for all. side : pixels of the square cut from the middle.
    root : the data root; None for the usual one.

    Returns
    -------
    uint8 (m, side, side, 3), or None where the photographs are not there.

    Raises
    ------
    LabError : a recording of other pictures than photographs, a row that it has not, `side` below 8.
    """
    side = int(check_number("side", side, low=8, whole=True))
    experiment = Experiment.from_dict(recording.experiment)
    if not experiment.data.is_photos:
        raise LabError("recording", "a run on photographs", experiment.data.source, "Others keep their thumbnails themselves.")
    chosen = np.arange(len(recording.labels)) if rows is None else np.asarray(rows, dtype=np.int64)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < len(recording.labels):
        raise LabError("rows", f"rows 0 to {len(recording.labels) - 1}", f"{chosen.min()} to {chosen.max()}")
    paths = _paths(recording, experiment, root)
    if paths is None:
        return None
    with ThreadPoolExecutor(MOST_WORKERS) as threads:
        try:
            pictures = list(threads.map(lambda row: _square(paths[row], side), chosen.tolist()))
        except (OSError, BadPicture):  # listed, but not there or damaged
            return None
    return np.stack(pictures) if pictures else np.zeros((0, side, side, 3), dtype=np.uint8)


def _paths(recording: Recording, experiment: Experiment, root: Path | None) -> list[Path] | None:
    """The file of each recorded row; None where the data set is absent or not the one that was recorded."""
    photos = experiment.photos
    try:
        catalogue = read_catalogue(experiment.data.source, root)
    except LabError:
        return None
    everything = np.ones(len(catalogue), dtype=bool)
    try:
        order, parts = cut_classes(catalogue, everything, photos.protocol, photos.fold, photos.folds, photos.train_folds or None)
    except LabError:
        return None
    if [catalogue.class_names.get(i, str(i)) for i in order] != recording.class_names or not {"train", "test"} <= set(parts):
        return None
    size = experiment.sample_size  # as `labkit.training.recorder.fixed_sample` draws them
    (train, train_labels), (test, test_labels) = parts["train"], parts["test"]
    seen = spread_sample(train_labels, SEEN)
    first = seen[spread_sample(train_labels[seen], size // 2)]
    second = spread_sample(test_labels, size)
    labels = torch.cat((train_labels[first], test_labels[second])).numpy()
    if not np.array_equal(labels, recording.labels):
        return None
    return [catalogue.path(int(row)) for row in torch.cat((train[first], test[second]))]


def _square(path: Path, side: int) -> NDArray[np.uint8]:
    pixels = decode(path.read_bytes(), side).pixels
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    return np.ascontiguousarray(pixels[top : top + side, left : left + side])
