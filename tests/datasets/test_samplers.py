"""What the sampler promises, counted on the batches themselves."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.datasets import MPerClassSampler, draw_pool
from labkit.errors import LabError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def batches(sampler, count, m):
    """Each batch as a list of (class rows): lists of M indices."""
    return [next(sampler).reshape(-1, m).tolist() for _ in range(count)]


class_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(sizes=class_sizes, data=st.data())
def test_rounds_and_decks(sizes, data):
    """Cut what was dealt into rounds: each holds every class once; a class's samples into passes: each holds all of them once."""
    labels = torch.repeat_interleave(torch.tensor([7 * c - 20 for c in range(len(sizes))]), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=seeded(1))]
    p, m = data.draw(st.integers(1, len(sizes))), data.draw(st.integers(1, 6))
    dealt_classes, dealt_samples = [], {c: [] for c in labels.tolist()}
    for batch in batches(MPerClassSampler(labels, p, m, seeded(data.draw(st.integers(0, 9)))), 40, m):
        classes = [labels[row].unique().tolist() for row in batch]
        assert all(len(c) == 1 for c in classes), "a row holds one class"
        classes = [c[0] for c in classes]
        assert len(set(classes)) == p, "no class twice in a batch"
        dealt_classes += classes
        for c, row in zip(classes, batch, strict=True):
            size = int((labels == c).sum())
            times = Counter(row).values()
            assert len(times) == min(size, m), "no sample twice unless the class has fewer than M"
            assert max(times) <= -(-m // size)
            dealt_samples[c] += row
    everything = sorted(dealt_samples)
    for start in range(0, len(dealt_classes) - len(sizes) + 1, len(sizes)):
        assert sorted(dealt_classes[start : start + len(sizes)]) == everything, "a round deals every class once"
    for c, dealt in dealt_samples.items():
        size = int((labels == c).sum())
        times = Counter(dealt)
        assert max(times.values()) - min(times[int(i)] for i in torch.nonzero(labels == c)) <= (1 if m <= size else 2)
        for start in range(0, len(dealt) - size + 1, size) if m <= size else ():
            assert len(set(dealt[start : start + size])) == size, "a pass deals every sample once"


def test_when_the_batch_straddles_two_rounds():
    """C = 5, P = 4: 2 batches of 5 hold a straddle; over 5 batches each class comes exactly 4 times."""
    labels = torch.arange(5).repeat(3)
    for seed in range(20):
        seen = Counter(
            int(labels[row[0]])
            for batch in batches(MPerClassSampler(labels, 4, 1, seeded(seed)), 5, 1)
            for row in batch
        )
        assert set(seen.values()) == {4}


def test_every_class_and_sample_is_as_likely_in_every_place():
    """The class in the first row of the first batch, over many seeds: uniform within five standard deviations."""
    labels = torch.arange(4).repeat_interleave(3)
    first = [next(MPerClassSampler(labels, 2, 2, seeded(seed)))[0].item() for seed in range(1200)]
    assert all(abs(Counter(first)[i] - 100) < 5 * (100 * 11 / 12) ** 0.5 for i in range(12))


def test_same_seed_same_batches_and_no_global_randomness():
    labels = torch.arange(6).repeat(5)
    before = torch.get_rng_state()
    one = batches(MPerClassSampler(labels, 4, 3, seeded(3)), 30, 3)
    torch.manual_seed(99)
    assert batches(MPerClassSampler(labels, 4, 3, seeded(3)), 30, 3) == one
    assert batches(MPerClassSampler(labels, 4, 3, seeded(4)), 30, 3) != one
    torch.set_rng_state(before)
    batches(MPerClassSampler(labels, 4, 3, seeded(3)), 30, 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("done", [0, 1, 7, 23])
def test_a_resumed_sampler_goes_on_bit_for_bit(done):
    labels = torch.tensor([0] * 7 + [1] * 2 + [2] * 5 + [3])
    original = MPerClassSampler(labels, 3, 3, seeded(5))
    batches(original, done, 3)
    state = original.state_dict()
    expected = batches(original, 30, 3)
    resumed = MPerClassSampler(labels, 3, 3, seeded(77))
    batches(resumed, 4, 3)
    resumed.load_state_dict(state)
    assert batches(resumed, 30, 3) == expected
    resumed.load_state_dict(state)
    assert batches(resumed, 30, 3) == expected, "the state is a copy that later batches do not change"


def test_a_state_of_other_labels_is_refused():
    state = MPerClassSampler(torch.arange(4).repeat(3), 2, 2, seeded()).state_dict()
    other = MPerClassSampler(torch.arange(4).repeat(4), 2, 2, seeded())
    with pytest.raises(LabError, match="other labels"):
        other.load_state_dict(state)
    with pytest.raises(LabError, match="nothing"):
        other.load_state_dict({})
    same = MPerClassSampler(torch.arange(4).repeat(3), 2, 2, seeded())
    with pytest.raises(LabError, match="every sample once"):
        same.load_state_dict({**state, "sample_decks": torch.zeros(12, dtype=torch.long)})
    with pytest.raises(LabError, match="every class once"):
        same.load_state_dict({**state, "class_deck": torch.zeros(4, dtype=torch.long)})
    for name, place in (("class_cursor", -1), ("class_cursor", 5), ("sample_cursors", 9)):
        with pytest.raises(LabError, match="places in the decks"):
            same.load_state_dict({**state, name: torch.full_like(state[name], place)})


@pytest.mark.parametrize(
    ("labels", "p", "m", "argument"),
    [
        (torch.tensor([0, 1]), 3, 1, "classes_per_batch"),
        (torch.tensor([0, 1]), 0, 1, "classes_per_batch"),
        (torch.tensor([0, 1]), 1, 0, "samples_per_class"),
        (torch.tensor([0.0, 1.0]), 1, 1, "labels"),
        (torch.tensor([[0, 1]]), 1, 1, "labels"),
        (torch.tensor([], dtype=torch.long), 1, 1, "labels"),
        ([0, 1], 1, 1, "labels"),
        (torch.tensor(3), 1, 1, "labels"),
    ],
)
def test_bad_input(labels, p, m, argument):
    with pytest.raises(LabError) as caught:
        MPerClassSampler(labels, p, m, seeded())
    assert caught.value.argument == argument


@settings(max_examples=40, deadline=None)
@given(sizes=class_sizes, b=st.integers(1, 12), seed=st.integers(0, 99))
def test_pool_takes_b_of_every_class(sizes, b, seed):
    labels = torch.repeat_interleave(torch.arange(len(sizes)) * 3 - 5, torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=seeded(seed))]
    pool = draw_pool(labels, b, seeded(seed))
    assert pool.shape == (len(sizes), b) and pool.dtype == torch.int64
    for c, row in zip(labels.unique().tolist(), pool, strict=True):
        assert (labels[row] == c).all()
        size = int((labels == c).sum())
        assert len(row.unique()) == min(b, size), "repeats only where the class has fewer, and then all of it is in"


def test_pool_is_uniform_and_seeded():
    labels = torch.arange(2).repeat(10)
    times = Counter(int(i) for seed in range(500) for i in draw_pool(labels, 3, seeded(seed)).reshape(-1))
    assert all(abs(times[i] - 150) < 5 * (500 * 0.3 * 0.7) ** 0.5 for i in range(20))
    assert torch.equal(draw_pool(labels, 3, seeded(8)), draw_pool(labels, 3, seeded(8)))


def test_pool_refuses_bad_input():
    with pytest.raises(LabError, match="per_class"):
        draw_pool(torch.tensor([0, 1]), 0, seeded())
    with pytest.raises(LabError, match="labels"):
        draw_pool(torch.tensor([0.5, 1.0]), 1, seeded())
