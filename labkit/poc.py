"""The proof of concept: one proxy problem and alternating projections, on the same digits, seed and budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.datasets import embedded_source, load_digits
from labkit.files import write_atomically
from labkit.report import write_report
from labkit.training import Experiment, Recording, Trainer

METHODS = {"poc-proxy": "one proxy problem", "poc-ccp": "CCP"}
ROWS = {
    "map_at_r": "MAP@R (held-out digits)",
    "covering_q95": "covering radius (95 %)",
    "covering_max": "covering radius (all)",
    "proxy_spread": "proxy spread",
    "inter_class_distance": "inter-class distance",
}


@dataclass(frozen=True)
class Outcome:
    """What a proof of concept leaves: the report's path, the recordings by preset, whether it was interrupted."""

    report: Path
    recordings: dict[str, Recording]
    interrupted: bool


def run_poc(
    folder: Path,
    *,
    seed: int = 0,
    steps: int | None = None,
    progress: bool = True,
    say: Callable[[str], object] = lambda line: None,
) -> Outcome:
    """Train both methods and write `report.html` and a recording of each to `folder`.

    Ctrl-C ends the training, not the work: what was recorded until then is written all the same.

    Parameters
    ----------
    folder : made where it is missing.
    seed, steps : of both experiments; `steps` None keeps the preset's.
    progress : show a bar on stderr for each training.
    say : gets the line that tells which data is in use.

    Raises
    ------
    LabError : the folder cannot be written to (found out before the training), or a setting is refused.
    """
    changes = {"seed": seed, "data.source": embedded_source()} | ({} if steps is None else {"steps": steps})
    experiments = {preset: Experiment.preset(preset, **changes) for preset in METHODS}
    for preset, experiment in experiments.items():
        text = experiment.to_json().encode()
        write_atomically(folder / f"{preset}.json", lambda file, text=text: file.write(text))  # type: ignore[misc]
    splits = load_digits(embedded_source())
    say(splits.description)
    recordings: dict[str, Recording] = {}
    interrupted = False
    for preset, experiment in experiments.items():
        trainer = Trainer(experiment, splits=splits)
        try:
            trainer.run(progress)
        except KeyboardInterrupt:
            interrupted = True
        if trainer.recorder.metrics:
            recordings[preset] = trainer.recording()
        if interrupted:
            break
    if not recordings:
        raise KeyboardInterrupt  # too early for anything to show
    for preset, recording in recordings.items():
        recording.save(folder / f"{preset}.npz")
    named = {METHODS[preset]: recording for preset, recording in recordings.items()}
    title = "Proxies collapse, alternating projections spread them"
    command = "labkit poc" + (f" --seed {seed}" if seed else "") + (f" --steps {steps}" if steps is not None else "")
    report = write_report(folder / "report.html", named, title=title, partial=interrupted, command=command)
    return Outcome(report, recordings, interrupted)


def summary(recordings: Mapping[str, Recording]) -> str:
    """A small table: where the first proxy problem of CCP ended, and where each method stands at the end.

    Both methods start alike (same seed), so that "before" is one column: the moment at which CCP gave up its first
    problem. Where there was no such moment yet, it is the untrained network.
    """
    shared = recordings.get("poc-ccp", next(iter(recordings.values())))
    turned = [problem.end for problem in shared.problems if problem.next_proxies is not None]
    columns = [("before", shared, turned[0] if turned else 0)]
    columns += [(METHODS[preset], run, int(run.metrics["step"][-1])) for preset, run in recordings.items()]
    figures = [_figures_at(run, step) for _, run, step in columns]
    rows = [["", *(name for name, _, _ in columns)], ["", *(f"step {step:,}" for _, _, step in columns)]]
    rows += [[title, *(f"{column[name]:.3g}" for column in figures)] for name, title in ROWS.items()]
    if all(run.final for run in recordings.values()):
        rows.append(["MAP@R (test digits)", "", *(f"{run.final['map_at_r']:.3g}" for run in recordings.values())])
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [
        row[0].ljust(widths[0]) + "".join("   " + cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
    before = "where CCP's first proxy problem ended; both are alike until then" if turned else "the untrained network"
    return "\n".join([*lines, f"(before: {before})"])


def _figures_at(recording: Recording, step: int) -> dict[str, float]:
    """The figures of the evaluation at `step`."""
    at = int((recording.metrics["step"] == step).argmax())
    return {name: float(recording.metrics[name][at]) for name in ROWS}
