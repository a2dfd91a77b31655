"""A small recording that looks like a real one: classes on a circle, proxies that collapse and are spread again."""

from __future__ import annotations

import numpy as np

from labkit.training.recording import Problem, Recording


def distance_to_nearest(points: np.ndarray, proxies: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) distance from each point to the nearest proxy of its own class, in a plain loop."""
    return np.array([min(np.linalg.norm(x - p) for p in proxies[c]) for x, c in zip(points, labels, strict=True)])


def make_recording(
    problems: int = 4,
    *,
    per_class: int = 12,
    snapshots: int = 17,
    classes: int = 10,
    dimensions: int = 2,
    last_step: int = 1600,
    seed: int = 0,
) -> Recording:
    """`problems` of equal length; in each a class's proxies shrink towards its centre, then jump apart again."""
    rng = np.random.default_rng(seed)
    steps = np.linspace(0, last_step, snapshots).round().astype(int)
    labels = np.tile(np.arange(classes), per_class)
    angle = 2 * np.pi * np.arange(classes) / classes
    noise = rng.normal(size=(classes * per_class, dimensions))
    offsets = rng.normal(size=(classes, 4, dimensions))
    length = last_step / problems
    embeddings, proxies, rows = [], [], []
    for step in steps:
        progress = step / last_step
        problem = min(int(max(step - 1, 0) // length), problems - 1)
        inside = (step - problem * length) / length
        centers = np.zeros((classes, dimensions))
        centers[:, 0], centers[:, 1] = np.cos(angle), np.sin(angle)
        centers *= 0.25 + 0.65 * progress**0.5
        width = 0.25 / (1 + 2 * progress + problem)
        x = centers[labels] + width * noise
        rho = centers[:, None] + width * offsets * 10 ** (-4.0 * inside)
        x, rho = (v / np.maximum(1, np.linalg.norm(v, axis=-1, keepdims=True)) for v in (x, rho))
        embeddings.append(x)
        proxies.append(rho)
        cover = distance_to_nearest(x, rho, labels)
        spread = np.mean([np.linalg.norm(r[i] - r[j]) for r in rho for i in range(4) for j in range(4) if i < j])
        by_class = [cover[labels == c] for c in range(classes)]
        rows.append(
            {
                "step": step, "problem": problem, "loss": 1.2 - progress + 0.02 * rng.normal(),
                "map_at_r": 0.6 + 0.35 * progress,
                "p_at_1": 0.7 + 0.28 * progress, "covering_mean": cover.mean(),
                "covering_max": np.mean([c.max() for c in by_class]),
                "covering_q95": np.mean([np.quantile(c, 0.95) for c in by_class]), "proxy_spread": spread,
                "inter_class_distance": 0.5 + 0.6 * progress, "violation": 0.3 - 0.2 * progress,
                "surrogate": 0.4 - 0.2 * progress,
                "learning_rate": 1e-3,
            }
        )  # fmt: skip
    closed = []
    for index in range(problems):
        end = round((index + 1) * length)
        snapshot = int(np.argmin(np.abs(steps - end)))
        members = [np.flatnonzero(labels == c)[:4] for c in range(classes)]
        chosen = np.stack([embeddings[snapshot][m] for m in members]) if index + 1 < problems else None
        closed.append(
            Problem(
                index,
                round(index * length),
                end,
                snapshot,
                end,
                float(rows[snapshot]["map_at_r"]),
                proxies[snapshot],
                chosen,
            )
        )
    yy, xx = np.mgrid[:28, :28]
    digits = [np.exp(-((((xx - 14) ** 2 + (yy - 14) ** 2) ** 0.5 - 4 - 0.5 * c) ** 2) / 4) * 255 for c in labels]
    return Recording(
        experiment={
            "name": "mnist-2d-ccp",
            "method": "ccp",
            "seed": 0,
            "steps": last_step,
            "loss": {"name": "c2", "options": {}},
        },
        steps=steps,
        embeddings=np.array(embeddings, dtype=np.float16).astype(np.float32),
        labels=labels,
        proxies=np.array(proxies, dtype=np.float32),
        metrics={key: np.array([row[key] for row in rows], dtype=float) for key in rows[0]},
        problems=closed,
        thumbnails=np.array(digits).astype(np.uint8),
        class_names=[str(c) for c in range(classes)],
        events=[{"step": 400, "what": "learning rate 1e-3 -> 5e-4"}],
        final={"map_at_r": 0.955, "p_at_1": 0.981},
        environment={"python": "3.11", "torch": "2.14.1", "threads": 2, "seconds": 41.5},
    )
