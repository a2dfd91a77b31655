"""A recording: a whole run in one file, small enough to mail and plain enough to load without running any code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.training.recording_parts import check_parts, halved, native, stored
from labkit.validation import check_path, describe

FORMAT = 1
Array = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """One proxy problem from its start to the moment it was closed.

    Attributes
    ----------
    index : t, 0 for the first.
    start, end : optimiser steps done when it began and when it ended.
    snapshot : index into `Recording.steps` of the snapshot taken at `end`, before the proxies started anew.
    best_step, best_map_at_r : where validation MAP@R was best within it.
    proxies : (C, K, D) converged proxies, those of the best evaluation; None where the method has none.
    next_proxies : (C, K, D) the chosen samples' embeddings that start the next problem; None for the last problem.
    """

    index: int
    start: int
    end: int
    snapshot: int
    best_step: int
    best_map_at_r: float
    proxies: Array | None = None
    next_proxies: Array | None = None


@dataclass
class Recording:
    """A run as arrays: what was set, what was measured, and where every recorded sample lay.

    Attributes
    ----------
    experiment : settings as `Experiment.to_dict` gives them.
    steps : (T,) optimiser steps done at each snapshot; the first is 0.
    embeddings : (T, n, D) float32, the fixed sample after the loss's normalisation. A run rounds each snapshot as
        `labkit.training.recording_parts.rounded` says.
    labels : (n,) class of each recorded sample.
    proxies : (T, C, K, D) float32, live proxies at each snapshot; None where the method has none.
    metrics : one (E,) array per figure, an entry per evaluation; `step` and `problem` say when.
    problems : closed problems in order.
    thumbnails : (n, h, w) bytes, the recorded samples as small pictures; None where none were kept.
    class_names : a name per class.
    events : what happened at a step, e.g. a control that was moved.
    final : figures of the chosen model on the test set.
    environment : versions, device, threads.

    Examples
    --------
    >>> import tempfile
    >>> recording = Recording({"name": "x"}, np.array([0]), np.zeros((1, 3, 2)), np.array([0, 1, 1]))
    >>> path = recording.save(Path(tempfile.mkdtemp()) / "x.npz")
    >>> Recording.load(path).embeddings.shape
    (1, 3, 2)
    """

    experiment: dict[str, Any]
    steps: Array
    embeddings: Array
    labels: Array
    proxies: Array | None = None
    metrics: dict[str, Array] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    thumbnails: Array | None = None
    class_names: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    final: dict[str, float] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recording as one compressed npz file, whole or not at all.

        `load` gives the same numbers again, bit for bit: embeddings and proxies as float32, metrics as float64, steps, labels
        and thumbnails as whole numbers, all else as JSON holds it. Embeddings that are all float16 numbers, such as those
        that a run has rounded, take half the room.

        Raises
        ------
        LabError : parts that `load` would refuse (nothing is written then), or the disk is full or read-only.
        """
        self._check_kinds()
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what has become infinite is refused below
                arrays, meta = self._to_parts()
            check_parts(self._from_parts(arrays, json.loads(meta)))
        except LabError:
            raise
        except RecursionError as error:
            expected = "experiment, events, final and environment that JSON can hold"
            raise LabError("recording", expected, "some that are nested too deep") from error
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            hint = "Recording's documentation gives the shape of each part."
            raise LabError("recording", "parts that fit together", str(error), hint) from error
        arrays["meta"] = np.frombuffer(meta, dtype=np.uint8)
        return write_atomically(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))

    def _check_kinds(self) -> None:
        for name in ("steps", "embeddings", "labels", "proxies", "thumbnails"):
            value = getattr(self, name)
            if not isinstance(value, np.ndarray) and (value is not None or name not in ("proxies", "thumbnails")):
                raise LabError(f"recording.{name}", "a NumPy array", describe(value), "Write np.asarray(…).")

    def _to_parts(self) -> tuple[dict[str, Array], bytes]:
        """What goes into the file: the arrays, and all the rest as JSON."""
        arrays: dict[str, Array] = {
            "steps": stored("steps", self.steps, np.int64),
            "embeddings": halved(stored("embeddings", self.embeddings, np.float32)),
            "labels": stored("labels", self.labels, np.int64),
        }
        if self.proxies is not None:
            arrays["proxies"] = stored("proxies", self.proxies, np.float32)
        if self.thumbnails is not None:
            arrays["thumbnails"] = stored("thumbnails", self.thumbnails, np.uint8)
        for name, values in self.metrics.items():
            arrays[f"metric_{name}"] = np.asarray(values, dtype=np.float64)
        problems = []
        for problem in self.problems:
            plain = asdict(problem)
            for part in ("proxies", "next_proxies"):
                if plain[part] is not None:
                    arrays[f"problem_{problem.index}_{part}"] = plain[part].astype(np.float32)
                plain[part] = plain[part] is not None
            problems.append(plain)
        meta = {
            "format": FORMAT,
            "experiment": self.experiment,
            "problems": problems,
            "class_names": self.class_names,
            "events": self.events,
            "final": self.final,
            "environment": self.environment,
        }
        return arrays, json.dumps(meta, default=_plain_number).encode()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a recording; a run's folder stands for the recording in it.

        Raises
        ------
        LabError : no path, no such file, not a recording, truncated or corrupt, or written by a newer labkit.
        """
        where = check_path("path", path)
        if where.is_dir():
            where = where / "recording.npz"
        if not where.is_file():
            raise LabError(str(path), "a recording (.npz) or the folder of a run", "nothing there")
        try:
            with np.load(where, allow_pickle=False) as file:
                arrays = {name: native(file[name]) for name in file.files}
            text = arrays.pop("meta")
            if text.dtype != np.uint8 or text.ndim != 1:
                raise ValueError(f"meta with shape {text.shape} and dtype {text.dtype}")
            meta = json.loads(text.tobytes())
        except Exception as error:  # numpy's and zip's readers raise whatever the damaged bytes lead them to
            hint = "Copy it again, or record the run again."
            raise LabError(str(path), "a whole recording as labkit writes it", f"a damaged file ({error})", hint) from error
        found = meta.get("format") if isinstance(meta, dict) else type(meta).__name__
        if type(found) is not int or not 1 <= found <= FORMAT:
            hint = "Update labkit." if type(found) is int and found > FORMAT else ""
            raise LabError(str(path), f"recording format {FORMAT} or older, from 1 on", f"format {found!r}"[:60], hint)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what has become infinite is refused below
                recording = cls._from_parts(arrays, meta)
            check_parts(recording)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise LabError(str(path), "every part of a recording", f"a missing or odd part ({error})") from error
        return recording

    @classmethod
    def _from_parts(cls, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> Recording:
        if arrays["embeddings"].dtype.kind not in "fiu":  # a complex number would lose its half below
            raise ValueError(f"embeddings of dtype {arrays['embeddings'].dtype}")
        problems = []
        for plain in meta["problems"]:
            parts = {
                part: arrays[f"problem_{plain['index']}_{part}"] if plain[part] else None
                for part in ("proxies", "next_proxies")
            }
            problems.append(Problem(**{**plain, **parts}))
        return cls(
            experiment=meta["experiment"],
            steps=arrays["steps"],
            embeddings=arrays["embeddings"].astype(np.float32),
            labels=arrays["labels"],
            proxies=arrays.get("proxies"),
            metrics={k.removeprefix("metric_"): v for k, v in arrays.items() if k.startswith("metric_")},
            problems=problems,
            thumbnails=arrays.get("thumbnails"),
            class_names=list(meta["class_names"]),
            events=list(meta["events"]),
            final=dict(meta["final"]),
            environment=dict(meta["environment"]),
        )


def _plain_number(value: Any) -> Any:
    """NumPy's numbers as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise LabError("recording", "numbers, words and lists in experiment, events, final and environment", repr(value)[:80])
