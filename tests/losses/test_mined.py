"""A loss and its miner as one: the same as the two called by hand, in a run too, and bad parts named."""

from __future__ import annotations

import pytest
import torch
from pytorch_metric_learning import losses as peer
from pytorch_metric_learning import miners, reducers
from torch import nn

from labkit.errors import LabError
from labkit.losses import MinedLoss, RankedListLoss, TripletLoss
from labkit.training import Experiment, Trainer


def data(n: int = 24, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.requires_grad_(), torch.arange(n) % 4


def semi_hard() -> tuple[nn.Module, nn.Module]:
    return peer.TripletMarginLoss(margin=0.2), miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")


def test_it_equals_loss_and_miner_by_hand():
    x, labels = data()
    loss, miner = semi_hard()
    picked = miner(x.detach(), labels)
    assert len(picked[0]) > 0
    mine, theirs = MinedLoss(loss, miner)(x, labels), loss(x, labels, picked)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(torch.autograd.grad(mine, x)[0], torch.autograd.grad(theirs, x)[0])


def test_triplets_of_a_semi_hard_miner_are_what_their_name_says():
    """By brute force: d_ap < d_an < d_ap + margin, all of them, mean of the cost over those that cost."""
    x, labels = data(12)
    unit = x.detach() / x.detach().norm(dim=1, keepdim=True)
    d, costs = torch.cdist(unit, unit), []
    for a in range(12):
        for p in range(12):
            for n in range(12):
                if a != p and labels[a] == labels[p] and labels[a] != labels[n] and d[a, p] < d[a, n] < d[a, p] + 0.2:
                    costs.append(d[a, p] - d[a, n] + 0.2)
    assert costs
    torch.testing.assert_close(MinedLoss(*semi_hard())(x, labels), torch.stack(costs).mean())


def test_our_losses_take_their_miners_and_references():
    (x, labels), (r, owners) = data(), data(8, 1)
    loss, miner = TripletLoss(margin=0.2, normalize="l2"), semi_hard()[1]
    torch.testing.assert_close(
        MinedLoss(loss, miner)(x, labels, None, r, owners), loss(x, labels, miner(x.detach(), labels, r, owners), r, owners)
    )


def test_without_a_miner_it_is_the_loss_and_given_pairs_go_first():
    x, labels = data()
    loss = RankedListLoss()
    assert MinedLoss(loss)(x, labels) == loss(x, labels)
    one = (torch.tensor([0]), torch.tensor([4]), torch.tensor([1]))
    assert MinedLoss(loss, semi_hard()[1])(x, labels, one) == loss(x, labels, one)


def test_normalized_is_for_retrieval_alone():
    x, labels = data()
    loss = peer.NPairsLoss()
    assert MinedLoss(loss)(x, labels) == loss(x, labels)
    torch.testing.assert_close(MinedLoss(loss).normalized(x).norm(dim=1), torch.ones(24, dtype=torch.float64))
    assert torch.equal(MinedLoss(loss, normalize=None).normalized(x), x)


def test_the_trainer_takes_it():
    settings = {"data.source": "digits-8x8", "data.samples_per_class": 3}
    experiment = Experiment.preset("mnist-unseen-triplet", steps=3, evaluate_every=3, sample_size=60, **settings)
    recording = Trainer(experiment, loss=MinedLoss(*semi_hard())).run(progress=False)
    assert 0 < recording.final["map_at_r"] <= 1
    assert "MinedLoss" in recording.events[0]["what"]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda: MinedLoss("triplet"), "loss: expected something that can be called"),
        (lambda: MinedLoss(RankedListLoss(), miner=3), "miner: expected something that can be called"),
        (lambda: MinedLoss(RankedListLoss(), normalize="L3"), "normalize"),
    ],
)
def test_bad_parts_are_named(loss, message):
    x, labels = data()
    with pytest.raises(LabError, match=message):
        loss()(x, labels)


def test_a_result_that_is_no_number_is_named():
    x, labels = data()
    each = peer.TripletMarginLoss(reducer=reducers.DoNothingReducer())
    with pytest.raises(LabError, match="a loss that gives a real 0-d tensor"):
        MinedLoss(each)(x, labels)

    class Broken(nn.Module):
        def forward(self, x, labels, indices_tuple, ref_emb, ref_labels):
            return x.sum() * float("nan")

    with pytest.raises(LabError, match="Broken: expected a loss that gives a finite number; got nan"):
        MinedLoss(Broken())(x, labels)
