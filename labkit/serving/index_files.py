"""An index on disk: a file of faiss with the vectors, and JSON with everything else."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError, said
from labkit.files import storage_error, write_atomically
from labkit.geometry import NORMALIZATIONS
from labkit.validation import check_choice, check_number, check_path, check_word, describe

FORMAT = 1
ABOUT = "index.json"
_AGAIN = "Build it again with `labkit index`."
_VECTORS = re.compile(r"vectors-([0-9a-f]{16})\.faiss")
_UNFINISHED = re.compile(r"\.(?:vectors-[0-9a-f]{16}\.faiss|index\.json)\.\d+-[0-9a-f]{8}\.partial")
# How faiss's files begin: kind of index, width, count. Others than IndexFlatL2 are not given to faiss at all.
_FLAT, _HEAD = b"IxF2", struct.Struct("<4siq")


@dataclass(frozen=True)
class Kept:
    """What an index is beside its vectors; the fields are those of `ImageIndex`."""

    normalize: str
    levels: int
    model: str
    folder: str
    paths: list[str]
    classes: list[str]

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, (*NORMALIZATIONS, "none"))
        check_number("levels", self.levels, low=1, whole=True)
        for name in ("model", "folder"):
            check_word(name, getattr(self, name))
        check_path("folder", self.folder)
        for name in ("paths", "classes"):
            value = getattr(self, name)
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                raise LabError(name, "a list of names", describe(value))


def write_index(path: str | os.PathLike[str], index: Any, kept: Kept) -> Path:
    """Write both files. The vectors come first, under a name made of their content; the JSON that names them makes them
    count; then older vectors go. So a reader finds one whole index whenever it looks.

    Raises
    ------
    LabError : the disk is full or read-only, or the folder holds something else.
    """
    import faiss

    folder, older = check_place(path)
    data = faiss.serialize_index(index).tobytes()
    digest = hashlib.sha256(data).hexdigest()
    vectors = folder / f"vectors-{digest[:16]}.faiss"
    facts = {"format": FORMAT, "vectors": vectors.name, "digest": digest, "count": index.ntotal, "width": index.d}
    text = json.dumps({**facts, **dataclasses.asdict(kept)}, indent=1).encode()
    write_atomically(vectors, lambda file: file.write(data))
    write_atomically(folder / ABOUT, lambda file: file.write(text))
    for other in older:
        if other != vectors:
            other.unlink(missing_ok=True)
    return folder


def check_place(path: str | os.PathLike[str]) -> tuple[Path, list[Path]]:
    """The folder, and the files with older vectors in it, if an index may be written there; nothing is written yet.

    Raises
    ------
    LabError : no path; the folder holds something else; it cannot be made or written to.
    """
    folder = check_path("path", path)
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.stat(folder)  # a link that leads back to itself is nothing there to `exists`, and yet no folder can be made
        older = _older_vectors(folder)
        above = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    except OSError as error:
        raise storage_error(path, error) from error
    if not above.is_dir() or not os.access(above, os.W_OK):
        got = f"{above}, which is {'read-only' if above.is_dir() else 'a file'}"
        raise LabError(str(path), "a place that may be written to", got, "Choose another folder, or make it writable.")
    return folder, older


def _older_vectors(folder: Path) -> list[Path]:
    """Files with vectors that an index has left in `folder`, also one whose writing was interrupted.

    Raises
    ------
    LabError : there is something that no index has put there, and an index would take its place or hide among it.
    """
    wanted, hint = "an index, an empty folder, or nothing there yet", "Choose another name."
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise LabError(str(folder), wanted, "a file", hint)
    # A name made of the content's digest is nobody else's.
    ours = [one for one in folder.iterdir() if (named := _VECTORS.fullmatch(one.name)) and _digest(one).startswith(named[1])]
    about = folder / ABOUT
    if about.exists():
        try:
            facts = json.loads(about.read_bytes())
            known = folder / _vectors_name(facts)
        except Exception as error:  # JSON of any other kind, or none
            raise LabError(str(folder), wanted, f"something else: an {ABOUT} that is no index's", hint) from error
        return list({*ours, known})
    others = [one.name for one in folder.iterdir() if one not in ours and not _UNFINISHED.fullmatch(one.name)]
    if others:
        raise LabError(str(folder), wanted, f"something else: {min(others)!r}", hint)
    return ours


def _vectors_name(facts: Any) -> str:
    """Name of the file with the vectors, which begins like their digest; ValueError where no index has written `facts`."""
    named = _VECTORS.fullmatch(facts["vectors"])
    if named is None or not facts["digest"].startswith(named[1]) or type(facts["format"]) is not int:
        raise ValueError("not the names that an index gives")
    return named[0]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def read_index(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], Kept]:
    """Vectors (n, D) and the rest of an index. The vectors' bytes are compared with their digest before faiss sees them.

    Raises
    ------
    LabError : no index there, a damaged one, or one of a newer labkit.
    """
    folder = check_path("path", path)
    about = folder / ABOUT
    if not about.is_file():
        raise LabError(str(path), f"the folder of an index, with {ABOUT}", "none", _AGAIN)
    try:
        facts = json.loads(about.read_bytes())
        found = facts["format"]
        if type(found) is not int or found != FORMAT:
            raise LabError(str(path), f"an index of format {FORMAT}", f"format {found!r}", "Update labkit.")
        data = (folder / _vectors_name(facts)).read_bytes()
        if hashlib.sha256(data).hexdigest() != facts["digest"]:
            raise LabError(str(path), "the vectors that belong to it", "others, or a damaged file", _AGAIN)
        vectors = _vectors(data)
        kept = Kept(**{field.name: facts[field.name] for field in dataclasses.fields(Kept)})
        counts = {len(vectors), facts["count"], len(kept.paths), len(kept.classes)}
        if len(counts) > 1 or vectors.shape[1] != facts["width"] or vectors.shape[1] % kept.levels:
            named = f"{len(kept.paths)} paths, {len(kept.classes)} classes, {kept.levels} levels"
            got = f"{facts['count']!r} of width {facts['width']!r}, {named}"
            wanted = f"a path and a class for each of {len(vectors)} vectors of width {vectors.shape[1]}, in equal levels"
            raise LabError(str(path), wanted, got, _AGAIN)
    except LabError as error:
        if error.argument == str(path):
            raise
        raise LabError(f"{path}, {error.argument}", error.expected, error.got, error.hint or _AGAIN) from error
    except OSError as error:
        raise storage_error(path, error) from error
    except Exception as error:  # JSON of another kind, or vectors that faiss does not take
        raise LabError(str(path), "an index as labkit writes it", f"a damaged one ({said(error, 120)})", _AGAIN) from error
    return vectors, kept


def _vectors(data: bytes) -> NDArray[np.float32]:
    """The vectors in a file of faiss. Its other kinds of index cannot all give theirs back, and some end the process."""
    import faiss

    kind, width, count = _HEAD.unpack_from(data)
    if kind != _FLAT or width < 1 or count < 1 or len(data) < 4 * width * count:
        raise ValueError(f"vectors of another kind, {kind!r}, or cut off")
    index = faiss.deserialize_index(np.frombuffer(data, dtype=np.uint8))
    if type(index) is not faiss.IndexFlatL2:
        raise ValueError(f"a {type(index).__name__} instead of an IndexFlatL2")
    vectors: NDArray[np.float32] = index.reconstruct_n(0, index.ntotal)
    return vectors
