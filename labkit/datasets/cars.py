"""Cars196 (Stanford Cars), whole or in part, in either of the two ways it was given out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from labkit.datasets.catalogue import Catalogue, find_folder
from labkit.datasets.registry import registry
from labkit.errors import LabError

HALF = 98  # class ids up to this one are trained on
PLACES = ("cars196", "stanford_cars", "Cars196", "CARS196", ".")


def read_cars(root: Path) -> Catalogue:
    """List Cars196 as its archives unpack under `root`.

    Either `car_ims/` with `cars_annos.mat`, or `cars_train/`, `cars_test/` and `devkit/` with
    `cars_test_annos_withlabels.mat` (the devkit alone does not say what the test pictures show; without that file they
    are left out). Classes 1 ... 98 are for training, 99 ... 196 for tests, whatever the official cut by pictures was.

    Raises
    ------
    LabError : not there, or an annotation file that is damaged or holds something else.
    """
    entry = registry()["cars"]
    marks = ("cars_annos.mat", "devkit/cars_train_annos.mat")
    folder = find_folder(root, PLACES, marks, "cars", entry.how_to_get)
    if (folder / "cars_annos.mat").is_file():
        annotations = _mat(folder / "cars_annos.mat")
        rows = [(_text(row, "relative_im_path"), _class(row)) for row in _rows(annotations, folder / "cars_annos.mat")]
        names = _names(annotations)
    else:
        rows = _pictures(folder / "devkit/cars_train_annos.mat", "cars_train")
        labelled = [folder / name for name in ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat")]
        rows += next((_pictures(path, "cars_test") for path in labelled if path.is_file()), [])
        meta = folder / "devkit/cars_meta.mat"
        names = _names(_mat(meta)) if meta.is_file() else []
    labels = np.array([label for _, label in rows], dtype=np.int64)
    ids = sorted({*labels.tolist(), *range(1, len(names) + 1)})
    class_names = {i: names[i - 1] if i <= len(names) else f"class {i}" for i in ids}
    parts = np.where(labels <= HALF, "train", "test")
    files = tuple(name for name, _ in rows)
    return Catalogue("cars", folder, files, labels, class_names, parts, numbering=HALF, published=entry.splits)


def _pictures(path: Path, folder: str) -> list[tuple[str, int]]:
    return [(f"{folder}/{_text(row, 'fname')}", _class(row)) for row in _rows(_mat(path), path)]


def _mat(path: Path) -> dict[str, Any]:
    """A .mat file's variables; the file is data, nothing in it is executed."""
    from scipy.io import loadmat

    try:
        contents: dict[str, Any] = loadmat(path, squeeze_me=True)
    except Exception as error:  # scipy raises anything from OSError to IndexError on a damaged file
        raise LabError(str(path), "a MATLAB file of annotations", f"{type(error).__name__}: {error}") from error
    return contents


def _rows(contents: dict[str, Any], path: Path) -> list[Any]:
    rows = np.atleast_1d(contents.get("annotations", np.array([])))
    fields = rows.dtype.names or ()
    if "class" not in fields or not {"fname", "relative_im_path"} & set(fields):
        raise LabError(str(path), "annotations with a file name and a class", f"fields {', '.join(fields) or 'none'}")
    return list(rows)


def _names(contents: dict[str, Any]) -> list[str]:
    return [str(name) for name in np.atleast_1d(contents.get("class_names", np.array([])))]


def _text(row: Any, field: str) -> str:
    return str(row[field])


def _class(row: Any) -> int:
    return int(row["class"])
