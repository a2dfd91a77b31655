"""The training loop: a synchronous `step(n)` that knows nothing of threads, widgets or figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from labkit.datasets import Splits
from labkit.errors import during
from labkit.training.best import BestModel
from labkit.training.embedder import Embedder
from labkit.training.evaluation import Evaluator
from labkit.training.experiment import Experiment
from labkit.training.given import check_given
from labkit.training.opening import open_pictures, open_splits
from labkit.training.optimisation import build_optimizer, choose_precision, prepare_groups
from labkit.training.own_settings import by_own_settings, check_no_inference, to_learn
from labkit.training.photographs import start_from_pca
from labkit.training.recorder import fixed_sample, start_recorder
from labkit.training.recording import Recording
from labkit.training.references import References
from labkit.training.registry import build_loss, build_network, build_projections, inner_loss, normalization
from labkit.training.run_folder import begin_folder, building_in, open_folder, run_identity
from labkit.training.running import run_to_the_end, save_and_tell
from labkit.training.running_loss import RunningLoss
from labkit.training.step_errors import errors_named
from labkit.training.synced_norm import synchronise_batch_norms
from labkit.training.trainer_state import state_of, take_state
from labkit.training.way_back import WayBack
from labkit.training.world import join_world
from labkit.validation import check_number

EARLY_SNAPSHOTS = (1, 2, 4, 8, 16, 32)  # the first steps change most, where a network starts from nothing
Callback = Callable[["Trainer", dict[str, float]], None]


class Trainer:
    """Runs an experiment step by step; with the others, where a launcher started several processes (`labkit.training.world`).

    Parameters
    ----------
    experiment : what to run.
    splits : the pictures; by default the experiment's data source is loaded.
    loss : a pair loss of your own in place of the experiment's; anything called like ours (`labkit.losses.FunctionLoss`
        makes one from a function). The recording names it; a rerun needs it given again.
    directory : where the run lives on disk, as `labkit.training.run_folder` says; None keeps it in memory.
    resume : go on from the directory's checkpoint. An interrupted run that is resumed ends with the same recording as
        one that was left alone.
    device : "auto", or a torch device's name.
    callbacks : each called as `callback(trainer, figures)` after every evaluation, in every process; `trainer.world.is_main`
        says in which one to write.

    Attributes
    ----------
    model, loss, projections : network, pair loss, and the `AlternatingProjections` around it (None for method "pairs").
    steps_done : optimiser steps so far. done : whether the run is over. world : the processes that train together.

    Examples
    --------
    >>> experiment = Experiment.preset("poc-ccp", steps=4, evaluate_every=2, sample_size=50, **{"data.source": "digits-8x8"})
    >>> trainer = Trainer(experiment)
    >>> trainer.step(2)
    >>> trainer.steps_done
    2
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        splits: Splits | None = None,
        loss: nn.Module | None = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        device: str = "auto",
        callbacks: Sequence[Callback] = (),
    ) -> None:
        check_given(experiment, splits, loss)
        check_no_inference(type(self).__name__)
        self.experiment, self.callbacks, self.world = experiment, list(callbacks), join_world(device)
        self.folder, state = open_folder(directory, experiment, resume, self.world)
        with building_in(self.folder):
            self._build(experiment, splits, loss)
            if state is None:
                begin_folder(self.folder, experiment, self.world)
            else:
                self.load_state_dict(state)

    @to_learn
    def _build(self, experiment: Experiment, splits: Splits | None, loss: nn.Module | None) -> None:
        self.device = self.world.device
        self.splits = open_splits(experiment, splits, self.world)
        dtype = choose_precision(experiment.network.precision, self.device)
        self.scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
        self.pictures = open_pictures(experiment, self.splits, self.world)
        weights, classes = self.pictures.generators["weights"], self.splits.train_classes
        model = synchronise_batch_norms(build_network(experiment, self.splits.train.images.shape[1], weights), self.world)
        self.loss: nn.Module = (build_loss(experiment, classes, weights) if loss is None else loss).to(self.device)
        self.projections = build_projections(experiment, self.loss, classes, self.device)
        self.normalized = normalization(self.loss) if self.projections is None else self.projections.normalized
        self.embedder = Embedder(model, self.pictures.standardize, self.normalized, self.world, dtype)
        self.model = self.embedder.model
        if experiment.network.head == "pca":
            with self.world.main_first():
                start_from_pca(self.model, self.splits, self.device)
        learnt = self.loss if self.projections is None or experiment.method == "samples" else self.projections
        self.learnt = list(learnt.parameters())
        self.optimizer = build_optimizer(experiment.optimizer, self.model, self.learnt)
        self.world.agree([*self.model.state_dict().values(), *self.learnt])
        self._way_back = WayBack(self.scaler, self.model, self.loss)
        self.references = References(experiment, self.loss, self.projections, self.pictures, self.embedder)
        self.sample = fixed_sample(self.splits, experiment.sample_size)
        self.evaluator = Evaluator(self.embed, self.sample, inner_loss(self.loss), self.world, self.splits.seen)
        self.recorder = start_recorder(experiment, self.splits, self.sample, self.device, dtype, loss)
        self.identity = run_identity(self.splits, loss)
        self._early_snapshots = () if experiment.data.is_photos else EARLY_SNAPSHOTS
        self.steps_done, self.done, self.seconds = 0, False, 0.0
        self.losses, self.best = RunningLoss(self.device), BestModel(experiment.by_validation)

    @by_own_settings
    def embed(self, images: Tensor) -> Tensor:
        """Bytes (n, c, h, w) -> normalised embeddings (n, D) on the CPU, by the live weights in eval mode."""
        return self.embedder.embed(images)

    @to_learn
    def step(self, n: int = 1) -> None:
        """Do n >= 0 optimiser steps (fewer if the run ends), with the evaluations and new problems that fall due.

        Raises
        ------
        LabError : training that diverges, a loss that is not finite, used up or cut off (the message says at which step),
            too little memory, torch.no_grad() around it, or another n.
        """
        for _ in range(int(check_number("n", n, low=0, whole=True))):
            if self.done:
                return
            started = time.perf_counter()
            with errors_named(self):
                self._one_step()
            self.seconds += time.perf_counter() - started

    def _one_step(self) -> None:
        if not self.recorder.steps:
            self._start()
        self._learn()
        self.steps_done += 1
        last = self.steps_done >= self.experiment.steps
        if self.steps_done % self.experiment.evaluate_every == 0 or last:
            self._evaluate(last)
        elif self.steps_done in self._early_snapshots:
            self.losses.check(self.steps_done)
            with during(f"step {self.steps_done}"):
                self.recorder.snapshot(self.steps_done, self.embed(self.sample.images), self.references.current())

    def _learn(self) -> None:
        self.model.train()
        indices, labels = self.pictures.batch()
        with during(f"step {self.steps_done + 1}"):
            loss = self.references.loss(indices, labels)
            self.optimizer.zero_grad(set_to_none=True)
            self._way_back(loss)
        self.world.reduce_gradients(self.model.parameters(), self.learnt)
        self.scaler.unscale_(self.optimizer)
        if self.projections is not None:
            self.projections.add_projection_gradient(self.model)
        prepare_groups(self.optimizer, self.experiment.optimizer, self.steps_done, self.experiment.steps)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.losses.add(loss)

    @to_learn
    def _start(self) -> None:
        """Before the first step: first proxies, and the untrained network's snapshot and figures."""
        self.references.choose(self.optimizer)
        self._record_evaluation(loss=float("nan"))

    def _record_evaluation(self, loss: float) -> dict[str, float]:
        references = self.references.current()
        embeddings, measured = self.evaluator.look(self.splits.held_out, references)
        self.recorder.snapshot(self.steps_done, embeddings, references)
        figures = {
            "step": float(self.steps_done),
            "problem": float(self.projections.problem if self.projections is not None else 0),
            "loss": loss,
            **measured,
            **self.evaluator.sides(embeddings, self.splits.train_classes),
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]) if self.steps_done else 0.0,
        }
        self.recorder.evaluation(figures)
        return figures

    def _evaluate(self, last: bool) -> None:
        mean_loss = self.losses.take(self.steps_done)
        with during(f"step {self.steps_done}"):
            figures = self._record_evaluation(mean_loss)
        proxies = None if self.projections is None else self.projections.proxies
        self.best.observe(figures["map_at_r"], self.steps_done, self.model, proxies)
        last = last or 0 < self.experiment.stop_patience <= self.best.waited
        verdict = "waiting" if self.projections is None else self.projections.observe(figures["map_at_r"], self.model)
        if last:
            self._finish()
        elif verdict == "next problem":
            self.recorder.close_problem(*self.references.start_anew(self.optimizer))
        save_and_tell(self, figures)

    @to_learn
    def next_problem(self) -> None:
        """End the running proxy problem here, as if patience had run out; with an evaluation, if this step had none."""
        if self.recorder.metrics["step"][-1] != self.steps_done:
            self._evaluate(last=False)
        if self.projections is not None and self.recorder.metrics["problem"][-1] == self.projections.problem:
            self.projections.close(self.model)
            self.recorder.close_problem(*self.references.start_anew(self.optimizer))

    def _finish(self) -> None:
        """Close the last problem, take the weights that the experiment wants, best or last, and judge them on the test set."""
        self.recorder.close_problem(self.references.current(), None)
        chosen, best = self.best.restore(self.model), self.best.references
        references = None if best is None else self.normalized(best.to(self.device)).cpu()
        self.recorder.final = {**chosen, **self.evaluator.judge(self.splits, references)}
        self.done = True

    def run(self, progress: bool = True) -> Recording:
        """Step until the run is over, with a progress bar; an interruption leaves what was recorded on disk.

        Returns the recording of the whole run; the model then holds the weights that `experiment.choose` says."""
        run_to_the_end(self, progress and self.world.is_main)
        return self.recording()

    def recording(self) -> Recording:
        """The run so far."""
        if not self.recorder.steps:
            self._start()
        return self.recorder.recording()

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the trainer that gave `state` stood; it must have run the same experiment on the same data.
        A part that is missing or belongs to another network is a LabError."""
        take_state(self, state)
        if self.folder is not None:
            self.folder.table.write(self.recorder.metrics)
