"""An experiment: every setting of a run in one frozen, validated value that travels as JSON."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from labkit.errors import LabError
from labkit.training.sections import Data, Loss, Memory, Network, Optimizer, Photos, Projections
from labkit.validation import check_choice, check_number, describe

METHODS = ("ccp", "proxy", "samples", "pairs")
CHOICES = ("auto", "best", "last")


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run. Equal experiments on one machine give equal recordings.

    Parameters
    ----------
    name : a name for people; the preset's, where it came from one.
    method : "ccp" (alternating projections), "proxy" (one proxy problem, never re-initialised; the usual way for a loss
        that owns its proxies), "samples" (anchor samples embedded afresh at every step instead of proxies), "pairs" (the
        batch's own pairs, and those with a memory where there is one; no proxies).
    seed : of every random number of the run.
    steps : optimiser steps, one batch each.
    evaluate_every : steps between two validation scores (E in the paper).
    choose : the weights that a finished run has and is judged by: "best" on the held-out pictures, or the "last", after all
        steps. "auto" takes the last under the conventional protocol, whose held-out pictures are a sample of the
        training pictures, the best elsewhere.
    stop_patience : evaluations without a better overall score after which the run ends early; 0 never does, nor does a
        run whose last weights are taken.
    sample_size : test pictures whose embeddings are recorded.

    Examples
    --------
    >>> experiment = Experiment.preset("mnist-2d-ccp", seed=1, **{"projections.patience": 5})
    >>> experiment.projections.patience
    5
    >>> Experiment.from_json(experiment.to_json()) == experiment
    True
    """

    name: str = "mnist-2d-ccp"
    method: str = "ccp"
    seed: int = 0
    steps: int = 2000
    evaluate_every: int = 50
    choose: str = "auto"
    stop_patience: int = 60
    sample_size: int = 3000
    data: Data = field(default_factory=Data)
    photos: Photos = field(default_factory=Photos)
    network: Network = field(default_factory=Network)
    loss: Loss = field(default_factory=Loss)
    memory: Memory = field(default_factory=Memory)
    projections: Projections = field(default_factory=Projections)
    optimizer: Optimizer = field(default_factory=Optimizer)

    def __post_init__(self) -> None:
        for part in dataclasses.fields(self):
            _check_type(part.name, getattr(self, part.name), get_type_hints(type(self))[part.name])
        check_choice("method", self.method, METHODS)
        check_number("seed", self.seed, low=0, high=2**31 - 1, whole=True)
        check_number("steps", self.steps, low=1, whole=True)
        check_number("evaluate_every", self.evaluate_every, low=1, whole=True)
        check_choice("choose", self.choose, CHOICES)
        check_number("stop_patience", self.stop_patience, low=0, whole=True)
        check_number("sample_size", self.sample_size, low=2, whole=True)
        for section in (self.data, self.photos, self.network, self.loss, self.memory, self.projections, self.optimizer):
            for part in dataclasses.fields(section):
                hints = get_type_hints(type(section))
                _check_type(f"{type(section).__name__.lower()}.{part.name}", getattr(section, part.name), hints[part.name])
            section.check()
        from labkit.training.registry import check_combination

        check_combination(self)

    @property
    def by_validation(self) -> bool:
        """Whether the best weights on the held-out pictures are taken, and patience ends the run."""
        conventional = self.data.is_photos and self.photos.protocol == "conventional"
        return self.choose == "best" or (self.choose == "auto" and not conventional)

    @classmethod
    def presets(cls) -> list[str]:
        """Names that `preset` knows, in order."""
        from labkit.training.presets import PRESETS

        return list(PRESETS)

    @classmethod
    def preset(cls, name: str, /, **changes: Any) -> Experiment:
        """The experiment of that name, with changes: a field's name, or `section.field` for one inside a section."""
        from labkit.training.presets import PRESETS

        if not isinstance(name, str) or name not in PRESETS:
            near = difflib.get_close_matches(str(name), PRESETS, n=3, cutoff=0.4)
            hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise LabError("preset", f"one of the {len(PRESETS)} that `labkit presets` lists", repr(name), hint)
        return PRESETS[name]().replace(**changes)

    def replace(self, **changes: Any) -> Experiment:
        """A copy with other settings, e.g. `replace(seed=1, **{"optimizer.learning_rate": 1e-3})`.

        `section.field` changes one field. A whole section, as a dataclass or a dictionary, takes the place of the old one:
        fields that a dictionary does not name take their defaults, not what they were.

        Raises
        ------
        LabError : unknown setting (the nearest is suggested), or a value that the setting refuses.
        """
        top: dict[str, Any] = {}
        for key, value in changes.items():
            head, _, rest = key.partition(".")
            check_choice("setting", head, [f.name for f in dataclasses.fields(self)])
            if not rest:
                top[head] = _section(head, value) if isinstance(value, Mapping) else value
                continue
            section = top.get(head, getattr(self, head))
            if not isinstance(section, type(getattr(self, head))):
                raise LabError(head, "a section, since one of its parts is set too", describe(section))
            if head == "loss" and rest.startswith("options."):
                if not isinstance(section.options, Mapping):
                    raise LabError("loss.options", "a dictionary, since one of its entries is set too", describe(section.options))
                options = {**section.options, rest.removeprefix("options."): value}
                top[head] = dataclasses.replace(section, options=options)
                continue
            if not dataclasses.is_dataclass(section):
                raise LabError("setting", f"{head!r} alone, since it has no parts", repr(key))
            check_choice("setting", key, [f"{head}.{f.name}" for f in dataclasses.fields(section)])
            top[head] = dataclasses.replace(section, **{rest: value})  # type: ignore[type-var]
        return dataclasses.replace(self, **top)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and numbers, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """The settings as indented JSON."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Experiment:
        """The experiment with these settings; what is missing takes its default, what is unknown is refused."""
        if not isinstance(settings, Mapping) or not all(isinstance(key, str) for key in settings):
            raise LabError("experiment", "a dictionary of settings by name", describe(settings))
        return cls().replace(**settings)

    @classmethod
    def from_json(cls, text: str | bytes) -> Experiment:
        """The experiment that `to_json` wrote.

        Raises
        ------
        LabError : no text, not JSON, or settings that are unknown or refused.
        """
        if not isinstance(text, (str, bytes, bytearray)):
            raise LabError("experiment", "JSON as to_json writes it, as text", describe(text))
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LabError("experiment", "JSON as to_json writes it", str(error)[:200]) from error
        if not isinstance(settings, dict):
            raise LabError("experiment", "a JSON object", describe(settings))
        return cls.from_dict(settings)


def _section(name: str, values: Mapping[str, Any]) -> Any:
    """The dataclass of a section from a dictionary of its fields."""
    kind = get_type_hints(Experiment)[name]
    if not dataclasses.is_dataclass(kind):
        raise LabError(name, "a single value", describe(dict(values)))
    for key in values:
        check_choice("setting", f"{name}.{key}", [f"{name}.{f.name}" for f in dataclasses.fields(kind)])
    return kind(**values)  # type: ignore[operator]


def _check_type(name: str, value: Any, kind: Any) -> None:
    """Refuse a value of another kind than the field's, e.g. a string where a number belongs."""
    if kind is float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, dict if getattr(kind, "__origin__", None) is dict else kind)
    if not fits:
        raise LabError(name, f"a value of type {getattr(kind, '__name__', kind)}", describe(value))
