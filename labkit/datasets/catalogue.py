"""What an image data set holds, before a single picture is opened: files, class ids, names, official parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif")
PARTS = ("train", "test", "query", "gallery")  # also the names of folders, and of splits in a table
SHOWN = 3  # examples in a message; the count tells the rest


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The pictures of a data set by name.

    Parameters
    ----------
    name : of the data set, e.g. "cub". folder : where it lies.
    files : n paths below `folder` (with /), or absolute ones.
    labels : int64 (n,), class ids as the data set numbers them; gaps are welcome.
    class_names : a name for each id that is listed, also for classes without a picture.
    parts : n words of "train", "test", "query", "gallery": the official cut by classes. Classes in "train" are in no
        other part.
    numbering : how many class ids the training half has officially (1 ... numbering), so that a partial copy is cut
        into the same folds as the whole; 0 where ids mean nothing.
    published : official counts, `registry.toml`'s: pictures of each part, and `<part>_classes`; {} where there are none.

    Raises
    ------
    LabError : lengths that disagree, an unknown part, no picture at all, a class in both halves.
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    labels: NDArray[np.int64]
    class_names: Mapping[int, str]
    parts: NDArray[np.str_]
    numbering: int = 0
    published: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.files)
        if n == 0:
            raise LabError(str(self.folder), "at least one picture", "none")
        if self.labels.shape != (n,) or self.parts.shape != (n,):
            raise LabError("labels", f"one label and one part for each of {n} files", (self.labels.shape, self.parts.shape))
        unknown = set(self.parts.tolist()) - set(PARTS)
        if unknown:
            raise LabError("parts", f"one of {', '.join(PARTS)}", min(unknown))
        learning = self.parts == "train"
        shared = np.intersect1d(self.labels[learning], self.labels[~learning])
        if len(shared):
            raise LabError(
                str(self.folder), "classes that are either trained on or tested", f"{self.named(shared)} in both",
                "Retrieval is tested on classes that were never seen: give all pictures of a class to one part.",
            )  # fmt: skip

    def __len__(self) -> int:
        return len(self.files)

    def path(self, index: int) -> Path:
        """Where picture `index` lies."""
        return self.folder / self.files[index]

    def named(self, ids: Iterable[int]) -> str:
        """A few class names for a message."""
        return some([self.class_names.get(int(i), str(int(i))) for i in ids])

    def counts(self) -> dict[str, int]:
        """Pictures and classes of each part that there is, keyed as `published` is."""
        found: dict[str, int] = {}
        for part in PARTS:
            mine = self.parts == part
            if mine.any() or part in self.published:
                found[part] = int(mine.sum())
                found[f"{part}_classes"] = len(np.unique(self.labels[mine]))
        return found

    def shortfall(self) -> str:
        """What is missing (or too many) against the published counts, in words; "" where all is as published."""
        found = self.counts()
        told = [
            f"{found.get(key, 0):,} of {wanted:,} {key.replace('_', ' ') if 'classes' in key else f'{key} pictures'}"
            for key, wanted in self.published.items()
            if found.get(key, 0) != wanted
        ]
        return ", ".join(told)

    def remarks(self) -> list[str]:
        """Sentences about what a user should know: a partial copy, classes without pictures or with only one."""
        told = []
        if self.shortfall():
            told.append(f"{self.name} is not as published: {self.shortfall()}.")
        sizes = Counter(self.labels.tolist())
        empty = [i for i in self.class_names if i not in sizes]
        if empty:
            has = "has" if len(empty) == 1 else "have"
            told.append(f"{counted(len(empty), 'class')} of {self.name} {has} no picture: {self.named(empty)}.")
        single = [i for i, count in sizes.items() if count == 1]
        if single:
            has = "has" if len(single) == 1 else "have"
            told.append(f"{counted(len(single), 'class')} of {self.name} {has} one picture only: {self.named(single)}.")
        return told


def counted(number: int, what: str) -> str:
    """"1 class", "2 classes", "1,000 pictures"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}{'es' if what.endswith('s') else 's'}"


def some(names: Sequence[str]) -> str:
    """The first few of many names, and how many more there are."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def is_picture(name: str) -> bool:
    """Whether a file's ending is one of a picture; hidden files are none."""
    path = PurePosixPath(name)
    return path.suffix.lower() in PICTURES and not path.name.startswith(".")


def halves(labels: NDArray[np.int64]) -> NDArray[np.str_]:
    """ "train" for the first half of the classes in order of their ids (the smaller half of an odd number), else "test"."""
    ids = np.unique(labels)
    if len(ids) < 2:
        raise LabError("classes", "at least two, one to train on and one to test", len(ids))
    return np.where(labels < ids[len(ids) // 2], "train", "test")


def find_folder(root: Path, places: Sequence[str], holds: Sequence[str], name: str, hint: str) -> Path:
    """The first of `places` under `root` that holds one of the files or folders `holds`.

    Raises
    ------
    LabError : none does; the message says where it was looked for, and `hint` how to get it.
    """
    for place in places:
        folder = root / place
        if any((folder / item).exists() for item in holds):
            return folder
    looked = " or ".join(dict.fromkeys(str(root / place) for place in places))
    raise LabError(name, f"{' or '.join(holds)} in {looked}", "nothing there", hint)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty.

    Raises
    ------
    LabError : it cannot be read, or is no text.
    """
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(str(path), "a text file", str(error)) from error
