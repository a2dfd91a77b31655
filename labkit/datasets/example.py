"""A small folder of pictures to begin with, made of what is there: birds where CUB is, else digits as picture files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from labkit.datasets.digits import embedded_source, load_digits
from labkit.datasets.readers import read_catalogue
from labkit.errors import LabError
from labkit.files import storage_error, write_atomically
from labkit.validation import check_number, check_path


def example_folder(where: str | os.PathLike[str], classes: int = 10, each: int = 25) -> str:
    """Make a folder with a folder of pictures for each class.

    Copies of CUB's first classes where CUB lies under the data root; else the digits that a package carries, as PNG files.

    Parameters
    ----------
    where : the folder; missing or empty. classes : how many (digits: at most 10). each : pictures of a class, at most.

    Returns
    -------
    str : one line that says what is in it.

    Raises
    ------
    LabError : `where` is no path or holds something already; a picture that cannot be read or written.
    """
    folder, most = check_path("where", where), int(check_number("each", each, low=1, whole=True))
    wanted = int(check_number("classes", classes, low=1, whole=True))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LabError("where", "a folder that is not there yet, or an empty one", str(where))
    try:
        birds = read_catalogue("cub")
    except LabError:
        return _digits(folder, min(wanted, 10), most)
    chosen = sorted(birds.class_names)[:wanted]
    for label in chosen:
        for i in np.flatnonzero(birds.labels == label)[:most]:
            picture = birds.path(int(i))
            _copy(picture, folder / birds.class_names[label].replace("/", "-") / picture.name)
    return f"Pictures: copies of {most} photographs of each of {len(chosen)} bird species of CUB-200-2011 at most."


def _copy(source: Path, target: Path) -> None:
    try:
        data = source.read_bytes()
    except OSError as error:
        raise storage_error(source, error) from error
    write_atomically(target, lambda file: file.write(data))


def _digits(folder: Path, classes: int, each: int) -> str:
    from PIL import Image

    digits, written = load_digits(embedded_source()), 0
    for label in range(classes):
        rows = (digits.train.labels == label).nonzero().flatten()[:each]
        for number, row in enumerate(rows.tolist()):
            picture = Image.fromarray(digits.train.images[row, 0].numpy())
            target = folder / f"digit {label}" / f"{number:03}.png"
            write_atomically(target, lambda file: picture.save(file, format="PNG"))  # noqa: B023
            written += 1
    fewer = " at most" if written < classes * each else ""
    made = f"{each} handwritten digits of each of {classes} classes{fewer} ({digits.name})"
    return f"Pictures: {made}, as PNG files: a stand-in for your own."
