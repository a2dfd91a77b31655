"""Every picture of a data set decoded once: kept on disk as bytes to be mapped, with what was found wrong."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.datasets.catalogue import Catalogue
from labkit.datasets.decoding import BadPicture, decode, picture_bytes
from labkit.datasets.roots import cache_root
from labkit.datasets.shards import Looked, Shard, open_shard, write_shard
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.threads import give_way

SHARD = 1000  # pictures in one file: what an interruption costs at most
_FORMAT = "labkit-decoded-1"


class PictureStore:
    """The decoded pictures of a catalogue, by index; built where they are not there yet.

    Pictures lie in files of 1,000, each written atomically and named after the path, size and time of change of its
    pictures and how they were resized: a changed picture costs one file, an interruption at most one. A file that has bytes
    too many or too few is built again on opening; a picture whose bytes are not those that were written is decoded again when
    it is read, and put back (`labkit.datasets.shards` says how that stays fast).

    Parameters
    ----------
    catalogue : the pictures. side, square : as in `decode`.
    keep_pixels : False keeps only what was found wrong; pictures are decoded again whenever they are wanted.
    folder : where to keep it, and nothing else: files of other pictures in there are removed. None for a folder of its own
        under `cache`. cache : holds the folders of several stores; None for one under `cache_root()`.
    workers : threads that decode. progress : show a bar on stderr while building.

    Attributes
    ----------
    problems : n strings, "" for a picture that can be used. kinds : n strings as in `Decoded`.
    digests : n hexadecimal digests of the files' bytes, "" where there is none.

    Raises
    ------
    LabError : the disk is full, or about to be, or read-only; what was just written cannot be opened.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        side: int,
        square: bool = False,
        *,
        keep_pixels: bool = True,
        folder: Path | None = None,
        cache: Path | None = None,
        workers: int = 1,
        progress: bool = False,
    ) -> None:
        self.catalogue, self.side, self.square, self.keep_pixels = catalogue, side, square, keep_pixels
        identities = [_identity(catalogue.path(i)) for i in range(len(catalogue))]
        how = f"{_FORMAT} {side} {square} {keep_pixels}"
        self.identity = hashlib.sha256(json.dumps([how, identities]).encode()).hexdigest()
        own = f"{catalogue.name}-{_short(str(catalogue.folder.absolute()) + how)}"
        self.folder = folder or (cache or cache_root() / "decoded") / own
        starts = range(0, len(catalogue), SHARD)
        names = [_short(json.dumps([how, identities[s : s + SHARD]]), 32) + ".pixels" for s in starts]
        self._paths = [self.folder / name for name in names]
        counts = [min(SHARD, len(catalogue) - start) for start in starts]
        found = [open_shard(path, count, keep_pixels) for path, count in zip(self._paths, counts, strict=True)]
        missing = [i for i, shard in enumerate(found) if shard is None]
        if missing and keep_pixels:
            self._check_space(sum(counts[i] for i in missing))
        if missing:
            with ThreadPoolExecutor(max(1, workers)) as pool, _bar(catalogue, sum(counts[i] for i in missing), progress) as bar:
                for i in missing:
                    looked = self._look_at(range(starts[i], starts[i] + counts[i]), pool, bar.update)
                    write_atomically(self._paths[i], lambda file: write_shard(file, looked, keep_pixels))  # noqa: B023
                    found[i] = open_shard(self._paths[i], counts[i], keep_pixels)
                    if found[i] is None:
                        hint = "Is the disk in order, or does somebody else write to that folder?"
                        raise LabError(str(self._paths[i]), "the pictures just written", "something else", hint)
            _remove_others(self.folder, names)
        self._shards: list[Shard] = [shard for shard in found if shard is not None]
        self.problems: list[str] = np.concatenate([shard.problems for shard in self._shards]).tolist()
        self.kinds: list[str] = np.concatenate([shard.kinds for shard in self._shards]).tolist()
        self.digests: list[str] = np.concatenate([shard.digests for shard in self._shards]).tolist()

    def __len__(self) -> int:
        return len(self.problems)

    def __getstate__(self) -> dict[str, Any]:
        """Without the pixels: another process maps the same files."""
        counts = [len(shard.sums) for shard in self._shards]
        return {name: value for name, value in vars(self).items() if name != "_shards"} | {"_counts": counts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        counts = state.pop("_counts")
        vars(self).update(state)
        opened = [open_shard(path, count, self.keep_pixels) for path, count in zip(self._paths, counts, strict=True)]
        self._shards = [shard for shard in opened if shard is not None]
        if len(self._shards) < len(opened):
            raise LabError(str(self.folder), "the decoded pictures that were there", "others or none", "Load them again.")

    def _check_space(self, pictures: int) -> None:
        """Refuse at once what would fill the disk after an hour. Photographs are 4 : 3 or so."""
        need = int(pictures * self.side**2 * 3 * (1.0 if self.square else 1.35))
        place = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        free = shutil.disk_usage(place).free
        if need > free:
            hint = "Set LABKIT_CACHE to a folder on another disk, or photos.keep_pixels=false to decode every time."
            wanted = f"room for about {need / 1e9:,.1f} GB of decoded pictures"
            raise LabError(str(self.folder), wanted, f"{free / 1e9:,.1f} GB", hint)

    def picture(self, index: int) -> Tensor:
        """uint8 (3, h, w), of memory that is shared with the file: to be read only.

        Raises
        ------
        BadPicture : without kept pixels, a file that has gone bad since it was looked at.
        LabError : what was kept is damaged, and the file does not give it again.
        """
        if not self.keep_pixels:
            pixels = decode(picture_bytes(self.catalogue.path(index)), self.side, self.square).pixels
            return torch.from_numpy(np.array(pixels)).permute(2, 0, 1)
        shard, place = self._shards[index // SHARD], index % SHARD
        kept = shard.picture(place)
        if kept is None:
            _, _, decoded = self._look(index)
            kept = shard.picture(place) if decoded is not None and shard.mend(place, decoded.pixels) else None
        if kept is None:
            got = f"a damaged picture, and another one in {self.catalogue.path(index)}"
            raise LabError(str(shard.path), "decoded pictures as they were written", got, "Remove it: it is built again.")
        return torch.from_numpy(kept).permute(2, 0, 1)

    def _look_at(self, chosen: Sequence[int], pool: ThreadPoolExecutor, done: Callable[[], Any]) -> Iterator[Looked]:
        for looked in _ahead(pool, self._look, chosen):
            give_way()
            yield looked
            done()

    def _look(self, index: int) -> Looked:
        """(what is wrong or "", digest of the file, the picture or None)."""
        digest = ""
        try:
            data = picture_bytes(self.catalogue.path(index))
            digest = hashlib.blake2b(data, digest_size=16).hexdigest()
            return "", digest, decode(data, self.side, self.square)
        except BadPicture as bad:
            return str(bad), digest, None


def _identity(path: Path) -> list[Any]:
    try:
        found = os.stat(path)
        return [str(path), found.st_size, found.st_mtime_ns]
    except OSError:
        return [str(path), -1, -1]


def _remove_others(folder: Path, names: Sequence[str]) -> None:
    """Files of pictures that have changed or gone since: nobody will ask for them again."""
    for path in folder.glob("*.pixels"):
        if path.name not in set(names):
            with contextlib.suppress(OSError):  # Windows removes no file that another process has mapped
                path.unlink()


def _ahead(pool: ThreadPoolExecutor, work: Callable[[int], Any], items: Sequence[int], depth: int = 64) -> Iterator[Any]:
    """`work` of each item in order, at most `depth` of them ahead of whoever takes the results."""
    waiting = [pool.submit(work, item) for item in items[:depth]]
    for nxt in range(depth, len(items) + depth):
        if not waiting:
            return
        yield waiting.pop(0).result()
        if nxt < len(items):
            waiting.append(pool.submit(work, items[nxt]))


def _bar(catalogue: Catalogue, total: int, progress: bool) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, desc=f"decoding {catalogue.name}", unit=" pictures", disable=not progress)


def _short(text: str, length: int = 12) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
