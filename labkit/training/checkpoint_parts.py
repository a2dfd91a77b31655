"""Whether what a trainer has taken from a checkpoint can be gone on with: what is odd is told then, not where it breaks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.training.optimisation import build_optimizer
from labkit.training.recording_parts import check_parts
from labkit.validation import check_flag, check_number, describe

if TYPE_CHECKING:
    from labkit.training.trainer import Trainer

MOMENTS = {"Adam": ["exp_avg", "exp_avg_sq", "step"], "SGD": ["momentum_buffer"]}
STEP = torch.zeros(())  # as Adam counts each weight's
KEPT = {"step", "problem", "map_at_r"}  # metrics that later evaluations look back at


def _check_optimizer(trainer: Trainer) -> None:
    """Groups with the settings of this experiment, but for the rate, which its schedule moves; moments that fit the weights."""
    optimizer = trainer.optimizer
    fresh = build_optimizer(trainer.experiment.optimizer, trainer.model, trainer.learnt)
    for group, own in zip(optimizer.param_groups, fresh.param_groups, strict=True):
        for name in own.keys() - {"params", "lr"}:
            if type(group.get(name)) is not type(own[name]) or group[name] != own[name]:
                raise LabError(f"{own['name']}.{name}", repr(own[name]), describe(group.get(name)))
        check_number(f"{own['name']}.lr", group["lr"], low=0)
    known = MOMENTS[type(optimizer).__name__]
    for weight, moments in optimizer.state.items():
        if not isinstance(weight, Tensor) or sorted(moments) != known:
            raise LabError("state", f"{', '.join(known)} for a weight", f"{', '.join(moments)} for {describe(weight)}")
        for name, value in moments.items():
            if name == "momentum_buffer" and value is None:
                continue
            _check_tensor(name, value, STEP if name == "step" else weight.detach())
            if name == "step":
                check_number(name, value.item(), low=0)


def _check_scaler(trainer: Trainer) -> None:
    """Numbers; a scaler that does not scale has none."""
    for name, value in trainer.scaler.state_dict().items():
        check_number(name, value, low=0)


def _check_losses(trainer: Trainer) -> None:
    for name, value in trainer.losses.state_dict().items():
        check_number(name, value, low=0 if name == "count" else -math.inf)


def _check_counts(trainer: Trainer) -> None:
    check_number("steps_done", trainer.steps_done, low=0, high=trainer.experiment.steps, whole=True)
    check_flag("done", trainer.done)
    check_number("seconds", trainer.seconds, low=0)


def _check_best(trainer: Trainer) -> None:
    """Weights of this network, which are put into it only when the run is over."""
    best = trainer.best
    check_number("score", best.score, low=-1, high=1)
    check_number("step", best.step, low=0, high=trainer.steps_done, whole=True)
    check_number("waited", best.waited, low=0, whole=True)
    observed = best.score >= 0
    _check_weights("weights", best.weights, trainer.model.state_dict() if observed and trainer.experiment.by_validation else {})
    if observed and trainer.projections is not None:
        _check_tensor("references", best.references, trainer.projections.proxies.detach())
    elif best.references is not None:
        raise LabError("references", "None", describe(best.references))


def _check_projections(trainer: Trainer) -> None:
    """Solutions of this network, which are looked at only at the next step and at the problem's end."""
    if trainer.projections is None:
        return
    progress = trainer.projections.progress
    if progress.observed:
        _check_weights("best_weights", progress.best_weights, trainer.model.state_dict())
    trainable = [weight.detach() for weight in trainer.model.parameters() if weight.requires_grad] if progress.problem else []
    previous = progress.previous_weights or []
    _check_weights("previous_weights", dict(enumerate(previous)), dict(enumerate(trainable)))


def _check_anchors(trainer: Trainer) -> None:
    """A training picture for each proxy; there may be none yet, or none at all."""
    anchors, projections = trainer.references.anchors, trainer.projections
    if anchors is None and (trainer.experiment.method != "samples" or not trainer.recorder.steps):
        return
    if projections is None:
        raise LabError("anchors", "None", describe(anchors))
    _check_tensor("anchors", anchors, torch.zeros(projections.proxies.shape[:2], dtype=torch.int64))
    assert anchors is not None
    if int(anchors.min()) < 0 or int(anchors.max()) >= len(trainer.pictures.labels):
        raise LabError("anchors", f"places in {len(trainer.pictures.labels)} pictures", f"{anchors.min()} … {anchors.max()}")


def _check_recorder(trainer: Trainer) -> None:
    """Parts that a recording can be made of, and that go on with this run."""
    recorder, projections = trainer.recorder, trainer.projections
    if not recorder.steps and trainer.steps_done == 0 and not (recorder.embeddings or recorder.proxies or recorder.metrics):
        return
    for step in recorder.steps:
        check_number("steps", step, low=0, high=trainer.steps_done, whole=True)
    recording = recorder.recording()
    check_parts(recording)
    if recording.embeddings.shape[2] != trainer.model.embedding_size:
        raise LabError("embeddings", f"(T, n, {trainer.model.embedding_size})", f"shape {recording.embeddings.shape}")
    found = None if recording.proxies is None else recording.proxies.shape[1:]
    wanted = None if projections is None else tuple(projections.proxies.shape)
    if found != wanted:
        raise LabError("proxies", f"snapshots of shape {wanted}", found)
    if not recording.metrics.keys() >= KEPT or not len(recording.metrics["step"]):
        raise LabError("metrics", ", ".join(sorted(KEPT)), ", ".join(recording.metrics) or "none")
    running = 0 if projections is None else projections.problem
    closed, newest = len(recording.problems), recording.metrics["problem"][-1]
    if newest > running or closed not in ((running, running + 1) if trainer.done else (running,)):
        raise LabError("problems", f"those before problem {running}, which is running", f"{closed}, evaluated in {newest:g}")
    for event in recording.events:
        if type(event.get("step")) is not int or not isinstance(event.get("what"), str):
            raise LabError("events", "a step and words for each", describe(event))
    json.dumps([recording.events, recording.final])  # as they will be written


def _check_weights(name: str, weights: Any, wanted: Mapping[Any, Tensor]) -> None:
    if not isinstance(weights, dict) or weights.keys() != wanted.keys():
        raise LabError(name, f"the {len(wanted)} tensors of the network", describe(weights))
    for key, value in wanted.items():
        _check_tensor(f"{name}[{key!r}]", weights[key], value)


def _check_tensor(name: str, value: Any, like: Tensor) -> None:
    if not isinstance(value, Tensor) or (value.shape, value.dtype) != (like.shape, like.dtype):
        raise LabError(name, describe(like), describe(value))


CHECKS: dict[str, Callable[[Trainer], None]] = {  # in this order: later ones count on the steps
    "steps_done, done or seconds": _check_counts,
    "projections": _check_projections,
    "optimizer": _check_optimizer,
    "scaler": _check_scaler,
    "losses": _check_losses,
    "best": _check_best,
    "recorder": _check_recorder,
    "anchors": _check_anchors,
}
