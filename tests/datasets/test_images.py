"""Image sets and the fixed stratified split."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.datasets import ImageSet, Splits, stratified_split
from labkit.errors import LabError


@settings(max_examples=80, deadline=None)
@given(labels=st.lists(st.integers(-2, 5), min_size=2, max_size=60), data=st.data())
def test_split_is_a_partition_with_every_class_by_its_share(labels, data):
    labels = torch.tensor(labels)
    size = data.draw(st.integers(1, len(labels) - 1))
    rest, aside = stratified_split(labels, size)
    assert len(aside) == size and sorted(rest.tolist() + aside.tolist()) == list(range(len(labels)))
    assert rest.tolist() == sorted(rest.tolist()) and aside.tolist() == sorted(aside.tolist())
    for c in labels.unique():
        share = size * int((labels == c).sum()) / len(labels)
        assert abs(int((labels[aside] == c).sum()) - share) < 1


def test_split_takes_even_distances_along_each_class():
    """Ten of class 0, then ten of class 1; four aside: two of each, from the middle of its halves."""
    rest, aside = stratified_split(torch.arange(2).repeat_interleave(10), 4)
    assert aside.tolist() == [2, 7, 12, 17]
    assert len(rest) == 16


def test_largest_remainders_are_rounded_up():
    """Shares of 3 among 5, 3, 2: 1.5, 0.9, 0.6 -> 1 + 1 + 1."""
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    assert labels[stratified_split(labels, 3)[1]].tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [0, 4, -1, 9])
def test_split_refuses_an_empty_part(size):
    with pytest.raises(LabError, match="size"):
        stratified_split(torch.tensor([0, 0, 1, 1]), size)


@pytest.mark.parametrize("size", [2.0, "2", None, True, 10**400])
def test_split_refuses_a_size_that_is_no_whole_number(size):
    with pytest.raises(LabError, match="size: expected a whole number"):
        stratified_split(torch.tensor([0, 0, 1, 1]), size)


@pytest.mark.parametrize(
    "labels", [[0, 0, 1, 1], torch.zeros(4, 1).long(), torch.zeros(4), torch.tensor(3), None, torch.tensor([True] * 4)]
)
def test_split_refuses_what_are_no_labels(labels):
    with pytest.raises(LabError, match="labels"):
        stratified_split(labels, 2)


def images(n=4):
    return torch.arange(n * 6, dtype=torch.uint8).reshape(n, 1, 2, 3)


def test_image_set_and_subset():
    labels = torch.tensor([3, 1, 2, 0], dtype=torch.int32)
    whole = ImageSet(images(), labels)
    assert len(whole) == 4 and whole.labels.dtype == torch.int64
    part = whole.subset(torch.tensor([2, 0]))
    assert part.labels.tolist() == [2, 3] and torch.equal(part.images, images()[[2, 0]])
    part.images.zero_()
    assert torch.equal(whole.images, images()), "a subset is a copy"


@pytest.mark.parametrize(
    ("pictures", "labels", "argument"),
    [
        (images().float(), torch.zeros(4).long(), "images"),
        (images()[:, 0], torch.zeros(4).long(), "images"),
        (images()[:0], torch.zeros(0).long(), "images"),
        ([[0]], torch.zeros(1).long(), "images"),
        (images(), torch.zeros(3).long(), "labels"),
        (images(), torch.zeros(4), "labels"),
        (images(), [0, 1, 2, 3], "labels"),
    ],
)
def test_image_set_refuses(pictures, labels, argument):
    with pytest.raises(LabError) as caught:
        ImageSet(pictures, labels)
    assert caught.value.argument == argument


def splits(names="abcde"):
    part = ImageSet(images(2 * len(names)), torch.arange(len(names)).repeat(2))
    return Splits(part, part, part, "made-up", "Letters.", tuple(names))


def test_joined_classes_keep_their_pictures():
    before = splits()
    after = before.joined(2)
    assert after.class_names == ("a/b", "c/d", "e")
    assert after.train.labels.tolist() == [0, 0, 1, 1, 2] * 2
    assert torch.equal(after.test.images, before.test.images) and after.seen is None
    assert after.description == "Letters. Classes joined: a/b, c/d, e."
    assert before.train.labels.tolist() == [0, 1, 2, 3, 4] * 2


def test_joining_keeps_never_seen_classes_apart():
    apart = splits("abcdef").disjoint(4).joined(2)
    assert sorted(set(apart.train.labels.tolist())) == [0, 1]
    assert set(apart.test.labels.tolist()) == {2} and set(apart.seen.labels.tolist()) == {0, 1}
    with pytest.raises(LabError, match="size: expected a divisor of the 3 classes that are trained on; got 2"):
        splits("abcdef").disjoint(3).joined(2)


@pytest.mark.parametrize("size", [1, 4, 2.0])
def test_joining_refuses_what_leaves_no_two_classes(size):
    with pytest.raises(LabError, match="size"):
        splits().joined(size)
