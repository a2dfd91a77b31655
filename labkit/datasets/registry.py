"""What registry.toml says, as frozen dataclasses."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Content:
    """A file by its bytes: name, size in bytes (0 where nobody published it), SHA-256 in hexadecimal ("" likewise)."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class RemoteFile(Content):
    """A file as the mirrors have it.

    `unpacked` is what a .gz holds, None for a file that stays as it is. An archive becomes the folder
    that it `holds`, "" for other files. `md5` is for files whose owners published nothing better.
    """

    unpacked: Content | None = None
    holds: str = ""
    md5: str = ""

    @property
    def final(self) -> Content:
        """The file that lies in the folder in the end."""
        return self.unpacked or Content(self.name, self.size, self.sha256)


@dataclass(frozen=True)
class DataSet:
    """One entry of the registry: what it is, under which licence, and the files that make it up.

    Parameters
    ----------
    folder : where the files lie under the data root.
    mirrors : base URLs, tried in order; none where the owners ask for a form or their server is gone.
    splits : how many images each part has, and how many classes (`<part>_classes`) where parts are cut by classes.
    into : the folder under the data root that archives are unpacked into; theirs is among what they hold.
    by_hand : what to put where, for a set that cannot be had from a mirror.
    """

    name: str
    title: str
    licence: str
    homepage: str
    citation: str
    folder: str
    mirrors: tuple[str, ...]
    splits: dict[str, int]
    files: tuple[RemoteFile, ...]
    into: str = "."
    by_hand: str = ""

    @property
    def how_to_get(self) -> str:
        """One or two sentences on how this set comes to lie under the data root."""
        if self.mirrors:
            return f"`labkit data get {self.name}` downloads it ({self.size / 1e6:,.0f} MB)."
        return self.by_hand

    @property
    def size(self) -> int:
        """Bytes to download for the whole of it."""
        return sum(file.size for file in self.files)


@functools.cache
def registry() -> dict[str, DataSet]:
    """All data sets that labkit can fetch, by name."""
    text = resources.files("labkit.datasets").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


def _entry(name: str, table: dict[str, Any]) -> DataSet:
    files = tuple(
        RemoteFile(**{**f, "unpacked": Content(**f["unpacked"]) if "unpacked" in f else None}) for f in table["files"]
    )
    return DataSet(name=name, **{**table, "files": files, "mirrors": tuple(table["mirrors"])})
