"""The three losses that own proxies: by the definition, their gradients, and what they refuse."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.func import functional_call

from tests.losses.proxies import DEFINITIONS, C, D, anchor, batch, every_loss, of
from tests.oracles import proxy_losses as oracle


def with_weight(loss, *arguments):
    return lambda x, weight: functional_call(loss, {"weight": weight}, (x, *arguments))


@every_loss
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 7),
    per_class=st.integers(1, 3),
    normalize=st.sampled_from(["lipschitz", "l2", None]),
)
def test_as_defined(make, seed, n, per_class, normalize):
    loss = of(make(per_class, normalize=normalize), seed + 1)
    x, labels = batch(n, seed)
    by_definition, settings_ = DEFINITIONS[make]
    arguments = x.tolist(), labels.tolist(), loss.weight.tolist(), per_class
    expected = by_definition(*arguments, normalize=normalize, **settings_)
    assert loss(x, labels).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@every_loss
@pytest.mark.parametrize("per_class", [1, 3])
@pytest.mark.parametrize("normalize", ["lipschitz", "l2", None])
def test_gradients_by_finite_differences(make, per_class, normalize, monkeypatch):
    monkeypatch.setattr("labkit.losses.similarity.NUMBERS_AT_ONCE", 8)  # several blocks
    loss = of(make(per_class, normalize=normalize))
    x, labels = batch()
    assert gradcheck(with_weight(loss, labels), (x, loss.weight))
    terms = torch.tensor([0, 3, 3]), torch.tensor([1, 3, 8]), torch.tensor([2, 4, 5])
    assert gradcheck(with_weight(loss, labels, terms), (x, loss.weight))
    assert gradcheck(lambda x, weight: functional_call(_Logits(loss), {"loss.weight": weight}, (x,)), (x, loss.weight))


class _Logits(torch.nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, x):
        return self.loss.get_logits(x)


@every_loss
def test_blocks_change_nothing(make, monkeypatch):
    loss, (x, labels) = of(make()), batch()
    whole = [loss(x, labels), *torch.autograd.grad(loss(x, labels), (x, loss.weight))]
    monkeypatch.setattr("labkit.losses.similarity.NUMBERS_AT_ONCE", 1)
    value = loss(x, labels)
    torch.testing.assert_close([value, *torch.autograd.grad(value, (x, loss.weight))], whole)


@every_loss
def test_a_backward_pass_can_be_repeated(make):
    loss, (x, labels) = of(make()), batch()
    expected = torch.autograd.grad(loss(x, labels), (x, loss.weight))
    value = 3 * loss(x, labels)
    value.backward(retain_graph=True)
    value.backward()
    torch.testing.assert_close((x.grad, loss.weight.grad), tuple(6 * g for g in expected))
    fixed = copy.deepcopy(loss).requires_grad_(False)
    torch.testing.assert_close(torch.autograd.grad(fixed(x, labels), x)[0], expected[0])
    torch.testing.assert_close(torch.autograd.grad(loss(x.detach(), labels), loss.weight)[0], expected[1])


@every_loss
@pytest.mark.parametrize("labels", [[2], [1, 1, 1], [0, 1, 2, 3]])
def test_single_samples_and_single_classes(make, labels):
    loss, (x, _) = of(make()), batch(len(labels))
    value = loss(x, torch.tensor(labels))
    by_definition, settings_ = DEFINITIONS[make]
    expected = by_definition(x.tolist(), labels, loss.weight.tolist(), 2, **settings_)
    assert value.item() == pytest.approx(expected)
    gradients = torch.autograd.grad(value, (x, loss.weight))
    assert all(g.isfinite().all() and g.any() for g in gradients)


@every_loss
def test_a_miners_tuple_becomes_one_weight_per_sample(make):
    x, labels = batch()
    terms = torch.tensor([0, 3, 3]), torch.tensor([1, 3, 8]), torch.tensor([2, 4]), torch.tensor([5, 3])
    weights = torch.tensor(oracle.sample_weights(terms, len(x)), dtype=torch.float64)
    assert weights.tolist() == [0.25, 0.25, 0.25, 1.0, 0.25, 0.25, 0.0, 0.0, 0.25]
    loss = of(make())
    value = loss(x, labels, terms)
    if make is anchor:
        shifted = DEFINITIONS[anchor][1]
        by_hand = oracle.proxy_anchor(x.tolist(), labels.tolist(), loss.weight.tolist(), 2, **shifted)
        assert value.item() < by_hand  # each exponential counts exp(w − 1) <= 1 times; the peer's test has the value
    else:
        each = torch.stack([loss(x[i : i + 1], labels[i : i + 1]) for i in range(len(x))])
        torch.testing.assert_close(value, (each * weights).mean())
    nothing = torch.tensor([], dtype=torch.long)
    torch.testing.assert_close(loss(x, labels, (nothing,) * 4), loss(x, labels))


@every_loss
def test_initialisation_from_a_generator_of_its_own(make):
    before = torch.get_rng_state()
    one, two = (make(generator=torch.Generator().manual_seed(3)).weight for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(one, make(generator=torch.Generator().manual_seed(4)).weight)
    torch.testing.assert_close(
        make(weight_init_func=torch.nn.init.ones_).weight, torch.nn.Parameter(torch.ones(2 * C, D))
    )


@every_loss
def test_state_and_copies(make):
    loss, other, (x, labels) = make(), make(), batch()
    other.load_state_dict(loss.state_dict())
    assert list(loss.state_dict()) == ["weight"]
    torch.testing.assert_close(other(x, labels), loss(x, labels))
    torch.testing.assert_close(copy.deepcopy(loss)(x, labels), loss(x, labels))


@every_loss
def test_logits_of_the_nearest_class(make):
    loss = make(weight_init_func=lambda weight: weight.copy_(torch.eye(C)[:, :D].repeat_interleave(2, 0)))
    logits = loss.get_logits(torch.eye(D))
    torch.testing.assert_close(logits, torch.eye(C)[:D])
