"""What registry.toml says, as frozen dataclasses."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Content:
    """A file by its bytes: name, size in bytes, SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class RemoteFile(Content):
    """A file as the mirrors have it; `unpacked` is what a .gz holds, None for a file that stays as it is."""

    unpacked: Content | None = None

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
    mirrors : base URLs, tried in order.
    splits : how many images each part has.
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
        RemoteFile(f["name"], f["size"], f["sha256"], Content(**f["unpacked"]) if "unpacked" in f else None)
        for f in table["files"]
    )
    return DataSet(name=name, **{**table, "files": files, "mirrors": tuple(table["mirrors"])})
