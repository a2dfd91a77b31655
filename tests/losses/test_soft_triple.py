"""SoftTriple as its reference page has it: names, defaults, shapes, initialisation, limits of gamma, memory."""

import inspect
import math

import pytest
import torch
from torch.nn import functional

from labkit import losses
from labkit.errors import LabError
from labkit.losses import SoftTripleLoss, SparseCentersRegularizer
from tests.oracles import proxy_losses as oracle


def points(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_reference_pages_example():
    loss_func = losses.SoftTripleLoss(
        num_classes=10,
        embedding_size=128,
        weight_regularizer=losses.SparseCentersRegularizer(10, 10),
        weight_reg_weight=0.2,
    )
    optimizer = torch.optim.SGD(loss_func.parameters(), lr=0.01)
    embeddings = torch.randn(32, 128, requires_grad=True)
    labels = torch.randint(0, 10, (32,))
    before = loss_func.weight.detach().clone()
    loss = loss_func(embeddings, labels)
    loss.backward()
    optimizer.step()
    assert embeddings.grad.any()
    assert (loss_func.weight != before).any(dim=1).all()


def test_signature_and_defaults():
    parameters = inspect.signature(SoftTripleLoss).parameters
    assert list(parameters) == [
        *["num_classes", "embedding_size", "centers_per_class", "la", "gamma", "margin"],
        *["weight_regularizer", "weight_reg_weight", "weight_init_func", "options"],
    ]
    defaults = {"centers_per_class": 10, "la": 20, "gamma": 0.1, "margin": 0.01}
    defaults |= {"weight_regularizer": None, "weight_reg_weight": 1.0, "weight_init_func": None}
    assert {name: parameters[name].default for name in defaults} == defaults
    keywords = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    assert keywords == ["weight_regularizer", "weight_reg_weight", "weight_init_func"]
    with pytest.raises(TypeError):
        SoftTripleLoss(2, 3, 10, 20, 0.1, 0.01, None)


def test_weight_layout_and_initialisation():
    torch.manual_seed(5)
    loss = SoftTripleLoss(7, 12, 3)
    assert loss.weight.shape == (21, 12)
    assert [name for name, _ in loss.named_parameters()] == ["weight"]
    torch.manual_seed(5)
    expected = torch.nn.init.kaiming_uniform_(torch.empty(21, 12), a=math.sqrt(5), mode="fan_out")
    assert torch.equal(loss.weight.detach(), expected)
    assert SoftTripleLoss(7, 12).weight.shape == (70, 12)
    assert SoftTripleLoss(7, 12, 3).centers_per_class == 3


def test_rows_belong_to_classes_in_order():
    loss = SoftTripleLoss(3, 6, 2, weight_init_func=torch.nn.init.eye_)
    x = torch.eye(6)
    nearest = loss.get_logits(x).argmax(dim=1)
    assert nearest.tolist() == [0, 0, 1, 1, 2, 2]


def test_logits_have_neither_scale_nor_margin():
    x = points(5, 4)
    loss = SoftTripleLoss(3, 4, 2, la=50, gamma=0.2, margin=0.4).double()
    rows, classes = oracle.sides(x.tolist(), loss.weight.tolist(), 2, "l2")
    expected = [[oracle.soft_similarity(row, centers, 0.2) for centers in classes] for row in rows]
    torch.testing.assert_close(loss.get_logits(x), torch.tensor(expected, dtype=torch.float64))
    labels = torch.tensor([0, 1, 2, 0, 1])
    shifted = loss.get_logits(x) - 0.4 * functional.one_hot(labels, 3)
    torch.testing.assert_close(loss(x, labels), functional.cross_entropy(50 * shifted, labels))
    with pytest.raises(LabError, match="embeddings"):
        loss.get_logits(x[0])


def test_weights_of_a_regularizer_multiply():
    x, labels = points(5, 4), torch.tensor([0, 1, 2, 0, 1])
    plain = SoftTripleLoss(3, 4, 2).double()
    loss = SoftTripleLoss(3, 4, 2, weight_regularizer=SparseCentersRegularizer(3, 2), weight_reg_weight=0.2).double()
    loss.load_state_dict(plain.state_dict())
    penalty = oracle.sparse_centers(plain.weight.tolist(), 2)
    assert (loss(x, labels) - plain(x, labels)).item() == pytest.approx(0.2 * penalty)


def test_gamma_warns_only_above_one(recwarn):
    SoftTripleLoss(2, 2, gamma=0.1)
    SoftTripleLoss(2, 2, gamma=1.0)
    SoftTripleLoss(2, 2, gamma=math.inf)
    assert not recwarn.list
    with pytest.warns(
        UserWarning, match=r"gamma = 19.18 .* nearly equal; perhaps 1 / gamma = 0.0521\d* was meant"
    ) as seen:
        SoftTripleLoss(2, 2, la=17.69, gamma=19.18, margin=0.3588)
    assert seen[0].filename == __file__


@pytest.mark.filterwarnings("ignore:gamma")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [0.0, 1e-300, 1e-6, 1e6, 1e300, math.inf])
def test_limits_of_gamma(gamma, dtype):
    x = points(6, 4).to(dtype).requires_grad_()
    loss = SoftTripleLoss(3, 4, 5, gamma=gamma).to(dtype)
    cosines = functional.normalize(x) @ functional.normalize(loss.weight).T
    by_class = cosines.view(6, 3, 5)
    limit = by_class.amax(dim=2) if gamma < 1 else by_class.mean(dim=2)
    torch.testing.assert_close(loss.get_logits(x), limit, rtol=1e-5, atol=1e-5)
    slopes = torch.autograd.grad(loss.get_logits(x)[:, 0].sum(), (x, loss.weight))
    torch.testing.assert_close(slopes, torch.autograd.grad(limit[:, 0].sum(), (x, loss.weight)), rtol=1e-4, atol=1e-4)


def test_an_ordinary_softmax_with_one_center():
    x, labels = points(6, 4), torch.arange(6) % 3
    loss = SoftTripleLoss(3, 4, 1, la=9.0, gamma=0.5, margin=0.0).double()
    cosines = functional.normalize(x) @ functional.normalize(loss.weight).T
    torch.testing.assert_close(loss(x, labels), functional.cross_entropy(9.0 * cosines, labels))


def test_a_distance_is_refused():
    with pytest.raises(LabError, match=r"distance: expected a similarity.*CosineSimilarity"):
        distance = torch.nn.Identity()
        distance.is_inverted = False
        SoftTripleLoss(2, 2, distance=distance)(torch.ones(1, 2), torch.tensor([0]))


def test_memory_grows_with_the_centers_not_with_their_pairs():
    classes, per_class = 2000, 10
    loss = SoftTripleLoss(
        classes, 8, per_class, weight_regularizer=SparseCentersRegularizer(classes, per_class), weight_reg_weight=0.2
    )
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        loss(x, torch.arange(4)).backward()
    held = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    assert loss.weight.numel() * 4 <= most < 20 * loss.weight.numel() * 4 < (classes * per_class) ** 2 / 10
