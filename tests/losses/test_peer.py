"""Against pytorch-metric-learning: equal values and gradients, its miners' tuples, its wrappers around our losses."""

import pytest
import torch
from pytorch_metric_learning import distances, miners, reducers
from pytorch_metric_learning import losses as peer

from labkit.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss, TripletLoss

PLAIN = distances.LpDistance(normalize_embeddings=False)
SPHERE = distances.LpDistance(normalize_embeddings=True)
COSINE = distances.CosineSimilarity()


class PeerC1(torch.nn.Module):
    """The peer has no division by the number of anchors: its sum over pairs, divided."""

    def __init__(self):
        super().__init__()
        self.loss = peer.ContrastiveLoss(1, 0.2, distance=COSINE, reducer=reducers.SumReducer())

    def forward(self, embeddings, *rest):
        return self.loss(embeddings, *rest) / len(embeddings)


EQUALS = {
    "c1": (CosineContrastiveLoss(0.2, anchor="sample"), PeerC1()),
    "c2": (ContrastiveLoss(0.3, 1.5, anchor="sample", normalize=None), peer.ContrastiveLoss(0.3, 1.5, distance=PLAIN)),
    "c2 l2": (
        ContrastiveLoss(0.3, 1.5, anchor="sample", normalize="l2"),
        peer.ContrastiveLoss(0.3, 1.5, distance=SPHERE),
    ),
    "triplet": (TripletLoss(0.2, anchor="sample", normalize=None), peer.TripletMarginLoss(0.2, distance=PLAIN)),
    "ms": (MultiSimilarityLoss(2.0, 40.0, 0.5), peer.MultiSimilarityLoss(2, 40, 0.5)),
}
MINERS = {
    "none": lambda *batch: None,
    "similarity pairs": miners.MultiSimilarityMiner(epsilon=0.3),
    "margin pairs": miners.PairMarginMiner(pos_margin=0.5, neg_margin=1.5),
    "hard triplets": miners.TripletMarginMiner(margin=0.4, type_of_triplets="semihard"),
    "hardest": miners.BatchHardMiner(),
}


def make(width=6):
    own = torch.Generator().manual_seed(0)
    x, r = ((torch.randn(n, width, generator=own).double() / width**0.5).requires_grad_() for n in (14, 11))
    return x, torch.randint(4, (14,), generator=own), r, torch.randint(4, (11,), generator=own)


@pytest.mark.parametrize("name", EQUALS)
@pytest.mark.parametrize("mined", MINERS)
@pytest.mark.parametrize("width", [6, 30])
@pytest.mark.parametrize("with_references", [False, True])
def test_equal_value_and_gradient(name, mined, width, with_references):
    ours, theirs = EQUALS[name]
    x, labels, r, reference_labels = make(width)
    references = (r, reference_labels) if with_references else ()
    terms = MINERS[mined](x, labels, *references)
    inputs = (x, r) if with_references else (x,)
    results = []
    for loss in (ours, theirs):
        value = loss(x, labels, terms, *references)
        results.append([value, *torch.autograd.grad(value, inputs)])
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-9)
    assert results[0][0] > 0


@pytest.mark.parametrize("name", EQUALS)
def test_inside_multiple_losses(name):
    loss = EQUALS[name][0]
    x, labels, _, _ = make()
    both = peer.MultipleLosses([loss, peer.MultiSimilarityLoss()], weights=[0.5, 2.0])(x, labels)
    torch.testing.assert_close(both, 0.5 * loss(x, labels) + 2.0 * peer.MultiSimilarityLoss()(x, labels))


@pytest.mark.parametrize("name", ["c2", "ms"])  # it admits a loss by the name of its class
@pytest.mark.parametrize("miner", [None, miners.TripletMarginMiner(margin=0.4)])
def test_inside_its_cross_batch_memory(name, miner):
    x, labels, r, reference_labels = make()
    values = []
    for loss in EQUALS[name]:
        memory = peer.CrossBatchMemory(loss, embedding_size=6, memory_size=40, miner=miner)
        memory(r.detach(), reference_labels)
        value = memory(x, labels)
        values.append([value, *torch.autograd.grad(value, x)])
    torch.testing.assert_close(*values, rtol=1e-6, atol=1e-9)


def test_triplets_keep_their_roles_whatever_the_anchor():
    x, labels, r, reference_labels = make()
    terms = miners.TripletMarginMiner(margin=0.4)(x, labels, r, reference_labels)
    values = [TripletLoss(0.2, anchor=side)(x, labels, terms, r, reference_labels) for side in ("proxy", "sample")]
    assert values[0] == values[1] > 0
