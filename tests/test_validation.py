"""The shared checks: what counts as a number, and that no value breaks the message about it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit import AlternatingProjections, ContrastiveLoss, Experiment, ResNet20V2, retrieval_metrics
from labkit.datasets import MPerClassSampler, draw_pool
from labkit.errors import LabError, during
from labkit.validation import check_embeddings, check_number, check_path, describe

LABELS = torch.arange(3).repeat_interleave(4)


@pytest.mark.parametrize("value", [1, 7, 2**63 - 1, np.int32(7), np.int64(7), np.uint8(7)])
def test_whole_numbers_come_back_as_int(value):
    found = check_number("k", value, low=1, whole=True)
    assert found == int(value) and type(found) is int


@pytest.mark.parametrize(
    "value", [2.0, np.float64(2.0), 2.5, math.nan, math.inf, True, np.bool_(True), "2", None, 0, -1]
)
def test_what_is_no_whole_number_of_at_least_1_is_refused(value):
    with pytest.raises(LabError, match="k: expected a whole number"):
        check_number("k", value, low=1, whole=True)


def test_a_whole_float_is_told_how_to_be_written():
    with pytest.raises(LabError, match=r"got 2\.0 \(float\)\. Write 2\."):
        check_number("k", 2.0, whole=True)


@pytest.mark.parametrize("bits", [63, 100, 2000, 20_000])
@pytest.mark.parametrize("sign", [1, -2])
def test_whole_numbers_beyond_64_bits_are_refused(sign, bits):
    with pytest.raises(LabError, match="k: expected a whole number of at most 64 bits"):
        check_number("k", sign * 2**bits, whole=True)


@pytest.mark.parametrize("bits", [1024, 20_000])  # Python writes out no integer of 20,000 bits
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_no_float_holds_are_refused(sign, bits):
    with pytest.raises(LabError, match="x: expected a finite number"):
        check_number("x", sign * 2**bits)
    assert describe(sign * 2**bits) == f"a whole number of {bits + 1:,} bits"


@pytest.mark.parametrize("value", [1, 1.5, np.float64(1.5)])
def test_numbers_come_back_as_they_are(value):
    assert check_number("x", value, low=1, high=2) == value


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.float16(0.5), np.float64(0.5), np.longdouble(0.5), np.int64(1), np.uint8(1)]
)
def test_numpy_s_numbers_come_back_as_python_s(value):
    found = check_number("x", value, low=0, high=1)
    assert found == value and type(found) is (int if isinstance(value, np.integer) else float)
    with pytest.raises(LabError, match="x: expected a finite number"):
        check_number("x", value, low=2)


@pytest.mark.parametrize(
    "value", [np.float32("nan"), np.float16("inf"), np.bool_(True), np.complex64(1), np.array(1.0)]
)
def test_what_numpy_has_beside_numbers(value):
    with pytest.raises(LabError, match="x: expected a"):
        check_number("x", value)


def test_margins_of_a_sweep_may_be_numpy_s():
    x = torch.rand(12, 2, generator=torch.Generator().manual_seed(0))
    for margin in (np.float32(0.5), np.float16(0.5), np.int64(1), np.uint8(1)):
        loss = ContrastiveLoss(neg_margin=margin)
        assert loss(x, LABELS) == ContrastiveLoss(neg_margin=float(margin))(x, LABELS)
        assert type(loss.neg_margin) in (int, float), "what reckons with a margin need not know of NumPy"


def test_bounds():
    assert check_number("x", 0.0, low=0) == 0
    for bad in (-0.1, 1.1):
        with pytest.raises(LabError, match=r"a finite number in \[0, 1\]"):
            check_number("x", bad, low=0, high=1)
    with pytest.raises(LabError, match=r"in \(0, 1\]; got 0"):
        check_number("x", 0, low=0, high=1, open_low=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ResNet20V2(n),
        lambda n: AlternatingProjections(ContrastiveLoss(), 3, 2, proxies_per_class=n),
        lambda n: AlternatingProjections(ContrastiveLoss(), n, 2),
        lambda n: MPerClassSampler(LABELS, n, 2, torch.Generator()),
        lambda n: MPerClassSampler(LABELS, 2, n, torch.Generator()),
        lambda n: draw_pool(LABELS, n, torch.Generator()),
    ],
)
def test_sizes_are_ints_wherever_they_are_taken(make):
    make(2)
    make(np.int64(2))
    for bad in (2.0, 10**400):
        with pytest.raises(LabError, match="expected a whole number"):
            make(bad)


def test_a_k_above_the_number_of_references_means_all_of_them():
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    assert retrieval_metrics(x, labels, ks=(2**63 - 1,))[f"recall_at_{2**63 - 1}"] == 1.0


def test_paths_are_told_before_the_system_is_asked_for_the_file(tmp_path):
    for good in ("", ".", "no/such/file", tmp_path, str(tmp_path / "ü\n.pt"), Path("a" * 200)):
        assert check_path("path", good) == Path(good)
    wrong = [(bad, "a path") for bad in (None, 5, b"x", ["x"])]
    for bad, words in (*wrong, ("a\0b", "null"), ("a" * 300, "255"), ("\ud800", "encode")):
        with pytest.raises(LabError, match=words):
            check_path("path", bad)


@pytest.mark.parametrize(
    ("make", "words"),
    [(torch.Tensor.to_sparse, "dense"), (lambda x: x.to("meta"), "meta"), (lambda x: x.to(torch.float8_e4m3fn), "16, 32 or 64")],
)
def test_tensors_that_cannot_be_reckoned_with(make, words):
    with pytest.raises(LabError, match=words):
        check_embeddings("embeddings", make(torch.ones(3, 2)))


def test_a_long_value_is_shown_in_one_line_without_its_middle():
    with pytest.raises(LabError, match=r"^method: expected one of .*; got 'a{199} … a{96}'\.$") as caught:
        Experiment.preset("poc-ccp", method="a" * 5000)
    assert len(caught.value.got) == 5002, "as it came, for a program"
    with pytest.raises(LabError, match=r"; got tensor\(\[\[.* … .*\]\]\), at step 7\.$") as caught, during("step 7"):
        raise LabError("x", "a number", torch.rand(100, 2))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    assert str(LabError("x", "a path", "a  b")) == "x: expected a path; got a  b."
    assert str(LabError("x", "a word", "")) == "x: expected a word; got ."
