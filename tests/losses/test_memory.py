"""Cross-batch memory: what it adds, first in first out, stale copies, gradients, saving, the losses it takes."""

import copy

import pytest
import torch
from pytorch_metric_learning import distances
from pytorch_metric_learning import losses as peer

from labkit.errors import LabError
from labkit.losses import (
    ContrastiveLoss,
    CosineContrastiveLoss,
    CrossBatchMemory,
    FunctionLoss,
    MinedLoss,
    MultiSimilarityLoss,
    ProxyNCALoss,
    RankedListLoss,
    TripletLoss,
)
from labkit.losses.blocks import BLOCK_ELEMENTS
from tests.oracles import losses as oracle

WIDTH = 5
LOSSES = {
    "c1": lambda: CosineContrastiveLoss(0.1, anchor="sample"),
    "c2": lambda: ContrastiveLoss(0.3, 1.2),
    "triplet": lambda: TripletLoss(0.2),
    "ms": lambda: MultiSimilarityLoss(2.0, 10.0, 0.4),
    "rll": lambda: RankedListLoss(1.3, 0.6, 3.0),
    "function": lambda: FunctionLoss(
        lambda d, same, different: d[same].sum() + (1.2 - d[different]).clamp(min=0).sum()
    ),
    "peer c2": lambda: peer.ContrastiveLoss(0.3, 1.2, distance=distances.LpDistance(normalize_embeddings=False)),
    "peer ms": lambda: peer.MultiSimilarityLoss(2, 10, 0.4),
    "peer triplet": lambda: peer.TripletMarginLoss(0.2),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def batches(number, n=6, width=WIDTH, seed=0, dtype=torch.float64):
    own = torch.Generator().manual_seed(seed)
    for _ in range(number):
        x = torch.randn(n, width, generator=own, dtype=dtype, requires_grad=True)
        yield x, torch.randint(3, (n,), generator=own)


def value_and_gradient(loss, x, *rest, **named):
    value = loss(x, *rest, **named)
    return value, torch.autograd.grad(value, x)[0]


@every_loss
@pytest.mark.parametrize("size", [4, 6, 11, 100])
def test_adds_the_same_loss_against_the_last_rows(name, size):
    memory, plain = CrossBatchMemory(LOSSES[name](), WIDTH, size), LOSSES[name]()
    past, owners = torch.empty(0, WIDTH, dtype=torch.float64), torch.empty(0, dtype=torch.long)
    for x, labels in batches(5):
        expected = plain(x, labels)
        if len(past) > 0:
            expected = expected + plain(x, labels, None, past, owners)
        gradient = torch.autograd.grad(expected, x)[0]
        torch.testing.assert_close(value_and_gradient(memory, x, labels), (expected.detach(), gradient))
        kept = plain.normalized(x.detach()) if hasattr(plain, "normalized") and name != "function" else x.detach()
        past, owners = torch.cat((past, kept))[-size:], torch.cat((owners, labels))[-size:]
        assert memory.memory.filled == len(past)
        stored, _, _ = memory.memory.contents(like=x)
        assert {tuple(row) for row in stored.tolist()} == {tuple(row) for row in past.tolist()}


def test_by_definition():
    memory = CrossBatchMemory(ContrastiveLoss(0.3, 1.2), WIDTH, 100)
    (x, labels), (z, others) = batches(2)
    memory(x, labels)
    settings = {"pos_margin": 0.3, "neg_margin": 1.2, "normalize": "lipschitz"}
    first = oracle.contrastive(z.tolist(), others.tolist(), **settings)
    second = oracle.contrastive(z.tolist(), others.tolist(), x.tolist(), labels.tolist(), **settings)
    assert memory(z, others).item() == pytest.approx(first + second, rel=1e-12)


@pytest.mark.parametrize("warmup", [1, 3])
def test_during_warm_up_the_memory_only_fills(warmup):
    memory, plain = (
        CrossBatchMemory(ContrastiveLoss(0.3, 1.2), WIDTH, 100, warmup_steps=warmup),
        ContrastiveLoss(0.3, 1.2),
    )
    for step, (x, labels) in enumerate(batches(6)):
        alone = plain(x, labels)
        assert (memory(x, labels) == alone) == (step < max(1, warmup))
        assert memory.memory.filled == 6 * (step + 1)


@every_loss
@pytest.mark.parametrize("elements", [1 << 20, 30])
def test_a_sample_never_meets_its_stale_copies(name, elements, monkeypatch):
    """Pairs of the samples with other rows of memory stay, stale copies of other samples among them."""
    monkeypatch.setitem(BLOCK_ELEMENTS, "cpu", elements)
    memory, plain = CrossBatchMemory(LOSSES[name](), WIDTH, 100), LOSSES[name]()
    own = torch.Generator().manual_seed(3)
    classes = torch.randint(3, (9,), generator=own)
    past, owners, past_ids = torch.empty(0, WIDTH, dtype=torch.float64), [], []
    for x, _ in batches(4):
        ids = torch.randperm(9, generator=own)[:6]
        labels = classes[ids]
        value, gradient = value_and_gradient(memory, x, labels, sample_ids=ids)
        expected = plain(x, labels)
        if owners:
            allowed = [(i, j) for i in range(6) for j in range(len(owners)) if ids[i] != past_ids[j]]
            assert len(allowed) < 6 * len(owners)
            sides = [[(i, j) for i, j in allowed if (labels[i] == owners[j]) == side] for side in (True, False)]
            terms = [torch.tensor(index) for side in sides for index in zip(*side, strict=True)]
            expected = expected + plain(x, labels, tuple(terms), past, torch.tensor(owners))
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, x)[0])
        past = torch.cat((past, x.detach()))
        owners += labels.tolist()
        past_ids += ids.tolist()


def test_stale_copies_of_a_large_memory_seen_as_anchors(monkeypatch):
    """Anchors without positives are dropped first: the excluded pairs follow."""
    monkeypatch.setattr("labkit.losses.pairs.MANY_ANCHORS", 3)
    monkeypatch.setattr("labkit.losses.triplet.FEW_POSITIVES", 0)
    values = []
    for anchor in ("proxy", "sample"):
        memory = CrossBatchMemory(ContrastiveLoss(0.3, 1.2, anchor=anchor), WIDTH, 100)
        triplets = CrossBatchMemory(TripletLoss(0.2, anchor=anchor), WIDTH, 100)
        for x, labels in batches(3):
            ids = torch.arange(6)
            values.append(value_and_gradient(memory, x, labels, sample_ids=ids))
            assert value_and_gradient(triplets, x, labels + (ids % 2) * 10, sample_ids=ids)[0].isfinite()
    torch.testing.assert_close(values[:3], values[3:])
    x, labels = next(batches(1))
    memory = CrossBatchMemory(TripletLoss(5.0, anchor="proxy"), WIDTH, 100)
    memory(torch.flip(x, (0,)), torch.tensor([9, 9, 0, 0, 1, 1]), sample_ids=torch.tensor([5, 4, 3, 2, 1, 0]))
    y = torch.tensor([1, 1, 0, 0, 7, 8])  # two samples of no remembered class; all but these meet stale copies
    value = memory(x, y, sample_ids=torch.arange(6)) - TripletLoss(5.0)(x, y)
    pairs = [(a, p, n) for a in (2, 3, 4, 5) for p in range(4) for n in range(6)
             if y[p] == torch.tensor([9, 9, 0, 0, 1, 1])[a] and y[n] != y[p] and 5 - a not in (p, n)]  # fmt: skip
    past, now = (v / v.norm(dim=1, keepdim=True).clamp(min=1) for v in (torch.flip(x, (0,)), x))
    costs = torch.stack([(past[a] - now[p]).norm() - (past[a] - now[n]).norm() + 5.0 for a, p, n in pairs])
    torch.testing.assert_close(value, costs.mean())


@pytest.mark.parametrize("columns", [3, 4])
def test_a_miner_picks_from_the_memory_too_and_stale_copies_are_left_out(columns):
    """With its own miner a loss must not fall back to all pairs as soon as a sample of the batch is remembered."""
    calls = []

    def miner(x, labels, references, owners):
        others = labels if references is None else owners
        calls.append(len(others))
        same, different = labels[:, None] == others, labels[:, None] != others
        if references is None:
            same.fill_diagonal_(False)
        a, p = same.nonzero(as_tuple=True)
        b, n = different.nonzero(as_tuple=True)
        keep = p % 2 == 0  # half of the positives: not what all pairs would be
        if columns == 4:
            return a[keep], p[keep], b, n
        pairs = zip(a[keep].tolist(), p[keep].tolist(), strict=True)
        triplets = [(i, j, k) for i, j in pairs for k in range(len(others)) if different[i, k]]
        return tuple(torch.tensor(column) for column in zip(*triplets, strict=True))

    inner = TripletLoss(0.2) if columns == 3 else ContrastiveLoss(0.3, 1.2)
    memory = CrossBatchMemory(MinedLoss(inner, miner, normalize=None), WIDTH, 100)
    (x, _), (z, _) = batches(2)
    labels, others = torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([1, 0, 1, 0, 1, 0])
    memory(x, labels, sample_ids=torch.arange(6))
    value = memory(z, others, sample_ids=torch.arange(3, 9))  # samples 3, 4, 5 stand in the memory as rows 3, 4, 5
    assert calls == [6, 6, 6]
    terms = miner(z, others, x, labels)
    stale = {(0, 3), (1, 4), (2, 5)}
    if columns == 3:
        rows = [row for row in zip(*(t.tolist() for t in terms), strict=True) if not {row[:2], row[::2]} & stale]
        left = tuple(torch.tensor(column) for column in zip(*rows, strict=True))
    else:
        both = [zip(a.tolist(), b.tolist(), strict=True) for a, b in (terms[:2], terms[2:])]
        sides = [[pair for pair in side if pair not in stale] for side in both]
        left = tuple(torch.tensor(column) for side in sides for column in zip(*side, strict=True))
    assert sum(map(len, left)) < sum(map(len, terms))
    torch.testing.assert_close(value, inner(z, others, miner(z, others, None, None)) + inner(z, others, left, x.detach(), labels))


def test_samples_without_ids_have_no_stale_copies():
    memory, plain = CrossBatchMemory(ContrastiveLoss(0.3, 1.2), WIDTH, 100), ContrastiveLoss(0.3, 1.2)
    (x, labels), (z, others) = batches(2)
    memory(x, labels)
    expected = plain(z, others) + plain(z, others, None, x.detach(), labels)
    torch.testing.assert_close(memory(z, others, sample_ids=torch.arange(6)), expected)


@every_loss
def test_a_backward_pass_may_come_after_the_memory_has_moved_on(name):
    memory = CrossBatchMemory(LOSSES[name](), WIDTH, 7)
    expected, total, inputs = [], 0.0, []
    for x, labels in batches(4):
        twin = copy.deepcopy(memory)
        expected.append(value_and_gradient(twin, x, labels)[1] * 3)
        total = total + 3 * memory(x, labels)
        inputs.append(x)
    torch.testing.assert_close(list(torch.autograd.grad(total, inputs)), expected)


def test_a_loss_with_parameters_learns_from_both_parts():
    x, labels = next(batches(1))

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))
            self.unused = torch.nn.Parameter(torch.ones(1))

        def forward(self, x, y, terms=None, r=None, reference_labels=None):
            return MultiSimilarityLoss()(x * self.scale, y, terms, r, reference_labels)

    scaled = Scaled()
    memory = CrossBatchMemory(scaled, WIDTH, 100)
    memory(x, labels)
    memory(x, labels).backward()
    expected = MultiSimilarityLoss()(x * scaled.scale, labels)
    expected = expected + MultiSimilarityLoss()(x * scaled.scale, labels, None, x.detach(), labels)
    torch.testing.assert_close(scaled.scale.grad, torch.autograd.grad(expected, scaled.scale)[0])


def test_saved_and_loaded_it_goes_on_as_if_nothing_had_happened():
    whole = CrossBatchMemory(MultiSimilarityLoss(), WIDTH, 10, warmup_steps=2)
    *first, last = batches(4)
    for number, batch in enumerate(first):
        whole(*batch, sample_ids=torch.arange(6) + number)
    loaded = CrossBatchMemory(MultiSimilarityLoss(), WIDTH, 10, warmup_steps=2)
    loaded.load_state_dict(whole.state_dict())
    assert loaded.memory.embeddings.dtype == torch.float64
    assert loaded.memory.embeddings.data_ptr() != whole.memory.embeddings.data_ptr()
    ids = torch.arange(6)
    assert loaded(*last, sample_ids=ids) == whole(*last, sample_ids=ids)
    assert (loaded.steps, loaded.memory.pushed) == (4, 24)
    torch.testing.assert_close(loaded.state_dict(), whole.state_dict(), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="size mismatch"):
        CrossBatchMemory(MultiSimilarityLoss(), WIDTH, 11).load_state_dict(whole.state_dict())


def test_in_eval_mode_and_without_gradient():
    memory = CrossBatchMemory(MultiSimilarityLoss(), WIDTH, 10)
    (x, labels), (z, others) = batches(2)
    memory(x, labels)
    memory.eval()
    value = memory(z, others)
    assert (memory.steps, memory.memory.filled) == (1, 6)
    memory.train()
    with torch.no_grad():
        assert memory(z, others) == value
    assert not memory(z.detach(), others).requires_grad
    assert memory.memory.filled == 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    memory, full = (CrossBatchMemory(MultiSimilarityLoss(), WIDTH, 10) for _ in range(2))
    for x, labels in batches(3):
        half = x.detach().to(dtype).requires_grad_()
        value, gradient = value_and_gradient(memory, half, labels)
        wide, wide_gradient = value_and_gradient(full, half.detach().float().requires_grad_(), labels)
        assert value == wide
        assert gradient.dtype == dtype
        torch.testing.assert_close(gradient.float(), wide_gradient, rtol=2e-2, atol=1e-3)
    assert memory.memory.embeddings.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = copy.deepcopy(full)(x.float(), labels)
    assert inside == full(x.float(), labels)


def test_the_first_part_takes_a_miner_s_terms_and_references():
    memory, plain = CrossBatchMemory(ContrastiveLoss(0.3, 1.2), WIDTH, 10), ContrastiveLoss(0.3, 1.2)
    (x, labels), (z, others), (proxies, owners) = batches(3)
    terms = (torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([4, 5]))
    assert memory(x, labels, terms, proxies, owners) == plain(x, labels, terms, proxies, owners)
    expected = plain(z, others, terms) + plain(z, others, None, x.detach(), labels)
    torch.testing.assert_close(memory(z, others, terms), expected)


X, Y = torch.zeros(4, WIDTH), torch.tensor([0, 0, 1, 1])
BAD = {
    "another width": ((X[:, :3], Y), {}, ["embeddings", f"embedding_size = {WIDTH}", "(4, 3)"]),
    "NaN": ((X + torch.nan, Y), {}, ["embeddings", "finite"]),
    "integers": ((X.long(), Y), {}, ["embeddings", "floating"]),
    "labels of another length": ((X, Y[:3]), {}, ["labels", "(4,)", "(3,)"]),
    "one sample": ((X[:1], Y[:1]), {}, ["embeddings", "one row"]),
    "ids of another length": ((X, Y), {"sample_ids": Y[:3]}, ["sample_ids", "(4,)", "(3,)"]),
    "negative ids": ((X, Y), {"sample_ids": Y - 1}, ["sample_ids", ">= 0", "-1"]),
    "floating ids": ((X, Y), {"sample_ids": Y.float()}, ["sample_ids", "integer"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_leaves_the_memory_alone(case):
    arguments, named, words = BAD[case]
    memory = CrossBatchMemory(ContrastiveLoss(), WIDTH, 10)
    memory(X, Y)
    with pytest.raises(LabError) as error:
        memory(*arguments, **named)
    assert str(error.value).startswith(words[0] + ":")
    assert all(word in str(error.value) for word in words)
    assert (memory.steps, memory.memory.filled) == (1, 4)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("loss", (None, 4, 4)), ("loss", (ProxyNCALoss(3, 4), 4, 4)), ("function", (lambda x, y: x.sum(), 4, 4)),
     ("embedding_size", (ContrastiveLoss(), 0, 4)), ("memory_size", (ContrastiveLoss(), 4, 0)),
     ("memory_size", (ContrastiveLoss(), 4, 2.5)), ("warmup_steps", (ContrastiveLoss(), 4, 4, -1))],
)  # fmt: skip
def test_bad_sizes_are_named(name, arguments):
    with pytest.raises(LabError, match=f"^{name}: expected"):
        CrossBatchMemory(*arguments)


def test_a_loss_that_gives_no_number_is_named():
    memory = CrossBatchMemory(lambda embeddings, labels, indices_tuple, ref_emb, ref_labels: embeddings.sum(1), WIDTH, 10)
    with pytest.raises(LabError, match=r"^<lambda>: expected a loss that gives a real 0-d tensor.*mean"):
        memory(X, Y)
    assert memory.memory.filled == 0


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]])
@pytest.mark.parametrize("name", ["c1", "c2", "triplet", "ms", "rll"])
def test_one_class_or_one_sample_a_class(name, labels):
    memory = CrossBatchMemory(LOSSES[name](), WIDTH, 10)
    for x in (X, X + 1, X):
        value, gradient = value_and_gradient(memory, x.clone().requires_grad_(), torch.tensor(labels))
        assert value.isfinite()
        assert gradient.isfinite().all()
