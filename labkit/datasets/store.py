"""Every picture of a data set decoded once: kept on disk as bytes to be mapped, with what was found wrong."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.datasets.catalogue import Catalogue
from labkit.datasets.decoding import BadPicture, Decoded, decode
from labkit.datasets.roots import cache_root
from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.threads import give_way

SHARD = 1000  # pictures in one file: what an interruption costs at most
_FORMAT = "labkit-decoded-1"
_END = struct.Struct("<Q8s")
_MARK = b"labkit-1"


class PictureStore:
    """The decoded pictures of a catalogue, by index; built where they are not there yet.

    Pictures lie in files of 1,000, each written atomically and named after the path, size and time of change of its
    pictures and how they were resized: a changed picture costs one file, an interruption at most one.

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
        shards = {i: shard for i, name in enumerate(names) if (shard := _open(self.folder / name)) is not None}
        missing = [i for i in range(len(names)) if i not in shards]
        if missing and keep_pixels:
            self._check_space(sum(min(SHARD, len(catalogue) - starts[i]) for i in missing))
        if missing:
            with ThreadPoolExecutor(max(1, workers)) as pool, _bar(catalogue, missing, progress) as bar:
                for i in missing:
                    chosen = range(starts[i], min(starts[i] + SHARD, len(catalogue)))
                    write_atomically(self.folder / names[i], lambda file: self._write(file, chosen, pool, bar.update))  # noqa: B023
                    written = _open(self.folder / names[i])
                    if written is None:
                        hint = "Is the disk in order, or does somebody else write to that folder?"
                        raise LabError(str(self.folder / names[i]), "the pictures just written", "something else", hint)
                    shards[i] = written
            _remove_others(self.folder, names)
        facts = [shards[i][1] for i in range(len(names))]
        self._paths = [self.folder / name for name in names]
        self._pixels = [shards[i][0] for i in range(len(names))]
        self._sizes = np.concatenate([f["sizes"] for f in facts])
        self._offsets = np.concatenate([f["offsets"] for f in facts])
        self.problems: list[str] = np.concatenate([f["problems"] for f in facts]).tolist()
        self.kinds: list[str] = np.concatenate([f["kinds"] for f in facts]).tolist()
        self.digests: list[str] = np.concatenate([f["digests"] for f in facts]).tolist()

    def __len__(self) -> int:
        return len(self.problems)

    def __getstate__(self) -> dict[str, Any]:
        """Without the pixels: another process maps the same files."""
        return {name: value for name, value in vars(self).items() if name != "_pixels"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        opened = [_open(path) for path in self._paths]
        if any(shard is None for shard in opened):
            raise LabError(str(self.folder), "the decoded pictures that were there", "others or none", "Load them again.")
        self._pixels = [shard[0] for shard in opened if shard is not None]

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
        """
        if not self.keep_pixels:
            pixels = decode(_read(self.catalogue.path(index)), self.side, self.square).pixels
            return torch.from_numpy(np.array(pixels)).permute(2, 0, 1)
        (height, width), offset = self._sizes[index], self._offsets[index]
        flat = self._pixels[index // SHARD][offset : offset + height * width * 3]
        return torch.from_numpy(flat).view(int(height), int(width), 3).permute(2, 0, 1)

    def _write(self, file: BinaryIO, chosen: Sequence[int], pool: ThreadPoolExecutor, done: Callable[[], Any]) -> None:
        sizes, offsets, problems, kinds, digests = [], [], [], [], []
        for problem, digest, decoded in _ahead(pool, self._look, chosen):
            give_way()
            pixels = decoded.pixels if decoded is not None else np.zeros((0, 0, 3), np.uint8)
            sizes.append(pixels.shape[:2])
            offsets.append(file.tell())
            problems.append(problem)
            digests.append(digest)
            kinds.append(decoded.kind if decoded is not None else "")
            if self.keep_pixels:
                file.write(np.ascontiguousarray(pixels).data)
            done()
        # A mapped file may not be empty, and one of bad pictures alone would be.
        file.write(b"\0")
        facts = io.BytesIO()
        np.savez_compressed(
            facts, sizes=np.array(sizes, dtype=np.int64), offsets=np.array(offsets, dtype=np.int64),
            problems=np.array(problems, dtype=np.str_), kinds=np.array(kinds, dtype=np.str_),
            digests=np.array(digests, dtype=np.str_),
        )  # fmt: skip
        file.write(facts.getvalue())
        file.write(_END.pack(len(facts.getvalue()), _MARK))

    def _look(self, index: int) -> tuple[str, str, Decoded | None]:
        """(what is wrong or "", digest of the file, the picture or None)."""
        digest = ""
        try:
            data = _read(self.catalogue.path(index))
            digest = hashlib.blake2b(data, digest_size=16).hexdigest()
            return "", digest, decode(data, self.side, self.square)
        except BadPicture as bad:
            return str(bad), digest, None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadPicture(error.strerror or type(error).__name__) from error


def _identity(path: Path) -> list[Any]:
    try:
        found = os.stat(path)
        return [str(path), found.st_size, found.st_mtime_ns]
    except OSError:
        return [str(path), -1, -1]


def _open(path: Path) -> tuple[NDArray[np.uint8], dict[str, NDArray[Any]]] | None:
    """The mapped pixels of a shard and its facts; None where it is not there, or damaged and to be built again."""
    try:
        with open(path, "rb") as file:
            file.seek(-_END.size, os.SEEK_END)
            end = file.tell()
            length, mark = _END.unpack(file.read(_END.size))
            if mark != _MARK or length > end:
                return None
            file.seek(end - length)
            with np.load(io.BytesIO(file.read(length)), allow_pickle=False) as archive:
                facts = dict(archive)
        # "c": changes would stay in memory. Nobody makes any, but torch wants memory that may be written to.
        return np.memmap(path, dtype=np.uint8, mode="c", shape=(end - length,)), facts
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, struct.error):
        return None


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


def _bar(catalogue: Catalogue, missing: Sequence[int], progress: bool) -> Any:
    from tqdm import tqdm

    total = sum(min(SHARD, len(catalogue) - i * SHARD) for i in missing)
    return tqdm(total=total, desc=f"decoding {catalogue.name}", unit=" pictures", disable=not progress)


def _short(text: str, length: int = 12) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
