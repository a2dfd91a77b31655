"""Pictures by their embeddings, searched exactly with faiss, and kept on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labkit.datasets.catalogue import PARTS
from labkit.datasets.folder import every_picture
from labkit.errors import LabError
from labkit.geometry import NORMALIZATIONS
from labkit.serving.index_arrays import names_of, narrowed, tensor_of
from labkit.serving.index_files import Kept, check_place, read_index, write_index
from labkit.serving.model_card import normalized_rows
from labkit.serving.picture_files import Embeds, Files, check_model, embed_pictures
from labkit.validation import check_choice, check_embeddings, check_number, check_path, check_word, describe

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float32]


class ImageIndex:
    """Nearest neighbours among the embeddings of some pictures, exact, by Euclidean distance.

    Parameters
    ----------
    embeddings : floats (n, D), none beyond 1e15 in magnitude.
    paths : n names of pictures. classes : n names of their classes, "" where there is none.
    normalize : "lipschitz", "l2" or "none": done to the embeddings here, and to what is searched for; twice makes no
        difference. levels : equal parts of an embedding that are normalised each by itself.
    model : digest of the weights that made them (`ModelCard.weights`); "" where they are not known.
    folder : that `paths` are relative to.

    Attributes
    ----------
    embeddings : float32 (n, D), normalised.

    Raises
    ------
    LabError : arrays that disagree, no picture, NaN, numbers beyond 1e15, an unknown normalisation.

    Examples
    --------
    >>> index = ImageIndex(torch.tensor([[0.0, 0.0], [0.0, 1.0]]), ["a.png", "b.png"], ["ant", "bee"], normalize="none")
    >>> index.search(torch.tensor([0.0, 0.9]), k=1)
       rank  distance class   path
    0     1       0.1   bee  b.png
    """

    def __init__(
        self,
        embeddings: Tensor | NDArray[Any],
        paths: Sequence[str],
        classes: Sequence[str],
        *,
        normalize: str,
        levels: int = 1,
        model: str = "",
        folder: str | os.PathLike[str] = "",
    ) -> None:
        import faiss

        self.normalize, self.levels = check_choice("normalize", normalize, (*NORMALIZATIONS, "none")), levels
        self.model, self.folder = check_word("model", model), check_path("folder", folder)
        rows = check_embeddings("embeddings", tensor_of("embeddings", embeddings))
        if check_number("levels", levels, low=1, whole=True) and rows.shape[1] % levels:
            raise LabError("levels", f"a divisor of the embeddings' width, {rows.shape[1]}", levels)
        self.paths, self.classes = names_of("paths", paths, len(rows)), names_of("classes", classes, len(rows))
        self.embeddings: Floats = self._rows("embeddings", rows)
        self._faiss = faiss.IndexFlatL2(rows.shape[1])
        self._faiss.add(self.embeddings)

    def __len__(self) -> int:
        return len(self.paths)

    @classmethod
    def of_folder(
        cls, model: Embeds, folder: str | os.PathLike[str], *, unusable: str = "refuse", progress: bool = False
    ) -> ImageIndex:
        """Embed every picture in a folder and in those inside it.

        A picture's class is the name of the first folder below `folder` that it lies in (of the second where the first ones
        are train, test, query and gallery alone); "" for pictures in `folder` itself. Files are listed as `read_folder` lists
        them: a class's folder may be a link to elsewhere, and what is hidden is passed over.

        Parameters
        ----------
        model : a `WholeModel` or an `ExportedModel`. unusable : "refuse" or "skip" what cannot be used as a picture.

        Raises
        ------
        LabError : no such folder, no picture in it, one that cannot be used, a link to a folder that is listed already.
        """
        top, card = check_path("folder", folder), check_model(model).card
        if not top.is_dir():
            raise LabError(str(folder), "a folder of pictures", "a file" if top.exists() else "nothing there")
        names = sorted(picture.relative_to(top).as_posix() for picture in every_picture(top))
        if not names:
            raise LabError(str(folder), "at least one picture", "none")
        embeddings, kept = embed_pictures(model, [top / name for name in names], unusable=unusable, progress=progress)
        names = [names[i] for i in kept]
        return cls(
            embeddings, names, _classes(names),
            normalize=card.normalize, levels=card.levels, model=card.weights, folder=top.absolute(),
        )  # fmt: skip

    def search(self, query: Files | Tensor | NDArray[Any], k: int = 10, model: Embeds | None = None) -> pd.DataFrame:
        """The k nearest pictures of each query, nearest first; of equally near ones the first in the index comes first.

        A picture that is in the index itself finds itself, at distance 0.

        Parameters
        ----------
        query : a picture file or several, which `model` embeds; or embeddings (D,) or (m, D).
        k : how many, at most as many as there are. model : the one whose embeddings are in the index.

        Returns
        -------
        DataFrame with the columns rank (from 1), distance, class, path; and first, for several queries, query: the file,
        or the number of the row.

        Raises
        ------
        LabError : an embedding of another width, NaN, numbers beyond 1e15, a picture without a model, a model whose
            embeddings are others than those in the index, k out of range, a file that is no picture.
        """
        import pandas as pd

        wanted = int(check_number("k", k, low=1, high=len(self), whole=True))
        single, names, rows = self._queries(query, model)
        if rows.shape[1] != self.embeddings.shape[1]:
            raise LabError("query", f"embeddings of width {self.embeddings.shape[1]}, as in the index", f"width {rows.shape[1]}")
        found, distances = self.nearest(self._rows("query", rows), wanted)
        flat = found.ravel()
        table = {
            "query": np.repeat(np.array(names, dtype=object), wanted),
            "rank": np.tile(np.arange(1, wanted + 1), len(names)),
            "distance": distances.ravel(),
            "class": [self.classes[i] for i in flat],
            "path": [self.paths[i] for i in flat],
        }
        frame = pd.DataFrame(table)
        return frame.drop(columns="query") if single else frame

    def _queries(self, query: Any, model: Embeds | None) -> tuple[bool, list[Any], Tensor]:
        """Whether it is one, what to call each, and their embeddings (m, D)."""
        if isinstance(query, (Tensor, np.ndarray)):
            rows = tensor_of("query", query)
            rows = check_embeddings("query", rows[None] if rows.ndim == 1 else rows)
            return query.ndim == 1, [*range(len(rows))], rows
        if not isinstance(query, (str, os.PathLike, Sequence)) or isinstance(query, bytes):
            raise LabError("query", "a picture file or several, or embeddings (D,) or (m, D)", describe(query))
        files = [query] if isinstance(query, (str, os.PathLike)) else list(query)
        rows = embed_pictures(self._checked(model), files)[0]
        return not isinstance(query, Sequence) or isinstance(query, str), [str(file) for file in files], rows

    def nearest(self, queries: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
        """(m, k) places in the index, and distances, of normalised queries (m, D); ties go to the lower place."""
        rough, _ = self._faiss.search(queries, k)
        # faiss may form ‖x‖² + ‖y‖² − 2xᵀy, which is inexact where points are close, and which of several equally far
        # ones it returns last is chance: so all within its radius, and a little more, are looked at again.
        slack = 1e-5 * (np.square(queries).sum(axis=1) + float(np.square(self.embeddings).sum(axis=1).max())) + 1e-12
        places = np.empty((len(queries), k), dtype=np.int64)
        distances = np.empty((len(queries), k), dtype=np.float32)
        for row, query in enumerate(queries):
            _, _, near = self._faiss.range_search(query[None], float(rough[row, -1] + slack[row]))
            near.sort()
            exact = np.linalg.norm(self.embeddings[near] - query, axis=1)
            order = np.argsort(exact, kind="stable")[:k]
            places[row], distances[row] = near[order], exact[order]
        return places, distances

    @staticmethod
    def check_place(path: str | os.PathLike[str]) -> None:
        """Refuse a folder that `save` would refuse, before the pictures are embedded. Writes nothing.

        Raises
        ------
        LabError : no path; something else lies in the folder; it cannot be made or written to.
        """
        check_place(path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the index as a folder: `index.json`, and the vectors as a file of faiss (`faiss.read_index` opens it).

        At any moment the folder holds the old index or the whole new one.

        Raises
        ------
        LabError : the disk is full or read-only, or something else lies in the folder.
        """
        kept = Kept(self.normalize, self.levels, self.model, str(self.folder), self.paths, self.classes)
        return write_index(path, self._faiss, kept)

    @classmethod
    def load(cls, path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> ImageIndex:
        """Open what `save` wrote.

        Parameters
        ----------
        folder : where the pictures lie now, if they have moved.

        Raises
        ------
        LabError : no index there, a damaged one, or one of a newer labkit.
        """
        vectors, kept = read_index(path)
        where = kept.folder if folder is None else folder
        # They were normalised before they were written; doing it again would change their last digits.
        index = cls(vectors, kept.paths, kept.classes, normalize="none", model=kept.model, folder=where)
        index.normalize, index.levels = kept.normalize, kept.levels
        return index

    def _rows(self, name: str, rows: Tensor) -> Floats:
        """float32, normalised, contiguous."""
        values: Floats = normalized_rows(narrowed(name, rows), self.normalize, self.levels).numpy()
        return np.ascontiguousarray(values)

    def _checked(self, model: Any) -> Embeds:
        if model is None:
            raise LabError("model", "the model whose embeddings are in the index, to embed a picture", "None")
        card = check_model(model).card
        mine = self.embeddings.shape[1], self.normalize, self.levels
        theirs = card.embedding_size, card.normalize, card.levels
        if mine != theirs:
            told = "width {}, {}, levels: {}"
            raise LabError("model", f"a model for this index: {told.format(*mine)}", told.format(*theirs))
        if self.model and card.weights != self.model:
            hint = "Build the index again with this model."
            raise LabError("model", f"the model of this index, weights {self.model[:12]}…", f"{card.weights[:12]}…", hint)
        found: Embeds = model
        return found


def _classes(names: Sequence[str]) -> list[str]:
    """The class of each picture by its path below the folder."""
    inside = [name.split("/")[:-1] for name in names]
    split = all(parts and parts[0] in PARTS for parts in inside)
    return [(parts[1:] if split else parts)[0] if len(parts) > split else "" for parts in inside]
