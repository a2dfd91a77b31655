"""Which samples come next: batches with a fixed number per class, and the pool that new proxies are picked from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.validation import check_labels, check_number, describe


class MPerClassSampler:
    """Deal batches of P classes with M samples each, for ever, as one deals from shuffled decks of cards.

    **Classes.** A round deals every class exactly once. Where P does not divide the number of classes C, a batch may
    straddle two rounds: it takes what is left of the old deck, then the first classes of the freshly shuffled deck
    that it does not hold yet; the ones passed over stay in the new deck for a later batch. So no batch holds a class
    twice, and no round skips or repeats a class.

    **Samples.** Each class has a shuffled deck of its samples, dealt in the same way: every sample comes once before
    any comes again, and a batch holds no sample twice. Only a class with fewer than M samples has to repeat itself
    inside a batch; each of its samples then comes floor(M / n_c) or one more times.

    Parameters
    ----------
    labels : int64 (n,), any integers.
    classes_per_batch : P, 1 … C.
    samples_per_class : M >= 1.
    generator : a CPU `torch.Generator`, the only source of chance; it advances as decks are shuffled.

    Yields
    ------
    int64 tensor (P * M,) of indices into `labels`: the M samples of the first class, then those of the second, …

    Raises
    ------
    LabError : labels are not integers of shape (n,), P is above the number of classes, M < 1.

    Examples
    --------
    >>> sampler = MPerClassSampler(torch.tensor([0, 0, 1, 1, 2, 2]), 3, 2, torch.Generator().manual_seed(0))
    >>> sorted(next(sampler).tolist())
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self, labels: Tensor, classes_per_batch: int, samples_per_class: int, generator: torch.Generator
    ) -> None:
        order, self._counts, self._offsets = _group(labels)
        classes = len(self._counts)
        classes_per_batch = int(check_number("classes_per_batch", classes_per_batch, low=1, whole=True))
        samples_per_class = int(check_number("samples_per_class", samples_per_class, low=1, whole=True))
        if classes_per_batch > classes:
            raise LabError("classes_per_batch", f"at most the {classes} classes that there are", classes_per_batch)
        self.classes_per_batch, self.samples_per_class, self.generator = classes_per_batch, samples_per_class, generator
        self._steps = torch.arange(samples_per_class)
        self._class_deck, self._class_cursor = torch.randperm(classes, generator=generator), 0
        # All sample decks in one tensor, class after class; a cursor of n_c means that the deck is used up and gets
        # shuffled when it is needed.
        self._sample_decks, self._sample_cursors = order, self._counts.clone()

    def __iter__(self) -> MPerClassSampler:
        return self

    def __next__(self) -> Tensor:
        """The next batch: int64 (P * M,)."""
        chosen, self._class_deck, self._class_cursor = _deal(
            self._class_deck, self._class_cursor, self.classes_per_batch, self.generator
        )
        m, cursors, counts = self.samples_per_class, self._sample_cursors[chosen], self._counts[chosen]
        straight = cursors + m <= counts
        starts = self._offsets[chosen] + torch.where(straight, cursors, 0)
        # Usual case, all classes at once. A class whose deck runs out reads harmless places here and is dealt by
        # itself below.
        places = (starts[:, None] + self._steps).clamp_(max=len(self._sample_decks) - 1)
        batch = self._sample_decks[places]
        self._sample_cursors[chosen] = torch.where(straight, cursors + m, cursors)
        for row in torch.nonzero(~straight).squeeze(1).tolist():
            batch[row] = self._deal_across(int(chosen[row]))
        return batch.reshape(-1)

    def _deal_across(self, which: int) -> Tensor:
        """M samples of one class whose deck has fewer than M left; shuffles the deck on the way."""
        start, count = int(self._offsets[which]), int(self._counts[which])
        deck = self._sample_decks[start : start + count]
        whole, rest = divmod(self.samples_per_class, count)
        pieces = [deck.clone()] * whole
        if rest:
            dealt, new_deck, cursor = _deal(deck, int(self._sample_cursors[which]), rest, self.generator)
            self._sample_decks[start : start + count] = new_deck
            self._sample_cursors[which] = cursor
            pieces.append(dealt)
        return torch.cat(pieces)

    def state_dict(self) -> dict[str, Tensor]:
        """All that the next batches depend on, as tensors (copies), the generator's state included."""
        return {
            "class_deck": self._class_deck.clone(),
            "class_cursor": torch.tensor(self._class_cursor),
            "sample_decks": self._sample_decks.clone(),
            "sample_cursors": self._sample_cursors.clone(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where the sampler that gave `state` stood; it must have been built on the same labels.

        Raises
        ------
        LabError : a part is missing, of another shape, or from other labels.
        """
        own = self.state_dict()
        for name, mine in own.items():
            given = state.get(name)
            if not isinstance(given, Tensor) or given.shape != mine.shape or given.dtype != mine.dtype:
                raise LabError(
                    f"state[{name!r}]",
                    describe(mine),
                    "nothing" if given is None else describe(given),
                    "The state belongs to a sampler over other labels.",
                )
        if not torch.equal(state["sample_decks"].sort().values, own["sample_decks"].sort().values):
            raise LabError("state['sample_decks']", "every sample once", "some missing or repeated")
        if not torch.equal(state["class_deck"].sort().values, own["class_deck"].sort().values):
            raise LabError("state['class_deck']", "every class once", "some missing or repeated")
        for name, sizes in (("class_cursor", len(own["class_deck"])), ("sample_cursors", self._counts)):
            if bool(((state[name] < 0) | (state[name] > sizes)).any()):
                raise LabError(f"state[{name!r}]", "places in the decks", "others")
        self._class_deck, self._class_cursor = state["class_deck"].clone(), int(state["class_cursor"])
        self._sample_decks, self._sample_cursors = state["sample_decks"].clone(), state["sample_cursors"].clone()
        self.generator.set_state(state["generator"])


def draw_pool(labels: Tensor, per_class: int, generator: torch.Generator) -> Tensor:
    """Draw b samples of every class: the pool that K-Center selection picks new proxies from (CCP, Algorithm 2).

    Without replacement; a class with fewer than b samples gives all it has, then the same again, so that every one of
    its samples is in.

    Parameters
    ----------
    labels : int64 (n,).
    per_class : b >= 1.
    generator : a CPU `torch.Generator`.

    Returns
    -------
    int64 tensor (C, b) of indices into `labels`, classes in sorted order.

    Raises
    ------
    LabError : labels are not integers of shape (n,), or b < 1.
    """
    per_class = int(check_number("per_class", per_class, low=1, whole=True))
    order, counts, offsets = _group(labels)
    labels, mixed = labels.cpu(), torch.randperm(len(order), generator=generator)
    # Shuffle all, then gather class by class: a stable sort keeps the shuffled order within a class.
    shuffled = mixed[torch.argsort(labels[mixed], stable=True)]
    return shuffled[offsets[:, None] + torch.arange(per_class) % counts[:, None]]


def _group(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Indices sorted by class (n,), samples in each class (C,), where each class starts (C,)."""
    if not isinstance(labels, Tensor) or labels.numel() == 0:
        raise LabError("labels", "a torch.Tensor of shape (n,), n >= 1", describe(labels))
    labels = check_labels("labels", labels, labels.shape[0] if labels.ndim else 0, of="the data").cpu()
    counts = torch.unique(labels, return_counts=True)[1]
    return torch.argsort(labels, stable=True), counts, torch.cumsum(counts, 0) - counts


def _deal(deck: Tensor, cursor: int, take: int, generator: torch.Generator) -> tuple[Tensor, Tensor, int]:
    """Take `take` <= len(deck) different cards; returns them, the deck to go on with and the new cursor."""
    left = deck[cursor : cursor + take]
    if len(left) == take:
        return left.clone(), deck, cursor + take
    fresh = deck[torch.randperm(len(deck), generator=generator)]
    missing = take - len(left)
    held = torch.isin(fresh, left)
    now = fresh[~held][:missing]
    # What is passed over, because this batch holds it already, stays in the new deck for a later batch.
    return torch.cat([left, now]), torch.cat([now, fresh[~torch.isin(fresh, now)]]), missing
