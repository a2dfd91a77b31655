"""What must be known about an embedding model to use it: written into every exported file."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.geometry import NORMALIZATIONS
from labkit.validation import check_choice, check_flag, check_number, check_word, describe

FORMAT = 1
INPUT = (
    "pictures: float32 (n, channels, size, size), bytes divided by 255; "
    "resized so that the shorter side is `side`, then the centre"
)
OUTPUT = "embeddings: float32 (n, embedding_size), normalised as `normalize` says; compare them by Euclidean distance"


@dataclass(frozen=True)
class ModelCard:
    """Facts about an embedding model.

    Parameters
    ----------
    name : of the experiment. network : of its backbone.
    channels : 3, or 1 for grey digits. size : pixels of each side that the network sees.
    side : the shorter side that a picture is resized to before its centre is cut out; `square` resizes both to it.
    embedding_size : D. normalize : "lipschitz", "l2" or "none"; of each of the `levels` equal parts of the embedding.
    mean, std : per channel, of pictures in 0 ... 1; the model subtracts and divides itself.
    weights : SHA-256 of the weights, which tells models apart.
    trained_on : names of the classes trained on. experiment : all settings of the run.

    Raises
    ------
    LabError : a fact of the wrong kind or out of range.
    """

    name: str
    network: str
    channels: int
    size: int
    side: int
    square: bool
    embedding_size: int
    normalize: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    weights: str
    levels: int = 1
    trained_on: tuple[str, ...] = ()
    experiment: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("name", "network", "weights"):
            check_word(f"card.{name}", getattr(self, name))
        check_number("card.channels", self.channels, low=1, high=3, whole=True)
        check_number("card.size", self.size, low=1, high=8192, whole=True)
        check_number("card.side", self.side, low=self.size, high=8192, whole=True)
        check_flag("card.square", self.square)
        check_number("card.embedding_size", self.embedding_size, low=1, high=2**20, whole=True)
        check_choice("card.normalize", self.normalize, (*NORMALIZATIONS, "none"))
        if check_number("card.levels", self.levels, low=1, whole=True) and self.embedding_size % self.levels:
            raise LabError("card.levels", f"a divisor of embedding_size = {self.embedding_size}", self.levels)
        for name, positive in (("mean", False), ("std", True)):
            values = getattr(self, name)
            if not isinstance(values, tuple) or len(values) != self.channels:
                raise LabError(f"card.{name}", f"a tuple of {self.channels}, one number a channel", describe(values))
            for value in values:
                check_number(f"card.{name}", value, low=0.0 if positive else -math.inf, open_low=positive)
        if not isinstance(self.trained_on, tuple) or not all(isinstance(name, str) for name in self.trained_on):
            raise LabError("card.trained_on", "a tuple of the classes' names", describe(self.trained_on))
        if not isinstance(self.experiment, dict):
            raise LabError("card.experiment", "the settings as a dictionary", describe(self.experiment))

    def to_json(self) -> str:
        """The facts as JSON, with two sentences for readers of the file about what goes in and what comes out."""
        return json.dumps({"format": FORMAT, "input": INPUT, "output": OUTPUT, **dataclasses.asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, source: str) -> ModelCard:
        """The card that `to_json` wrote into the file `source`.

        Raises
        ------
        LabError : no such card in it, a damaged one, or one of a newer labkit.
        """
        try:
            facts = json.loads(text)
            found = facts.pop("format")
            if type(found) is not int or found != FORMAT:
                raise LabError(source, f"a model card of format {FORMAT}", f"format {found!r}", "Update labkit.")
            tuples = {name: tuple(facts[name]) for name in ("mean", "std", "trained_on") if isinstance(facts[name], list)}
            known = {f.name for f in dataclasses.fields(cls)}
            return cls(**{name: value for name, value in facts.items() if name in known} | tuples)
        except LabError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            hint = "Write the file with `labkit export`."
            raise LabError(source, "a model with labkit's card in it", f"none ({str(error)[:120]})", hint) from error


def check_answer(card: ModelCard, n: int, answer: Any, source: str) -> Tensor:
    """Return what a model gave for `n` pictures if it is what its card says: finite float32 (n, embedding_size).

    Raises
    ------
    LabError : no tensor, another shape or dtype, NaN or infinite. source : what to call the model.
    """
    shape, wanted = (n, card.embedding_size), f"a model that gives finite float32 ({n}, {card.embedding_size}), as its card says"
    if not isinstance(answer, Tensor) or tuple(answer.shape) != shape or answer.dtype != torch.float32:
        raise LabError(source, wanted, describe(answer), "Export the model again with `labkit export`.")
    if not bool(torch.isfinite(answer).all()):
        raise LabError(source, wanted, f"{int((~torch.isfinite(answer)).sum()):,} NaN or infinite of {answer.numel():,}")
    return answer


def normalized_rows(x: Tensor, kind: str, levels: int = 1) -> Tensor:
    """`x` (n, D) with each of its `levels` equal parts normalised: "lipschitz", "l2" or "none".

    The plain formulas, without `labkit.geometry`'s care for lengths beyond 1e19: what an exporter can write down.
    """
    if kind == "none":
        return x
    parts = x.reshape(x.shape[0], levels, -1)
    lengths = torch.linalg.vector_norm(parts, dim=2, keepdim=True)
    unit: Tensor = parts / lengths.clamp(min=1.0 if kind == "lipschitz" else 1e-12)
    return unit.flatten(1)
