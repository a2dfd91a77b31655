"""What the playground starts with, and what to look for in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from labkit.training import Experiment
from labkit.validation import check_choice

# The fast network with a rate that stays as it is set, for as long as anybody watches.
_LIVE: Mapping[str, Any] = {
    "steps": 20_000,
    "stop_patience": 0,
    "sample_size": 1000,
    "evaluate_every": 25,
    "optimizer.schedule": "constant",
    "optimizer.learning_rate": 2e-3,
    "optimizer.warmup_steps": 50,
}


class Preset(NamedTuple):
    """A name for the menu, the method, the settings that differ from a live run's, and what to notice."""

    label: str
    method: str
    changes: Mapping[str, Any]
    notice: str


PRESETS: dict[str, Preset] = {
    "collapse": Preset(
        "Collapse: one proxy problem",
        "proxy",
        {},
        "Press Play. The four squares of each class run together: the proxy spread falls tenfold and more. At about step 700 "
        "(half a minute on an idle machine, two or three on a busy one) press Next problem, once: the squares jump to the "
        "rings, samples that K-Center chose, and the 95 % cover shrinks. Watch what MAP@R does in the next 300 steps; it need "
        "not rise.",
    ),
    "ccp": Preset(
        "CCP: alternating projections",
        "ccp",
        {},
        "Whenever MAP@R has not improved for a while, the problem ends (dotted line) and the proxies start anew from "
        "samples that K-Center chose. Each time the spread jumps up and falls again.",
    ),
    "samples": Preset(
        "Samples instead of proxies",
        "samples",
        {},
        "The squares are real pictures, embedded afresh at every step: they cannot collapse, since pictures cannot move "
        "at will. It costs an embedding more per step, and their cover is what a class's own samples allow.",
    ),
    "random": Preset(
        "Random choice against K-Center",
        "ccp",
        {"projections.selection": "random"},
        "The next proxies are drawn at random: rings often lie side by side, and the 95 % cover after a new start is "
        "wider. Switch Selection to K-Center: from the next problem on the rings lie apart.",
    ),
    "large_lambda": Preset(
        "λ far too large",
        "ccp",
        {"projections.projection_weight": 10.0},
        "From the second problem on the network is held at its last solution: proxies move, samples hardly do, and MAP@R "
        "stays where it was. Lower λ and see it come free.",
    ),
    "k1": Preset(
        "One proxy per class",
        "ccp",
        {"projections.proxies_per_class": 1},
        "With K = 1 there is no spread to lose (its curve is empty), and one point has to stand for the whole class: the "
        "95 % cover is as wide as the class.",
    ),
}


def live_experiment(preset: str, **changes: Any) -> Experiment:
    """The experiment of a playground preset: the proof of concept's, without an end and at a constant rate.

    Raises
    ------
    LabError : an unknown preset or setting.
    """
    chosen = PRESETS[check_choice("preset", preset, PRESETS)]
    base = Experiment.preset(f"poc-{chosen.method}", name=f"playground-{preset}", **_LIVE)
    return base.replace(**{**chosen.changes, **changes})
