"""Calls that are legal but odd, and wrong ones that used to break deep inside: self-pairs of a miner, inference mode, settings
beyond every float, parts that cannot be called."""

import pytest
import torch
from pytorch_metric_learning import losses as peer

from labkit.errors import LabError
from labkit.losses import (
    ContrastiveLoss,
    CosineContrastiveLoss,
    CrossBatchMemory,
    FunctionLoss,
    MinedLoss,
    MultiLevelLoss,
    MultiSimilarityLoss,
    ProxyAnchorLoss,
    RankedListLoss,
    SoftTripleLoss,
    TripletLoss,
)

PAIR_LOSSES = {
    "c1": lambda **named: CosineContrastiveLoss(0.1, **named),
    "c2": lambda **named: ContrastiveLoss(0.3, 1.2, **named),
    "triplet": lambda **named: TripletLoss(0.4, **named),
    "ms": lambda **named: MultiSimilarityLoss(2.0, 10.0, 0.4, **named),
    "rll": lambda **named: RankedListLoss(1.3, 0.6, 0.0, **named),
}


def batch(width, n=12):
    x = torch.randn(n, width, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return x.div(width**0.5), torch.arange(n) % 3


def numeric_gradient(loss, x, *rest, step=1e-6):
    """Central differences of the loss by every number of x."""
    gradient = torch.zeros_like(x)
    for place in range(x.numel()):
        ends = []
        for sign in (1, -1):
            moved = x.clone()
            moved.view(-1)[place] += sign * step
            ends.append(loss(moved, *rest))
        gradient.view(-1)[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("width", [4, 20])  # distances by differences, and by a product
@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_a_miner_may_name_a_sample_with_itself(name, width, columns):
    """Its distance is 0 and pulls nowhere; the other pairs of the sample act as they do without it."""
    x, labels = batch(width)
    a = torch.arange(12)
    p, n = torch.where(a % 2 == 0, a, (a + 3) % 12), torch.where(a % 3 == 0, a, (a + 1) % 12)
    terms = (a, p, n) if columns == 3 else (a, p, a.repeat(2), torch.cat([n, (a + 2) % 12]))
    loss = PAIR_LOSSES[name](normalize=None)
    leaf = x.clone().requires_grad_()
    loss(leaf, labels, terms).backward()
    still = (x, labels) if name == "rll" else ()  # whose gallery is a constant
    torch.testing.assert_close(leaf.grad, numeric_gradient(loss, x, labels, terms, *still), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_references_made_in_inference_mode_are_welcome(name):
    x, labels = batch(6)
    with torch.inference_mode():
        made = x.clone() + 0.1
    results = []
    for references in (made, made.clone()):
        leaf = x.clone().requires_grad_()
        value = PAIR_LOSSES[name]()(leaf, labels, None, references, labels)
        value.backward()
        results.append((value.detach(), leaf.grad))
    torch.testing.assert_close(*results)


def test_nested_embeddings_are_named():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(LabError, match="^embeddings: expected a torch.Tensor of shape .*; got a nested tensor"):
        ContrastiveLoss()(nested, torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda big: ContrastiveLoss(neg_margin=big), "neg_margin"),
        (lambda big: MultiSimilarityLoss(alpha=big), "alpha"),
        (lambda big: RankedListLoss(alpha=big), "alpha"),
        (lambda big: TripletLoss(margin=big), "margin"),
        (lambda big: ProxyAnchorLoss(3, 4, alpha=big), "alpha"),
        (lambda big: SoftTripleLoss(3, 4, la=big), "la"),
    ],
)
def test_whole_numbers_that_torch_cannot_take_are_named(make, name):
    with pytest.raises(LabError, match=f"^{name}: expected a whole number of at most 64 bits.*Write 1.18059e.21"):
        make(2**70)(*batch(4))


def test_a_weight_under_which_gradients_would_be_no_numbers_is_named():
    x = torch.arange(24.0).view(6, 4).mul(3).requires_grad_()
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    with pytest.raises(LabError, match=r"^weight: expected a finite number in \[0, 1e\+30\]; got 1e\+39"):
        RankedListLoss(weight=1e39, normalize=None)(x, labels)
    RankedListLoss(weight=1e30, normalize=None)(x, labels).backward()
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: FunctionLoss(None)(x, y), "^function: expected a function of values, same, different; got None"),
        (lambda x, y: FunctionLoss(lambda d, s, o: d.sum().to(torch.complex64))(x, y), "<lambda>: .*a real 0-d tensor"),
        (lambda x, y: FunctionLoss(lambda d, s, o: d.sum().to("meta"))(x, y), "<lambda>: expected a dense tensor"),
        (lambda x, y: MultiLevelLoss([torch.nn.Linear(2, 2)] * 2), r"^losses\[0\]: expected something to be called as"),
        (lambda x, y: MinedLoss(ContrastiveLoss(), lambda a, b: None)(x, y), "^miner: expected something to be called as"),
        (lambda x, y: MinedLoss(torch.nn.CrossEntropyLoss())(x, y), "^loss: expected something to be called as"),
        (lambda x, y: CrossBatchMemory(torch.nn.CrossEntropyLoss(), 4, 10), "CrossEntropyLoss: expected something to be called"),
        (lambda x, y: CrossBatchMemory(ContrastiveLoss(), 4, 10**15), "^memory_size: expected rows that fit into memory"),
        (lambda x, y: SoftTripleLoss(3, 4, weight_init_func=lambda: 0), "^weight_init_func: expected something to be called"),
    ],
)
def test_what_cannot_be_called_or_held_is_named(call, words):
    with pytest.raises(LabError, match=words):
        call(*batch(4))


class Row(torch.nn.Module):
    def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
        return embeddings.sum(dim=1)


def test_a_loss_of_somebody_else_that_gives_no_number_is_told_where_it_comes_from():
    x, y = batch(4)
    for loss in (CrossBatchMemory(Row(), 4, 10), MultiLevelLoss([Row(), peer.ContrastiveLoss()])):
        with pytest.raises(LabError, match="^Row: expected a loss that gives a real 0-d tensor; got a Tensor of shape"):
            loss(x, y)


@pytest.mark.parametrize(("key", "value"), [("steps", "x"), ("steps", -1), ("pushed", 2.5), ("pushed", None), ("pushed", 10**30)])
def test_a_damaged_state_of_a_memory_is_refused_when_it_is_loaded(key, value):
    memory = CrossBatchMemory(ContrastiveLoss(), 4, 10)
    x, y = batch(4)
    memory(x, y)
    state = memory.state_dict()
    place = "_extra_state" if key == "steps" else "memory._extra_state"
    state[place] = {key: value}
    with pytest.raises(LabError, match=f"^{key}: expected a whole number"):
        CrossBatchMemory(ContrastiveLoss(), 4, 10).load_state_dict(state)
