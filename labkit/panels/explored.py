"""What the explorer explores: embeddings over snapshots with labels and pictures, and a selection of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.plots.embedding_map import evenly_per_class
from labkit.plots.neighbourhood import misread
from labkit.plots.reading import Floats, Ints, RecordingLike, check_recording, float_array, label_array, names_of
from labkit.plots.thumbnails import any_images
from labkit.validation import describe

if TYPE_CHECKING:
    import pandas as pd

MOST_DRAWN = 5000


class Explored:
    """Embeddings (T, n, D), class index of each sample, names, pictures; which samples are misread, found when asked.

    Attributes
    ----------
    x : (T, n, D). steps : (T,) or None where the source is no recording. codes : (n,) class indices. labels : (n,) as given.
    names : of each class. images : (n, h, w) or (n, h, w, 3), or None. drawn : rows of at most 5,000 samples, evenly per
    class, that a picture can hold.
    """

    def __init__(self, source: Any, labels: Any, images: Any, class_names: Sequence[str] | None) -> None:
        self.steps: list[int] | None = None
        if isinstance(source, RecordingLike):
            check_recording("source", source)
            labels = source.labels if labels is None else labels
            images = source.thumbnails if images is None else images
            class_names = source.class_names if class_names is None else class_names
            self.steps = [int(s) for s in source.steps]
            source = source.embeddings
        try:
            flat = np.ndim(source) == 2
        except ValueError:  # rows of different lengths, which float_array names
            flat = True
        self.x: Floats = float_array("source", source, "n, D" if flat else "T, n, D")
        self.x = self.x[None] if flat else self.x
        if self.x.shape[1] < 2:
            raise LabError("source", "at least two samples", f"shape {self.x.shape}")
        if labels is None:
            raise LabError("labels", f"one label per embedding, shape ({self.x.shape[1]},)", "None")
        self.labels: Ints = label_array("labels", labels, self.x.shape[1])
        classes, codes = np.unique(self.labels, return_inverse=True)
        self.codes: Ints = codes.reshape(-1).astype(np.int64)
        self.names = names_of(classes, class_names)
        self.images = None if images is None else any_images("images", images, len(self.labels))
        self.drawn = evenly_per_class(self.codes, MOST_DRAWN)
        self._misread: dict[int, NDArray[np.int8]] = {}  # by snapshot: 0 or 1 of each sample, -1 where nobody has asked

    def misread(self, snapshot: int, rows: Ints) -> NDArray[np.bool_]:
        """(m,) whether the nearest other sample of each of `rows` (m,) is of another class, in all D dimensions.

        Found when first asked for, and kept: of 5,000 samples it takes a moment, of very many that are selected longer.
        """
        known = self._misread.setdefault(snapshot, np.full(len(self.codes), -1, dtype=np.int8))
        new = rows[known[rows] < 0]
        if len(new):
            known[new] = misread(self.x[snapshot], self.codes, new)
        found: NDArray[np.bool_] = known[rows] == 1
        return found

    def rows_among(self, rows: Any) -> Ints:
        """(m,) rows that were asked for, ascending, each once.

        Raises
        ------
        LabError : no list of whole numbers, or a row that there is not.
        """
        try:
            asked = np.asarray(list(rows))
        except (TypeError, ValueError):  # a number, or lists of different lengths
            asked = np.array(None)
        if asked.ndim != 1 or (asked.size and asked.dtype.kind not in "iu"):
            raise LabError("rows", "whole numbers (m,)", describe(rows))
        beyond = asked[(asked < 0) | (asked >= len(self.labels))]
        if len(beyond):
            raise LabError("rows", f"rows 0 … {len(self.labels) - 1} of the samples", int(beyond[0]))
        return np.unique(asked).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Selection:
    """Samples chosen in the explorer: use it as an index, `embeddings[explorer.selection]`, or take its table.

    indices : (m,) rows of the samples, ascending.
    """

    indices: Ints
    _of: Explored
    _snapshot: int
    _xy: Floats

    @property
    def frame(self) -> pd.DataFrame:
        """One line per sample: label, class, whether it is misread, and where it lies in the picture; indexed by row."""
        import pandas as pd

        of, rows = self._of, self.indices
        columns = {
            "label": of.labels[rows],
            "class": [of.names[c] for c in of.codes[rows]],
            "misread": of.misread(self._snapshot, rows),
            "x": self._xy[:, 0],
            "y": self._xy[:, 1],
        }
        return pd.DataFrame(columns, index=pd.Index(rows, name="sample"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ints:
        return np.array(self.indices, dtype=dtype)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.indices[:8])) + (", …" if len(self) > 8 else "")
        return f"<{len(self)} samples selected: {shown}>" if len(self) else "<no samples selected>"
