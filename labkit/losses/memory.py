"""Cross-batch memory: past embeddings as references for any pair loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import at_least_float32
from labkit.losses.batch import Batch
from labkit.losses.eager import with_gradient_now
from labkit.losses.mined import MinedLoss
from labkit.losses.pairs import PairLoss
from labkit.losses.proxy_base import BaseProxyLoss
from labkit.losses.queue import EmbeddingQueue, all_pairs_but, same_sample, without
from labkit.validation import check_embeddings, check_labels, check_loss_value, check_number, check_takes, describe


class CrossBatchMemory(nn.Module):
    """Adds to a pair loss of the batch the same loss against a memory of past embeddings (Wang et al., "Cross-Batch
    Memory for Embedding Learning"; XBM in the CCP paper).

    `loss(x, y) + loss(x, y, ref_emb=memory, ref_labels=its labels)`, the second part once the memory holds anything and
    `warmup_steps` calls have passed. Then the batch enters, without gradient, and the oldest rows make room; of a larger batch
    its last rows stay. In eval mode the memory is only read. The second part's gradient is taken in the call, before rows change.

    Parameters
    ----------
    loss : any pair loss that takes references, labkit's or pytorch-metric-learning's. One that divides by its anchors
        should have the embeddings as such (`anchor="sample"`), or it divides by the size of the memory.
    embedding_size, memory_size : D and the number of rows, at least 1. The CCP paper's memories are of 3 (CUB,
        Cars196), 100 (In-shop) and 400 (SOP) batches of 32, or of 25, 400 and 1400.
    warmup_steps : calls in training mode during which the memory only fills; 1000 in the paper.

    Attributes
    ----------
    memory : an `EmbeddingQueue` of `memory.filled` rows, normalised as labkit's losses do; saved together with `steps`.

    Raises
    ------
    LabError : when built with sizes that are not whole numbers; when called with input that cannot be used.

    Examples
    --------
    >>> import torch
    >>> from labkit.losses import ContrastiveLoss
    >>> loss = CrossBatchMemory(ContrastiveLoss(), embedding_size=2, memory_size=100)
    >>> x, labels, rows = torch.eye(2), torch.tensor([0, 1]), torch.tensor([7, 8])
    >>> loss(x, labels, sample_ids=rows).item(), loss.memory.filled  # nothing near, nothing remembered yet
    (0.0, 2)
    >>> loss(x.flip(0), labels).item(), loss.memory.filled  # √2 from the old embedding of the class, .5 − 0 to the other
    (1.91..., 4)
    """

    def __init__(self, loss: Callable[..., Any], embedding_size: int, memory_size: int, warmup_steps: int = 0) -> None:
        super().__init__()
        if not callable(loss) or isinstance(loss, BaseProxyLoss):
            raise LabError("loss", "a pair loss, which takes references", describe(type(loss)))
        name, call = type(loss).__name__, getattr(loss, "forward", loss)
        check_takes(name, call, "embeddings", "labels", "indices_tuple", "ref_emb", "ref_labels")
        self.loss = loss
        self.memory = EmbeddingQueue(memory_size, embedding_size)
        self.warmup_steps = int(check_number("warmup_steps", warmup_steps, low=0, whole=True))
        self.steps = 0  # calls in training mode

    def get_extra_state(self) -> dict[str, int]:
        return {"steps": self.steps}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.steps = int(check_number("steps", state.get("steps") if isinstance(state, dict) else None, low=0, whole=True))

    def forward(
        self, embeddings: Tensor, labels: Tensor, indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None, ref_labels: Tensor | None = None, sample_ids: Tensor | None = None,
    ) -> Tensor:
        """The loss, a 0-d tensor.

        Parameters
        ----------
        embeddings, labels : (N, D) and (N,).
        indices_tuple, ref_emb, ref_labels : for the first part alone, as the loss takes them.
        sample_ids : (N,) integers >= 0 that name samples across batches, such as rows of a data set. A sample is never
            paired with a remembered embedding of the same id, which would be a positive of the easiest kind.

        Raises
        ------
        LabError : an input that cannot be used.
        """
        x = at_least_float32(check_embeddings("embeddings", embeddings))
        if x.shape[1] != self.memory.width:
            expected = f"rows of embedding_size = {self.memory.width} numbers"
            raise LabError("embeddings", expected, f"shape {tuple(x.shape)}")
        labels = check_labels("labels", labels, len(x))
        if sample_ids is not None:
            sample_ids = check_labels("sample_ids", sample_ids, len(x)).to(x.device)
            if bool((sample_ids < 0).any()):
                raise LabError("sample_ids", "integers >= 0", int(sample_ids.min()))
        total = check_loss_value(self.loss, self.loss(embeddings, labels, indices_tuple, ref_emb, ref_labels))
        if self.steps >= self.warmup_steps and self.memory.filled > 0:
            total = total + check_loss_value(self.loss, self._against_memory(x, labels, sample_ids))
        if self.training:
            self.steps += 1
            kept = self.loss.normalized(x.detach()) if isinstance(self.loss, PairLoss) else x.detach()
            self.memory.push(kept, labels, sample_ids)
        return total

    def _against_memory(self, x: Tensor, labels: Tensor, ids: Tensor | None) -> Tensor:
        memory, owners, remembered = self.memory.contents(like=x)
        stale = None if ids is None else same_sample(ids, remembered)
        loss = self.loss
        if isinstance(loss, PairLoss):  # which need not check again what was checked when it came
            return with_gradient_now(lambda x: loss.evaluate(Batch(x, labels, memory, owners, None, stale, True)), x)
        terms = None
        if stale is not None:
            picked = loss.picked(x, labels, memory, owners) if isinstance(loss, MinedLoss) else None
            terms = all_pairs_but(stale, labels, owners) if picked is None else without(picked, stale, len(owners))
        parameters = loss.parameters() if isinstance(loss, nn.Module) else ()
        return with_gradient_now(lambda x: loss(x, labels, terms, memory, owners), x, parameters)
