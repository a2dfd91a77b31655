"""The folds of a protocol, one run each, judged one by one and side by side."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import l2_normalize
from labkit.metrics import retrieval_metrics
from labkit.training.experiment import Experiment
from labkit.training.published import Published, published_beside
from labkit.training.tensorboard import TensorBoardLog
from labkit.training.trainer import Callback, Trainer

SHOWN = ("p_at_1", "map_at_r", "p_at_r")


@dataclass(frozen=True)
class FoldFigures:
    """What the models of all folds reach on the test classes.

    Parameters
    ----------
    separated : mean of the single models' figures, each in the space that its run was trained and judged in.
    concatenated : figures of their embeddings side by side: each normalised as its loss does, all together then to length 1.
    folds : figures of each model. row : the published row, None where there is none.
    """

    separated: dict[str, float]
    concatenated: dict[str, float]
    folds: list[dict[str, float]]
    row: Published | None


def train_folds(
    experiment: Experiment,
    directory: Path,
    *,
    loss: nn.Module | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: bool = True,
    tensorboard: bool = False,
    say: Callable[[str], object] = print,
) -> FoldFigures:
    """Train a model for each fold of the experiment's protocol and judge them together.

    Each fold's run lies in `directory/fold-0`, `fold-1`, … and is a run like any other. With `resume` folds that are done
    are only embedded, one that was interrupted goes on, the others start.

    Parameters
    ----------
    loss : one of your own in place of the experiment's, as `Trainer` takes it; each fold gets a copy, and no published row
        stands beside the figures.

    Returns
    -------
    FoldFigures : P@1, MAP@R and P@R, fractions.

    Raises
    ------
    LabError : the experiment has no folds, or what a run raises.
    """
    check_folds(experiment, "all")
    models: list[tuple[Tensor, Tensor]] = []
    for fold in range(experiment.photos.folds):
        one = experiment.replace(**{"photos.fold": fold})
        folder = directory / f"fold-{fold}"
        log: list[Callback] = [TensorBoardLog(folder / "tensorboard")] if tensorboard else []
        begun = resume and (folder / "checkpoint.pt").exists()
        trainer = Trainer(one, loss=copy.deepcopy(loss), directory=folder, resume=begun, device=device, callbacks=log)
        say(trainer.splits.description)
        trainer.run(progress=progress)
        models.append(_embedded(trainer))
    test, gallery = trainer.splits.test.labels, getattr(trainer.splits, "gallery", None)
    row = published_beside(experiment) if loss is None else None
    return fold_figures(models, test, None if gallery is None else gallery.labels, row)


def check_folds(experiment: Experiment, fold: str) -> None:
    """Refuse `fold` where the experiment has no folds, and say how to run it.

    Raises
    ------
    LabError : digits, or photographs under the conventional protocol.
    """
    expected = "photographs under the protocol mlrc, whose training classes are cut into folds"
    if not experiment.data.is_photos:
        raise LabError("--fold", expected, f"{fold} with digits, which have none", "Leave it out.")
    if experiment.photos.protocol != "mlrc":
        got = f"{fold} with {experiment.name}, whose protocol, {experiment.photos.protocol}, trains on the whole first half"
        hint = "Leave it out to train as published, one model; or add --set photos.protocol=mlrc to train on folds."
        raise LabError("--fold", expected, got, hint)


def _embedded(trainer: Trainer) -> tuple[Tensor, Tensor]:
    """Embeddings of the test pictures and of the gallery (empty where there is none), normalised as the run's loss does."""
    test, gallery = trainer.splits.test, getattr(trainer.splits, "gallery", None)
    queries = trainer.embed(test.images)
    return queries, queries[:0] if gallery is None else trainer.embed(gallery.images)


def fold_figures(
    models: Sequence[tuple[Tensor, Tensor]], labels: Tensor, gallery_labels: Tensor | None = None, row: Published | None = None
) -> FoldFigures:
    """Figures of several models of the same pictures.

    Parameters
    ----------
    models : for each its normalised embeddings of the test pictures (n, D) and of the gallery (m, D), m = 0 without one.
    labels : (n,). gallery_labels : (m,), None where test pictures are looked up among themselves.
    """
    folds = [_figures(*model, labels, gallery_labels) for model in models]
    separated = {name: sum(fold[name] for fold in folds) / len(folds) for name in SHOWN}
    queries, gallery = (l2_normalize(torch.cat(parts, dim=1)) for parts in zip(*models, strict=True))
    return FoldFigures(separated, _figures(queries, gallery, labels, gallery_labels), folds, row)


def _figures(queries: Tensor, gallery: Tensor, labels: Tensor, gallery_labels: Tensor | None) -> dict[str, float]:
    figures = retrieval_metrics(queries, labels, None if gallery_labels is None else gallery, gallery_labels, (1,))
    return {name: float(figures[name]) for name in SHOWN}


def folds_table(figures: FoldFigures) -> str:
    """The figures as lines of text, the published ones beside them where there are any."""
    lines = [f"{'':26}" + "".join(f"{name:>12}" for name in SHOWN)]
    rows = [(f"fold {number}", fold) for number, fold in enumerate(figures.folds)]
    rows += [("separated (mean of folds)", figures.separated), ("concatenated", figures.concatenated)]
    if figures.row is not None:
        for kind in ("separated", "concatenated"):
            theirs = {name: figures.row.figures[f"{kind}_{name}"] for name in SHOWN if f"{kind}_{name}" in figures.row.figures}
            rows += [(f"published, {kind}", theirs)] if theirs else []
    for title, values in rows:
        lines.append(f"{title:26}" + "".join(f"{100 * values[name]:12.2f}" if name in values else f"{'-':>12}" for name in SHOWN))
    if figures.row is not None and rows[-1][0].startswith("published"):
        lines.append(f"Published: {figures.row.title}, {figures.row.source}.")
    return "\n".join(lines)
