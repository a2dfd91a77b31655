"""What samples are compared with in a run: proxies, the anchor samples themselves, or only each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labkit.ccp import AlternatingProjections
from labkit.errors import LabError
from labkit.losses import CrossBatchMemory
from labkit.training.embedder import CHUNK, Embedder
from labkit.training.experiment import Experiment
from labkit.training.pictures import Dealer
from labkit.validation import check_loss_value, check_takes


class References:
    """Chooses the references of each problem and computes a batch's loss against them.

    Parameters
    ----------
    experiment : its method, and where its first proxies start. loss : the pair loss.
    projections : around it; None for method "pairs".
    pictures, embedder : where samples come from and how they become embeddings.

    Attributes
    ----------
    anchors : (C, K) indices of the training samples that the proxies started from; None before the first choice.
    """

    def __init__(
        self,
        experiment: Experiment,
        loss: nn.Module,
        projections: AlternatingProjections | None,
        pictures: Dealer,
        embedder: Embedder,
    ) -> None:
        if projections is None:
            check_takes(type(loss).__name__, loss.forward, "embeddings", "labels")
        self.by_samples = experiment.method == "samples"
        self._start_random = experiment.projections.start == "random"
        self.pair_loss, self.projections = loss, projections
        self.pictures, self.embedder = pictures, embedder
        self.anchors: Tensor | None = None

    @torch.no_grad()
    def choose(self, optimizer: torch.optim.Optimizer) -> None:
        """Draw a pool from the training pictures, embed it by the live weights, and start the proxies from it."""
        if self.projections is None:
            return
        if self._start_random and not self.projections.initialized:
            self.projections.keep_own_proxies()
            return
        pool = self.pictures.pool(self.projections.pool_size)
        # In parts: the views of a pool of 11,318 classes would not fit into memory together.
        parts = torch.split(pool.flatten(), CHUNK)
        embeddings = torch.cat([self._pooled(part) for part in parts])
        choice = self.projections.initialize(
            embeddings.view(*pool.shape, -1), generator=self.pictures.generators["pool"], optimizer=optimizer
        )
        chosen = choice.indices.to(self.embedder.device)
        self.embedder.world.agree([self.projections.proxies, chosen])
        self.anchors = pool.gather(1, chosen.cpu())

    def _pooled(self, indices: Tensor) -> Tensor:
        return self.embedder.world.gather(self.embedder.evaluate(self.pictures.views(indices)), len(indices))[0]

    def start_anew(self, optimizer: torch.optim.Optimizer) -> tuple[Tensor | None, Tensor]:
        """`choose`, at a problem's end; returns its best proxies (C, K, D), normalised, and those of the next problem."""
        assert self.projections is not None
        converged = self.projections.progress.best_proxies
        self.choose(optimizer)
        return None if converged is None else self.projections.normalized(converged), self.projections.proxies

    def loss(self, indices: Tensor, labels: Tensor) -> Tensor:
        """The loss, with its gradient, of the training pictures at `indices` (n,) with `labels` (n,)."""
        if self.projections is None:
            named = {"sample_ids": indices} if isinstance(self.pair_loss, CrossBatchMemory) else {}
            (embeddings,) = self._embedded(indices)
            return self._learnable(check_loss_value(self.pair_loss, self.pair_loss(embeddings, labels, **named)))
        if self.by_samples and self.anchors is not None:  # embedded afresh, in one batch with the samples
            embeddings, anchors = self._embedded(indices, self.anchors.flatten())
            anchors = anchors.view_as(self.projections.proxies)
            return self._learnable(self.projections(embeddings, labels, anchors=anchors))
        (embeddings,) = self._embedded(indices)
        return self._learnable(self.projections(embeddings, labels))

    def _embedded(self, *parts: Tensor) -> list[Tensor]:
        """Embeddings, with their gradient, of the training pictures at the indices of each part, all in one batch."""
        rows = self.embedder.forward(self.pictures.views(*parts))
        return self.embedder.world.gather(rows, *map(len, parts))

    def _learnable(self, loss: Tensor) -> Tensor:
        if not loss.requires_grad:
            expected = "a loss computed from the embeddings, with its gradient"
            raise LabError(type(self.pair_loss).__name__, expected, "one that does not depend on them", "Look for a detach().")
        return loss

    @torch.no_grad()
    def current(self) -> Tensor | None:
        """Live proxies (C, K, D), normalised; for sample-based training the anchors as they are embedded now."""
        if self.projections is None:
            return None
        if self.by_samples and self.anchors is not None:
            anchors = self.embedder.embed(self.pictures.originals(self.anchors.flatten()))
            self.projections.proxies.copy_(anchors.view_as(self.projections.proxies))
        return self.projections.normalized(self.projections.proxies.detach()).cpu()
