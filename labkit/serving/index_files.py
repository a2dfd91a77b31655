"""An index on disk: a file of faiss with the vectors, and JSON with everything else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.files import storage_error, write_atomically

FORMAT = 1
ABOUT = "index.json"


@dataclass(frozen=True)
class Kept:
    """What an index is beside its vectors; the fields are those of `ImageIndex`."""

    normalize: str
    levels: int
    model: str
    folder: str
    paths: list[str]
    classes: list[str]


def write_index(path: str | os.PathLike[str], index: Any, kept: Kept) -> Path:
    """Write both files. The vectors come first, under a name made of their content; the JSON that names them makes them
    count; then older vectors go. So a reader finds one whole index whenever it looks.

    Raises
    ------
    LabError : the disk is full or read-only, or the folder holds something else.
    """
    import faiss

    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / ABOUT).is_file())):
        raise LabError(str(path), "an index, an empty folder, or nothing there yet", "something else", "Choose another name.")
    data = faiss.serialize_index(index).tobytes()
    digest = hashlib.sha256(data).hexdigest()
    vectors = folder / f"vectors-{digest[:16]}.faiss"
    facts = {"format": FORMAT, "vectors": vectors.name, "digest": digest, "count": index.ntotal, "width": index.d}
    text = json.dumps({**facts, **dataclasses.asdict(kept)}, indent=1).encode()
    write_atomically(vectors, lambda file: file.write(data))
    write_atomically(folder / ABOUT, lambda file: file.write(text))
    for other in folder.glob("vectors-*.faiss"):
        if other != vectors:
            other.unlink(missing_ok=True)
    return folder


def read_index(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], Kept]:
    """Vectors (n, D) and the rest of an index. The vectors' bytes are compared with their digest before faiss sees them.

    Raises
    ------
    LabError : no index there, a damaged one, or one of a newer labkit.
    """
    import faiss

    folder, hint = Path(path), "Build it again with `labkit index`."
    about = folder / ABOUT
    if not about.is_file():
        raise LabError(str(path), f"the folder of an index, with {ABOUT}", "none", hint)
    try:
        facts = json.loads(about.read_bytes())
        found = facts["format"]
        if found != FORMAT:
            raise LabError(str(path), f"an index of format {FORMAT}", f"format {found!r}", "Update labkit.")
        data = (folder / Path(facts["vectors"]).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != facts["digest"]:
            raise LabError(str(path), "the vectors that belong to it", "others, or a damaged file", hint)
        index = faiss.deserialize_index(np.frombuffer(data, dtype=np.uint8))
        vectors: NDArray[np.float32] = index.reconstruct_n(0, index.ntotal)
        kept = Kept(**{field.name: facts[field.name] for field in dataclasses.fields(Kept)})
        if not len(vectors) == len(kept.paths) == len(kept.classes):
            raise LabError(str(path), f"a path and a class for each of {len(vectors)} vectors", len(kept.paths), hint)
    except LabError:
        raise
    except OSError as error:
        raise storage_error(path, error) from error
    except Exception as error:  # JSON of another kind, or vectors that faiss does not take
        said = " ".join(str(error).split())[:120]
        raise LabError(str(path), "an index as labkit writes it", f"a damaged one ({said})", hint) from error
    return vectors, kept
