"""Train what the notebooks show as tables: `LABKIT_DATA=… python notebooks/record.py STUDY …`, or `all`.

Each study writes `data/results/STUDY.json`: a row for every run with its settings, its figures on the test pictures, and
the seconds that it took. A row that is there already is not trained again, so that an interrupted study goes on where it
stopped; rows that ask for the same run share it. The runs use one thread each, two at a time.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import birds
import studies

from labkit.files import write_atomically
from labkit.training import Experiment
from labkit.training.presets_losses import CANDIDATES, RATES, candidate
from labkit.training.registry import LOSSES, owns_its_proxies

ROOT = Path(__file__).parent.parent
RESULTS, RECORDINGS = ROOT / "data" / "results", ROOT / "data" / "recordings"
TUNING_SEED = 100  # takes no part in any result
WORKERS = 2
BRANCH_SEEDS = (1, 2, 0)  # the first two are stuck at that step, the last is not


def tune() -> Iterator[studies.Row]:
    """Four candidates for each loss on each task."""
    for task, losses in CANDIDATES.items():
        for loss, settings in losses.items():
            for which in range(len(settings)):
                for rate in RATES:
                    key = {"task": task, "loss": loss, "which": which, "rate": rate, "seed": TUNING_SEED}
                    yield key, candidate(task, loss, which, rate).replace(seed=TUNING_SEED)


def losses() -> Iterator[studies.Row]:
    """The nine losses alone, as tuned, on both tasks; on unseen digits with CCP and with a memory as well."""
    for seed in studies.SEEDS:
        for task in ("2d", "unseen"):
            for loss in LOSSES:
                ways = [""] if task == "2d" else ["", "-ccp"]
                ways += ["-xbm"] if task == "unseen" and not owns_its_proxies(loss) else []
                for way in ways:
                    name = f"mnist-{task}-{loss.replace('_', '-')}{way}"
                    key = {"task": task, "loss": loss, "way": way.strip("-") or "alone", "seed": seed}
                    yield key, Experiment.preset(name, seed=seed)


STUDIES: dict[str, Callable[[], Iterator[studies.Row]]] = {
    "tune": tune,
    "losses": losses,
    "rll": studies.rll,
    "soft_triple": studies.soft_triple,
    "proxy_gml": studies.proxy_gml,
    "cub_tune": birds.tune,
    "cub": birds.rows,
}


def train(experiment: Experiment, record_to: str | None) -> dict[str, Any]:
    """One run in a process of its own: its figures, and what it took."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    np.random.seed(experiment.seed)  # pytorch-metric-learning's N-pair loss draws its pairs from this one
    started = time.perf_counter()
    trainer = studies.trainer(experiment)
    if experiment.seed == TUNING_SEED and experiment.data.is_photos:
        recording, figures = birds.validate(trainer)
    else:
        recording = trainer.run(progress=False)
        figures = recording.final | studies.more_figures(trainer, recording)
    if record_to is not None:
        birds.shorten(recording).save(record_to)
    return {
        "figures": {name: round(value, 5) for name, value in figures.items()},
        "seconds": round(time.perf_counter() - started, 1),
        "data": recording.environment["data"],
    }


def branches() -> None:
    """Notebook 02's five ways on from one step; each seed is one job, since its branches share the way there."""
    path = RESULTS / "branches.json"
    found = json.loads(path.read_text())["rows"] if path.is_file() else []
    rows = {seed: [row for row in found if row["key"]["seed"] == seed] for seed in BRANCH_SEEDS}
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"), initializer=one_thread) as pool:
        jobs = {pool.submit(studies.branches, seed): seed for seed in BRANCH_SEEDS if len(rows[seed]) < len(studies.BRANCHES)}
        for job in as_completed(jobs):
            rows[jobs[job]] = job.result()
            save(path, "branches", [row for seed in BRANCH_SEEDS for row in rows[seed]])
            for row in job.result():
                print(f"branches: {row['key']} {row['figures']}", flush=True)


def one_thread() -> None:
    """For a process of its own."""
    import torch

    torch.set_num_threads(1)


def study(name: str) -> None:
    """Train the rows of a study that are not there yet."""
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text()) if path.is_file() else {"rows": []}
    wanted = {json.dumps(key): (key, experiment) for key, experiment in STUDIES[name]()}
    known = {json.dumps(row["key"]): row for row in found["rows"]}
    rows = {
        k: known[k]
        for k, (_, experiment) in wanted.items()
        if k in known and Experiment.from_dict(known[k]["experiment"]) == experiment
    }
    todo: dict[str, list[str]] = {}  # one run serves all rows that ask for the same experiment
    for k in (k for k in wanted if k not in rows):
        todo.setdefault(wanted[k][1].to_json(), []).append(k)
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        jobs = {}
        for same in todo.values():
            key, experiment = wanted[same[0]]
            record = name == "cub" or name == "losses" and key["task"] == "2d" and key["seed"] == 0
            target = str(RECORDINGS / f"{experiment.name}-seed{experiment.seed}.npz") if record else None
            jobs[pool.submit(train, experiment, target)] = same
        for done, job in enumerate(as_completed(jobs), 1):
            for k in jobs[job]:
                key, experiment = wanted[k]
                rows[k] = {"key": key, **job.result(), "experiment": experiment.to_dict()}
            save(path, name, [rows[k] for k in wanted if k in rows])
            print(f"{name} {done} of {len(todo)}: {key} {job.result()['figures']['map_at_r']:.4f}", flush=True)


def save(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """The whole table, at every row, so that nothing is lost."""
    data = "" if name == "branches" else "LABKIT_DATA=... "  # the Playground's digits are those of a package
    about = {
        "command": f"{data}python notebooks/record.py {name}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, one thread a run, {WORKERS} runs at once",
    }
    text = json.dumps(about, indent=1)[:-2] + ',\n "rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n ]\n}\n"
    write_atomically(path, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] if sys.argv[1:] != ["all"] else [*STUDIES, "branches"]:
        if name == "branches":
            branches()
        else:
            study(name)
