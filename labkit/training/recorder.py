"""Collects a run while it goes on; a Recording can be taken of it at any moment."""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labkit.datasets import ImageSet, PhotoSet, PhotoSplits, Splits, spread_sample, stratified_split
from labkit.threads import give_way
from labkit.training.experiment import Experiment
from labkit.training.recording import Problem, Recording
from labkit.training.recording_parts import rounded
from labkit.training.sections import PHOTO_SOURCES
from labkit.validation import check_finite

ROOM = 256 * 2**20  # bytes of snapshots, above which a run thins them
THUMBNAIL = 32  # pixels of each side of a recorded photograph


class Recorder:
    """The growing lists behind a `Recording`.

    Parameters
    ----------
    fixed : parts that do not change: experiment, labels, thumbnails, class_names, environment.
    """

    def __init__(self, **fixed: Any) -> None:
        self.fixed = fixed
        self.room: int | None = ROOM  # None: every snapshot stays, for those who count them
        self.steps: list[int] = []
        self.embeddings: list[Tensor] = []
        self.proxies: list[Tensor] = []
        self.metrics: dict[str, list[float]] = {}
        self.problems: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.final: dict[str, float] = {}

    def snapshot(self, step: int, embeddings: Tensor, proxies: Tensor | None) -> None:
        """Keep where the samples (n, D), rounded as `rounded` says, and the proxies (C, K, D) lie now.

        Raises
        ------
        LabError : NaN or infinity, which no figure and no file takes.
        """
        check_finite("embeddings", embeddings)
        if proxies is not None:
            check_finite("proxies", proxies)
        self.steps.append(step)
        self.embeddings.append(rounded(embeddings))
        if proxies is not None:
            self.proxies.append(proxies.detach().float().cpu().clone())

    def evaluation(self, figures: dict[str, float]) -> None:
        """Keep one evaluation's figures, NaN for those that it lacks; its snapshot has been taken."""
        before = max(map(len, self.metrics.values()), default=0)
        for name in dict.fromkeys([*self.metrics, *figures]):
            self.metrics.setdefault(name, [math.nan] * before).append(float(figures.get(name, math.nan)))
        if self.room is not None and sum(t.nbytes for t in (*self.embeddings, *self.proxies)) > self.room:
            self._thin()

    def close_problem(self, proxies: Tensor | None, next_proxies: Tensor | None) -> None:
        """The running problem ends at the newest snapshot."""
        index = len(self.problems)
        steps, scores = np.array(self.metrics["step"]), np.array(self.metrics["map_at_r"])
        mine = np.flatnonzero(np.array(self.metrics["problem"]) == index)
        best = mine[scores[mine].argmax()]
        self.problems.append(
            {
                "index": index,
                "start": self.problems[-1]["end"] if self.problems else 0,
                "end": self.steps[-1],
                "snapshot": len(self.steps) - 1,
                "best_step": int(steps[best]),
                "best_map_at_r": float(scores[best]),
                "proxies": None if proxies is None else proxies.detach().float().cpu().clone(),
                "next_proxies": None if next_proxies is None else next_proxies.detach().float().cpu().clone(),
            }
        )

    def _thin(self) -> None:
        """Let go of every second snapshot, but for the first, the newest, the ends of problems and the best of each problem.

        What stays depends on the snapshots alone, so that a run that was interrupted ends with the same recording.
        """
        steps, scores, owners = (np.array(self.metrics[name]) for name in ("step", "map_at_r", "problem"))
        best = {int(steps[mine[scores[mine].argmax()]]) for mine in (np.flatnonzero(owners == o) for o in np.unique(owners))}
        ends = {problem["snapshot"] for problem in self.problems}
        last = len(self.steps) - 1
        kept = [i for i, step in enumerate(self.steps) if i % 2 == 0 or i == last or i in ends or step in best]
        self.embeddings = [self.embeddings[i] for i in kept]
        self.proxies = [self.proxies[i] for i in kept] if self.proxies else []
        self.steps = [self.steps[i] for i in kept]
        self.problems = [problem | {"snapshot": kept.index(problem["snapshot"])} for problem in self.problems]

    def recording(self) -> Recording:
        """The run so far; arrays of its own."""
        parts = ("proxies", "next_proxies")
        problems = [
            Problem(**{k: v.numpy().copy() if k in parts and v is not None else v for k, v in p.items()})
            for p in self.problems
        ]
        return Recording(
            steps=np.array(self.steps, dtype=np.int64),
            embeddings=torch.stack([e.float() for e in self.embeddings]).numpy(),
            proxies=torch.stack(self.proxies).numpy() if self.proxies else None,
            metrics={name: np.array(values) for name, values in self.metrics.items()},
            problems=problems,
            events=[dict(event) for event in self.events],
            final=dict(self.final),
            **self.fixed,
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that has been collected, as tensors, numbers and strings."""
        return {
            "steps": list(self.steps),
            "embeddings": list(self.embeddings),
            "proxies": torch.stack(self.proxies) if self.proxies else None,
            "metrics": {name: torch.tensor(values, dtype=torch.float64) for name, values in self.metrics.items()},
            "problems": self.problems,
            "events": self.events,
            "final": self.final,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.steps = list(state["steps"])
        self.embeddings = list(state["embeddings"])
        self.proxies = [] if state["proxies"] is None else list(state["proxies"].unbind(0))
        self.metrics = {name: values.tolist() for name, values in state["metrics"].items()}
        self.problems, self.events, self.final = list(state["problems"]), list(state["events"]), dict(state["final"])


def fixed_sample(splits: Splits, size: int) -> ImageSet:
    """`size` test pictures, the same for every run and seed; half of them of classes trained on, where others are judged.

    Of photographs they are all of the classes that are judged, and half as many of the classes trained on stand before them.
    """
    give_way()
    if splits.seen is None:
        return _part(splits.test, size)
    judged = size if isinstance(splits, PhotoSplits) else size - size // 2
    parts = _part(splits.seen, size // 2), _part(splits.test, judged)
    kind = type(parts[0])  # pictures, or features in their place
    return kind(torch.cat([p.images for p in parts]), torch.cat([p.labels for p in parts]))


def _part(pictures: ImageSet, size: int) -> ImageSet:
    if not isinstance(pictures, ImageSet):  # photographs, or features in their place
        part = pictures.subset(spread_sample(pictures.labels, size))
        return part.in_memory() if isinstance(part, PhotoSet) else part
    return pictures if size >= len(pictures) else pictures.subset(stratified_split(pictures.labels, size)[1])


def start_recorder(
    experiment: Experiment,
    splits: Splits,
    sample: ImageSet,
    device: torch.device,
    dtype: torch.dtype,
    loss: nn.Module | None,
) -> Recorder:
    """An empty recorder that knows the settings, the recorded pictures, the machine, and a loss that the caller gave."""
    grey = sample.images.float().mean(dim=1)
    if experiment.data.is_photos:
        grey = torch.nn.functional.interpolate(grey[:, None], (THUMBNAIL, THUMBNAIL), mode="area")[:, 0]
    # Others' photographs are not passed on with a recording, and features are nothing to look at.
    shown = experiment.data.source not in PHOTO_SOURCES and sample.images.dtype == torch.uint8
    recorder = Recorder(
        experiment=experiment.to_dict(),
        labels=sample.labels.numpy(),
        thumbnails=((grey / 17).round() * 17).to(torch.uint8).numpy() if shown else None,  # 16 shades compress to a third of 256
        class_names=list(splits.class_names),
        environment={
            "data": splits.description,
            **({} if splits.seen is None else {"train_classes": splits.train_classes}),  # classes from this on are never seen
            "device": str(device),
            "precision": str(dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    )
    if loss is not None:
        recorder.events.append({"step": 0, "what": f"loss given by the caller: {loss}"})
    return recorder
