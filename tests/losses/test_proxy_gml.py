"""ProxyGML: the definition with each of its parts on and off, gradients, what is kept for them, the subgraph, bad input."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from labkit.errors import LabError
from labkit.losses import ProxyGMLLoss
from labkit.losses.subgraphs import proxies_as_samples
from tests.oracles import proxy_losses as oracle

C, D = 5, 4
PARTS = list(itertools.product([True, False], [True, False], [0.3, 0.0]))
every_part = pytest.mark.parametrize(("positive_mask", "mask_softmax", "proxy_weight"), PARTS)


def make(seed=0, n=7, per_class=3, **options):
    own = torch.Generator().manual_seed(seed)
    loss = ProxyGMLLoss(C, D, per_class, **{"ratio": 0.4, "generator": own} | options).double()
    return (
        loss,
        torch.randn(n, D, generator=own, dtype=torch.float64, requires_grad=True),
        torch.randint(C, (n,), generator=own),
    )


def by_definition(loss, x, labels):
    parts = {name: getattr(loss, name) for name in ("proxy_weight", "positive_mask", "mask_softmax", "normalize")}
    k = math.ceil(loss.ratio * C * loss.proxies_per_class)
    return oracle.proxy_gml(x.tolist(), labels.tolist(), loss.weight.tolist(), loss.proxies_per_class, k=k, **parts)


@every_part
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    per_class=st.integers(1, 4),
    ratio=st.sampled_from([0.3, 0.5, 1.0]),
    normalize=st.sampled_from(["l2", "lipschitz", None]),
)
def test_as_defined(positive_mask, mask_softmax, proxy_weight, seed, n, per_class, ratio, normalize):
    parts = {"positive_mask": positive_mask, "mask_softmax": mask_softmax, "proxy_weight": proxy_weight}
    loss, x, labels = make(seed, n, per_class, ratio=ratio, normalize=normalize, **parts)
    assert loss(x, labels).item() == pytest.approx(by_definition(loss, x, labels), rel=1e-9)


@every_part
@pytest.mark.parametrize("normalize", ["l2", "lipschitz", None])
@pytest.mark.parametrize("per_class", [1, 3])
def test_gradients_by_finite_differences(positive_mask, mask_softmax, proxy_weight, normalize, per_class, monkeypatch):
    monkeypatch.setattr("labkit.losses.subgraphs.ROWS_OF_CLASSES", 2 * C)
    parts = {"positive_mask": positive_mask, "mask_softmax": mask_softmax, "proxy_weight": proxy_weight}
    loss, x, labels = make(per_class=per_class, normalize=normalize, **parts)

    def value(x, weight):
        return torch.func.functional_call(loss, {"weight": weight}, (x, labels))

    assert gradcheck(value, (x, loss.weight))
    weights = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 3]), torch.tensor([2, 4, 6])
    assert gradcheck(lambda w: torch.func.functional_call(loss, {"weight": w}, (x, labels, weights)), loss.weight)


def test_only_connected_proxies_get_a_gradient():
    loss, x, labels = make(n=2, proxy_weight=0.0)
    loss(x, labels).backward()
    chosen = loss.subgraph(x, labels).indices.unique()
    touched = loss.weight.grad.any(dim=1).nonzero().flatten()
    assert touched.tolist() == chosen.tolist()
    assert len(touched) < len(loss.weight)


def test_own_proxies_come_first_even_when_they_are_opposite():
    """Adding 1, as printed in the paper, would lose them: their −1 + 1 is below the others' 1."""
    weight = torch.tensor([[-1.0, 0.0], [-1.0, 0.1], [1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [1.0, 0.3]])
    loss = ProxyGMLLoss(3, 2, 2, ratio=0.5, weight_init_func=lambda w: w.copy_(weight))
    chosen = loss.subgraph(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert chosen.indices.tolist() == [[2, 1, 0]]
    loss.positive_mask = False
    assert loss.subgraph(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).indices.tolist() == [[2, 3, 4]]


def test_without_the_positive_mask_the_true_class_still_counts():
    loss = ProxyGMLLoss(3, 3, 1, ratio=0.1, proxy_weight=0.0, positive_mask=False, weight_init_func=torch.nn.init.eye_)
    x, label = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0])  # connected to the proxy of class 1 alone
    assert loss(x, label).item() == pytest.approx(math.log(math.e + 1))
    loss.mask_softmax = False
    assert loss(x, label).item() == pytest.approx(math.log(math.e + 2))


def test_a_sum_of_exactly_zero_is_a_sum_all_the_same():
    """The paper's mask is Z = 0; a class that is connected counts even where its similarities cancel."""
    loss = ProxyGMLLoss(3, 3, 1, ratio=0.6, proxy_weight=0.0, weight_init_func=torch.nn.init.eye_)
    assert loss(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([2])).item() == pytest.approx(
        math.log(math.exp(-(0.5**0.5)) + math.exp(0.5**0.5)) + 0.5**0.5
    )
    assert loss(torch.tensor([[-1.0, 0.0, 0.0]]), torch.tensor([0])).item() == pytest.approx(
        1 + math.log(1 / math.e + 1)
    )


def test_subgraph_is_sorted_and_holds_the_similarities():
    loss, x, labels = make()
    chosen = loss.subgraph(x, labels)
    assert chosen.indices.shape == chosen.similarities.shape == (7, 6)
    assert not chosen.similarities.requires_grad
    assert (chosen.similarities.diff(dim=1) <= 0).all()
    everything = torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(loss.weight).T
    torch.testing.assert_close(chosen.similarities, everything.gather(1, chosen.indices))
    for row, label in zip(chosen.indices.tolist(), labels.tolist(), strict=True):
        assert len(set(row)) == 6
        assert set(range(3 * label, 3 * label + 3)) <= set(row)


@pytest.mark.parametrize(("ratio", "c", "n", "k"), [(0.05, 100, 12, 60), (0.07, 25, 4, 7), (0.3, 10, 12, 36), (1e-9, 2, 2, 1),
                                                    (0.1001, 10, 1, 2), (1.0, 7, 3, 21)])  # fmt: skip
def test_k_is_the_ceiling(ratio, c, n, k):
    assert ProxyGMLLoss(c, 2, n, ratio).k == k


def test_a_miner_s_counts_weigh_the_samples_but_not_the_proxies():
    loss, x, labels = make()
    terms = torch.tensor([0, 0]), torch.tensor([1, 2]), torch.tensor([3, 3])
    weights = torch.tensor(oracle.sample_weights(terms, 7))
    own = loss(x, labels) - torch.stack([_alone(loss, x, labels, i) for i in range(7)]).mean()
    expected = sum(w * _alone(loss, x, labels, i) for i, w in enumerate(weights)) / 7 + own
    torch.testing.assert_close(loss(x, labels, terms), expected)


def _alone(loss, x, labels, i):
    weight, loss.proxy_weight = loss.proxy_weight, 0.0
    value = loss(x[i : i + 1], labels[i : i + 1])
    loss.proxy_weight = weight
    return value


@pytest.mark.parametrize("per_class", [1, 12])
def test_nothing_as_wide_as_all_proxies_is_kept_for_the_backward_pass(per_class):
    classes, m = 11_318 // per_class, 16
    loss = ProxyGMLLoss(classes, 8, per_class, proxy_weight=0.0, generator=torch.Generator().manual_seed(0))
    x = torch.randn(m, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):
        value = loss(x, torch.arange(m))
    assert kept
    assert max(t.numel() for t in kept if t.data_ptr() != loss.weight.data_ptr()) <= m * loss.k + len(loss.weight)
    value.backward()
    assert loss.weight.grad.isfinite().all()


def test_proxies_as_samples_holds_no_matrix_of_pairs():
    classes, per_class = 1200, 4
    weight = torch.randn(classes * per_class, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        proxies_as_samples(weight, per_class, "l2").backward()
    held = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    assert weight.nbytes < most < 4 * classes**2 * per_class  # less than proxies against classes, 4 bytes each


def test_a_step_gathers_a_sample_s_own_proxies_and_drives_off_the_others():
    loss, x, labels = make(n=1, proxy_weight=0.0)
    chosen = loss.subgraph(x, labels)
    loss(x, labels).backward()
    with torch.no_grad():
        loss.weight -= 0.1 * loss.weight.grad
        after = loss.similarities(x, loss.weight)[0, chosen.indices[0]] - chosen.similarities[0]
    own = chosen.indices[0] // 3 == labels[0]
    assert (after[own] > 0).all()
    assert (after[~own] < 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast(dtype):
    loss, x, labels = make()
    loss.float()
    expected = loss(x.detach().to(dtype).float(), labels)
    half = x.detach().to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(half, labels)
        indices = loss.subgraph(half, labels).indices
    assert value == expected
    value.backward()
    assert half.grad.dtype == dtype
    assert torch.equal(indices, loss.subgraph(half.float(), labels).indices)


@every_part
@pytest.mark.parametrize("rows", ["zero", "equal"])
@pytest.mark.parametrize("proxies", ["zero", "collapsed", "random"])
def test_degenerate_points_stay_finite(positive_mask, mask_softmax, proxy_weight, rows, proxies):
    loss, x, labels = make(positive_mask=positive_mask, mask_softmax=mask_softmax, proxy_weight=proxy_weight)
    with torch.no_grad():
        loss.weight.mul_(proxies != "zero")
        if proxies == "collapsed":
            loss.weight.copy_(loss.weight[:1].expand_as(loss.weight))
        x = torch.full_like(x, float(rows == "equal")).requires_grad_()
    value = loss(x, labels)
    gradients = torch.autograd.grad(value, (x, loss.weight))
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
    if rows == "zero":
        assert not gradients[0].any()


@pytest.mark.parametrize("count", [1, 6])
def test_one_sample_and_one_class(count):
    loss, x, _ = make(n=count)
    labels = torch.zeros(count, dtype=torch.long)
    assert loss(x, labels).item() == pytest.approx(by_definition(loss, x, labels), rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ratio": 0.0}, r"ratio: .*\(0, 1\]"),
        ({"ratio": 1.1}, r"ratio: .*\(0, 1\]"),
        ({"ratio": "all"}, "ratio: expected a number"),
        ({"ratio": 0.2}, r"ratio: expected above 1 / num_classes = 0.2.*3 of 15 proxies.* has 3. ratio=0.6 would do"),
        ({"proxy_weight": -0.1}, "proxy_weight"), ({"positive_mask": 1}, "positive_mask: expected True or False"),
        ({"mask_softmax": "yes"}, "mask_softmax: expected True or False"),
        ({"distance": lambda x, w: x @ w.T}, "distance: expected None"), ({"normalize": "l1"}, "normalize"),
        ({"num_classes": 1}, "num_classes: expected at least 2"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named_when_called(changes, message):
    loss = ProxyGMLLoss(**{"num_classes": C, "embedding_size": D, "proxies_per_class": 3, "ratio": 0.4} | changes)
    with pytest.raises(LabError, match=message):
        loss(torch.ones(2, D), torch.tensor([0, 0]))


def test_the_ratio_that_is_named_does():
    for classes in (2, 3, 10, 100):
        loss = ProxyGMLLoss(classes, D, 12, ratio=0.5 / classes)
        with pytest.raises(LabError) as error:
            loss(torch.ones(2, D), torch.tensor([0, 1]))
        loss.ratio = float(error.value.hint.split("=")[1].split(" ")[0])
        assert loss(torch.ones(2, D), torch.tensor([0, 1])) > 0


def test_wrong_input_is_named_for_pictures_too():
    loss = ProxyGMLLoss(C, D, 3, ratio=0.4)
    for call in (loss, loss.subgraph):
        for x, y, word in [
            (torch.ones(2, D), torch.tensor([0, C]), "labels"),
            (torch.ones(2, D) * torch.nan, torch.tensor([0, 1]), "embeddings"),
            (torch.ones(2, D + 1), torch.tensor([0, 1]), "embeddings"),
        ]:
            with pytest.raises(LabError, match=f"^{word}: expected"):
                call(x, y)
