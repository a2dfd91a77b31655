"""What holds for every pair loss: the definition, the gradient, how it is called, what it refuses."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss, RankedListLoss, TripletLoss
from labkit.losses.blocks import BLOCK_ELEMENTS
from tests.oracles import losses as oracle

# Margins wide enough that random points make both active and inactive terms.
LOSSES = {
    "c1": (partial(CosineContrastiveLoss, margin=0.1), partial(oracle.cosine_contrastive, margin=0.1)),
    "c2": (partial(ContrastiveLoss, 0.3, 1.2), partial(oracle.contrastive, pos_margin=0.3, neg_margin=1.2)),
    "triplet": (partial(TripletLoss, 0.2), partial(oracle.triplet, margin=0.2)),
    "ms": (
        partial(MultiSimilarityLoss, 2.0, 10.0, 0.4),
        partial(oracle.multi_similarity, alpha=2.0, beta=10.0, base=0.4),
    ),
    "rll": (
        partial(RankedListLoss, 1.3, 0.6, 3.0, 0.7),
        partial(oracle.ranked_list, alpha=1.3, margin=0.6, temperature=3.0, weight=0.7),
    ),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
WIDTHS = (2, 17)  # differences formed, matrix product


def make(n=12, m=9, width=2, classes=3, seed=0, dtype=torch.float64):
    own = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(k, width, generator=own, dtype=dtype, requires_grad=True) for k in (n, m))
    labels, reference_labels = (torch.randint(classes, (k,), generator=own) for k in (n, m))
    return x, labels, r, reference_labels


def value_and_gradients(loss, x, labels, r=None, reference_labels=None, terms=None):
    value = loss(x, labels, terms, r, reference_labels)
    return value, *torch.autograd.grad(value, [x] if r is None else [x, r])


@pytest.fixture(params=[1 << 20, 30], ids=["one block", "many blocks"])
def blocks(request, monkeypatch):
    monkeypatch.setitem(BLOCK_ELEMENTS, "cpu", request.param)
    monkeypatch.setattr("labkit.losses.triplet.TRIPLETS_AT_ONCE", request.param)


@every_loss
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 9),
    classes=st.integers(1, 5),
    width=st.sampled_from(WIDTHS),
    normalize=st.sampled_from(["lipschitz", "l2", None]),
)
def test_within_the_batch_as_defined(name, seed, n, classes, width, normalize):
    ours, by_definition = LOSSES[name]
    x, labels, _, _ = make(n, 1, width, classes, seed)
    expected = by_definition(x.tolist(), labels.tolist(), normalize=normalize)
    assert ours(normalize=normalize)(x, labels).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@every_loss
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 7),
    m=st.integers(1, 7),
    width=st.sampled_from(WIDTHS),
    normalize=st.sampled_from(["lipschitz", "l2", None]),
)
def test_against_references_as_defined_from_either_side(name, seed, n, m, width, normalize):
    ours, by_definition = LOSSES[name]
    x, labels, r, reference_labels = make(n, m, width, seed=seed)
    samples, references = (x.tolist(), labels.tolist()), (r.tolist(), reference_labels.tolist())
    for anchor, (anchors, others) in {"sample": (samples, references), "proxy": (references, samples)}.items():
        expected = by_definition(*anchors, *others, normalize=normalize)
        value = ours(anchor=anchor, normalize=normalize)(x, labels, None, r, reference_labels)
        assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"rll"}))  # whose gradient holds some of the loss constant
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("normalize", "anchor"), [("lipschitz", "proxy"), ("l2", "sample"), (None, "proxy")])
def test_gradients_by_finite_differences(name, width, normalize, anchor, blocks):
    loss = LOSSES[name][0](anchor=anchor, normalize=normalize)
    x, labels, r, reference_labels = make(6, 4, width)
    assert gradcheck(lambda x: loss(x, labels), x)
    assert gradcheck(lambda x, r: loss(x, labels, None, r, reference_labels), (x, r))
    some = (torch.tensor([0, 5, 2, 2]), torch.tensor([1, 3, 0, 3]), torch.tensor([2, 0, 3, 2]))
    assert gradcheck(lambda x, r: loss(x, labels, some, r, reference_labels), (x, r))


@every_loss
@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_change_nothing(name, width, monkeypatch):
    loss, batch = LOSSES[name][0](), make(40, 30, width, classes=4)
    whole, alone = value_and_gradients(loss, *batch), value_and_gradients(loss, *batch[:2])
    for elements in (1, 100, 3000):
        monkeypatch.setitem(BLOCK_ELEMENTS, "cpu", elements)
        torch.testing.assert_close(value_and_gradients(loss, *batch), whole)
        torch.testing.assert_close(value_and_gradients(loss, *batch[:2]), alone)


@every_loss
@pytest.mark.parametrize("width", WIDTHS)
def test_few_slopes_looked_up_are_the_same_as_many_multiplied(name, width, monkeypatch):
    loss, batch = LOSSES[name][0](), make(40, 30, width, classes=4)
    multiplied = value_and_gradients(loss, *batch), value_and_gradients(loss, *batch[:2])
    monkeypatch.setattr("labkit.losses.blocks.WORTH_COUNTING", 0)
    monkeypatch.setattr("labkit.losses.blocks.FEW_SLOPES", 0)
    looked_up = value_and_gradients(loss, *batch), value_and_gradients(loss, *batch[:2])
    torch.testing.assert_close(looked_up, multiplied)


@every_loss
def test_every_pair_named_is_the_same_as_none_named(name, blocks):
    x, labels, r, reference_labels = make()
    same = labels[:, None] == reference_labels
    terms = (*same.nonzero(as_tuple=True), *(~same).nonzero(as_tuple=True))
    for anchor in ("proxy", "sample"):
        loss = LOSSES[name][0](anchor=anchor)
        named = value_and_gradients(loss, x, labels, r, reference_labels, terms)
        torch.testing.assert_close(named, value_and_gradients(loss, x, labels, r, reference_labels))


@every_loss
def test_order_of_the_batch_does_not_matter(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    value, grad_x, grad_r = value_and_gradients(loss, x, labels, r, reference_labels)
    shuffled = value_and_gradients(loss, x[order], labels[order], r, reference_labels)[0]
    assert shuffled.item() == pytest.approx(value.item(), rel=1e-12)
    x_shuffled = x.detach()[order].requires_grad_()
    _, grad_shuffled, grad_r_again = value_and_gradients(loss, x_shuffled, labels[order], r, reference_labels)
    torch.testing.assert_close((grad_shuffled, grad_r_again), (grad_x[order], grad_r))


@every_loss
def test_backward_scales_accumulates_and_repeats(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make()
    _, grad_x, grad_r = value_and_gradients(loss, x, labels, r, reference_labels)
    value = loss(x, labels, None, r, reference_labels) * 3
    value.backward(retain_graph=True)
    value.backward()
    torch.testing.assert_close((x.grad, r.grad), (6 * grad_x, 6 * grad_r))


@every_loss
def test_only_what_needs_a_gradient_gets_one(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make()
    _, grad_x, grad_r = value_and_gradients(loss, x, labels, r, reference_labels)
    fixed = r.detach()
    torch.testing.assert_close(torch.autograd.grad(loss(x, labels, None, fixed, reference_labels), x)[0], grad_x)
    torch.testing.assert_close(torch.autograd.grad(loss(x.detach(), labels, None, r, reference_labels), r)[0], grad_r)
    with torch.no_grad():
        value = loss(x, labels, None, r, reference_labels)
    assert not value.requires_grad
    assert value == loss(x, labels, None, r, reference_labels)


@every_loss
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_input_gives_the_float32_loss(name, width, dtype):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make(width=width)
    half_x, half_r = x.detach().to(dtype).requires_grad_(), r.detach().to(dtype).requires_grad_()
    value, grad_x, grad_r = value_and_gradients(loss, half_x, labels, half_r, reference_labels)
    assert value.dtype == torch.float32
    assert (grad_x.dtype, grad_r.dtype) == (dtype, dtype)
    assert value == loss(half_x.detach().float(), labels, None, half_r.detach().float(), reference_labels)


@every_loss
def test_autocast_does_not_reach_inside(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make(width=17, dtype=torch.float32)
    expected = value_and_gradients(loss, x, labels, r, reference_labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = value_and_gradients(loss, x, labels, r, reference_labels)
    torch.testing.assert_close(inside, expected, rtol=0, atol=0)


@every_loss
def test_double_stays_double_and_mixed_becomes_double(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make()
    assert loss(x, labels).dtype == torch.float64
    assert loss(x.float(), labels, None, r, reference_labels).dtype == torch.float64


@every_loss
def test_memory_layout_does_not_matter(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make(width=17)
    expected = value_and_gradients(loss, x, labels, r, reference_labels)
    layouts = x.detach().T.contiguous().T.requires_grad_(), r.detach().repeat(1, 2)[:, :17].requires_grad_()
    torch.testing.assert_close(
        value_and_gradients(loss, layouts[0], labels, layouts[1], reference_labels.repeat_interleave(2)[::2]), expected
    )


NOTHING = torch.empty(0, dtype=torch.long)
BARE = {
    "no positives": ([0, 1, 2, 3], None, [7, 8, 9]),
    "no negatives": ([0, 0, 0, 0], None, [0, 0, 0]),
    "no pairs named": ([0, 0, 1, 1], (NOTHING,) * 4, [0, 1, 1]),
    "no triplets named": ([0, 0, 1, 1], (NOTHING,) * 3, [0, 1, 1]),
}


@every_loss
@pytest.mark.parametrize("case", BARE)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_side_without_pairs_is_finite_and_has_a_gradient(name, case, width):
    labels, terms, reference_labels = BARE[case]
    x, _, r, _ = make(4, 3, width)
    for anchor in ("proxy", "sample"):
        loss = LOSSES[name][0](anchor=anchor)
        for rest in ((), (r, torch.tensor(reference_labels))):
            value, *gradients = value_and_gradients(loss, x, torch.tensor(labels), *rest, terms=terms)
            assert value.isfinite()
            assert all(gradient.isfinite().all() for gradient in gradients)
            if name == "triplet" or terms is not None:
                assert value == 0
                assert not any(gradient.any() for gradient in gradients)


@every_loss
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("row", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("normalize", ["lipschitz", "l2", None])
def test_all_points_equal(name, width, row, normalize):
    loss = LOSSES[name][0](normalize=normalize)
    x, r = (torch.full((n, width), row, requires_grad=True) for n in (4, 3))
    value, *gradients = value_and_gradients(loss, x, torch.tensor([0, 0, 1, 1]), r, torch.tensor([0, 0, 1]))
    alone, gradient = value_and_gradients(loss, x, torch.tensor([0, 0, 1, 1]))
    assert value.isfinite()
    assert alone.isfinite()
    assert all(gradient.isfinite().all() for gradient in (*gradients, gradient))
    if loss.euclidean:  # two points in one place have no direction
        assert not any(gradient.any() for gradient in (*gradients, gradient))


@every_loss
def test_numbers_too_large_to_square_are_named(name):
    x, labels, _, _ = make(dtype=torch.float32)
    with pytest.raises(LabError, match="embeddings: .*squared"):
        LOSSES[name][0](normalize=None)(x * 1e30, labels)
    value, gradient = value_and_gradients(LOSSES[name][0](normalize="lipschitz"), x, labels)
    assert value.isfinite()
    assert gradient.isfinite().all()


@every_loss
def test_one_sample_is_enough_with_references_only(name):
    loss, (x, labels, r, reference_labels) = LOSSES[name][0](), make(1, 6)
    assert loss(x, labels, None, r, reference_labels).isfinite()
    with pytest.raises(LabError, match="ref_emb"):
        loss(x, labels)


@every_loss
def test_the_constructor_only_stores(name):
    ours = LOSSES[name][0]
    x, labels, _, _ = make()
    wrong = {"anchor": "proxies", "normalize": "lipshitz"}
    suggestion = {"anchor": "'proxy'", "normalize": "'lipschitz'"}
    for argument, value in wrong.items():
        loss = ours(**{argument: value})
        assert getattr(loss, argument) == value
        with pytest.raises(LabError, match=f"{argument}: .*Did you mean {suggestion[argument]}"):
            loss(x, labels)


PARAMETERS = [
    (CosineContrastiveLoss, "margin", [1.5, -2, float("nan"), "0.5", None]),
    (ContrastiveLoss, "pos_margin", [-0.1, float("inf"), True]),
    (ContrastiveLoss, "neg_margin", [-0.1, "wide"]),
    (TripletLoss, "margin", [-0.1, float("nan")]),
    (MultiSimilarityLoss, "alpha", [0.0, -1.0]),
    (MultiSimilarityLoss, "beta", [0.0, float("inf")]),
    (MultiSimilarityLoss, "base", [float("nan"), "half"]),
    (RankedListLoss, "alpha", [-0.1, "wide"]),
    (RankedListLoss, "margin", [-0.1, None]),
    (RankedListLoss, "temperature", [-1.0, float("inf"), float("nan")]),
    (RankedListLoss, "weight", [-1.0, True]),
]


@pytest.mark.parametrize(("kind", "parameter", "values"), PARAMETERS)
def test_parameters_are_checked_when_called(kind, parameter, values):
    x, labels, _, _ = make()
    for value in values:
        loss = kind(**{parameter: value})
        with pytest.raises(LabError, match=f"^{parameter}: expected"):
            loss(x, labels)


def test_a_parameter_may_change_between_calls():
    x, labels, _, _ = make()
    loss = TripletLoss(0.1)
    loss(x, labels)
    loss.margin = 0.7
    assert loss(x, labels) == TripletLoss(0.7)(x, labels)
    assert "margin=0.7" in repr(loss)


X, Y = torch.zeros(4, 3), torch.tensor([0, 0, 1, 1])
I, J = torch.tensor([0, 1]), torch.tensor([0, 4])
BAD = {
    "labels of another length": ((X, Y[:3]), ["labels", "(4,)", "(3,)"]),
    "labels of two dimensions": ((X, Y[:, None]), ["labels", "(4,)", "(4, 1)"]),
    "floating labels": ((X, Y.float()), ["labels", "integer", "float32"]),
    "no labels": ((X, None), ["labels", "NoneType"]),
    "one dimension": ((X[0], Y), ["embeddings", "two dimensions", "(3,)"]),
    "empty": ((X[:0], Y[:0]), ["embeddings", "(0, 3)"]),
    "integers": ((X.long(), Y), ["embeddings", "floating", "int64"]),
    "NaN": ((X + torch.nan, Y), ["embeddings", "finite", "(0, 0)"]),
    "infinity": ((X, Y, None, X / 0 + torch.inf, Y), ["ref_emb", "finite"]),
    "infinity in half precision": (((X + 1e6).half(), Y), ["embeddings", "finite"]),
    "array": ((X.numpy(), Y), ["embeddings", "Tensor", "ndarray"]),
    "references without labels": ((X, Y, None, X), ["ref_labels", "ref_emb"]),
    "labels without references": ((X, Y, None, None, Y), ["ref_emb", "ref_labels"]),
    "reference labels too short": ((X, Y, None, X, Y[:2]), ["ref_labels", "ref_emb", "(4,)", "(2,)"]),
    "another width": ((X, Y, None, X[:, :2], Y), ["ref_emb", "(M, 3)", "(4, 2)"]),
    "another device": ((X, Y, None, X.to("meta"), Y), ["ref_emb", "cpu", "meta"]),
    "labels elsewhere": ((X, Y.to("meta")), ["labels", "cpu", "meta"]),
    "two index tensors": ((X, Y, (I, I)), ["indices_tuple", "3 (a, p, n) or 4", "2 entries"]),
    "no index tensors": ((X, Y, I), ["indices_tuple", "3 (a, p, n) or 4"]),
    "index too large": ((X, Y, (I, I, J)), ["indices_tuple[2]", "0 to 3", "0 … 4"]),
    "negative index": ((X, Y, (I - 1, I, I)), ["indices_tuple[0]", "0 to 3", "-1"]),
    "indices of unequal length": ((X, Y, (I, I, I, I[:1])), ["indices_tuple[3]", "(2,)", "(1,)"]),
    "floating indices": ((X, Y, (I, I.float(), I)), ["indices_tuple[1]", "integer"]),
}


@every_loss
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(name, case):
    arguments, words = BAD[case]
    with pytest.raises(LabError) as error:
        LOSSES[name][0]()(*arguments)
    assert str(error.value).startswith(words[0] + ":")
    assert all(word in str(error.value) for word in words)
