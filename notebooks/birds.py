"""The recorded runs on real bird photographs: which rows, how each was tuned, and what of a run is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from labkit.training import Experiment, Recording, Trainer

SEEDS = (0, 1, 2)
TUNING_SEED = 100  # takes no part in any result
RATES = (2e-5, 5e-5)  # of the network; proxies learn at 2e-3 with either
PAIRED = ("pretrained", "c2-ccp-l", "c2", "c2-proxy", "ms-ccp-l", "ms", "ms-proxy")  # of all seeds
OTHERS = ("c2-ccp-s", "soft-triple", "proxy-anchor", "rll-h", "proxy-gml")
TUNING_STEPS = 80
Row = tuple[dict[str, Any], Experiment]


def tune() -> Iterator[Row]:
    """Two learning rates for every row that trains, judged on the held-out classes alone."""
    for row in (*PAIRED[1:], *OTHERS):
        for rate in RATES:
            changes = {"optimizer.learning_rate": rate, "optimizer.proxy_multiplier": 2e-3 / rate}
            short = Experiment.preset(
                f"cub-lite0-{row}", seed=TUNING_SEED, evaluate_every=TUNING_STEPS, sample_size=100, **changes
            )
            yield {"row": row, "rate": rate, "seed": TUNING_SEED}, short


def rows() -> Iterator[Row]:
    """Every row at seed 0; those that are compared in pairs at all seeds."""
    for seed in SEEDS:
        for row in (*PAIRED, *OTHERS) if seed == 0 else PAIRED:
            yield {"row": row, "seed": seed}, Experiment.preset(f"cub-lite0-{row}", seed=seed)


def validate(trainer: Trainer) -> tuple[Recording, dict[str, float]]:
    """A tuning run: a few steps, and MAP@R of the held-out classes; the test pictures are not looked at."""
    trainer.step(TUNING_STEPS)
    recording = trainer.recording()
    return recording, {"map_at_r": float(recording.metrics["map_at_r"][-1])}


def shorten(recording: Recording) -> Recording:
    """A run on photographs, small enough to be passed on; other recordings as they are.

    What is kept: the sample at the start, at the end of every problem and where the model was chosen, and the converged
    proxies. Coordinates are rounded to 1 / 2048, which moves distances by some 2e-4 and saves a third of the file. Runs of
    the other seeds, which serve for comparison, go without proxies and are rounded once more, to 1 / 1024.
    """
    if not recording.experiment["name"].startswith("cub"):
        return recording
    chosen = recording.final["chosen_step"]
    ends = [p.snapshot for p in recording.problems]
    kept = sorted({0, *ends, *(i for i, step in enumerate(recording.steps) if step == chosen)})
    main = recording.experiment["seed"] == SEEDS[0]
    problems = [
        replace(
            p,
            snapshot=kept.index(p.snapshot),
            next_proxies=None,
            proxies=coarse(p.proxies) if main and p.proxies is not None else None,
        )
        for p in recording.problems
    ]
    embeddings = coarse(recording.embeddings[kept])
    embeddings = embeddings if main else coarse(embeddings, 1024)
    return replace(recording, steps=recording.steps[kept], embeddings=embeddings, problems=problems, proxies=None)


def coarse(values: NDArray[Any], parts: int = 2048) -> NDArray[Any]:
    """Multiples of 1 / parts, next to the values."""
    rounded: NDArray[Any] = (values * parts).round() / parts
    return rounded
