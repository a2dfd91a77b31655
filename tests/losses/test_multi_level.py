"""One loss a level: the sum of the losses of the levels, in every way a loss is called."""

import pytest
import torch
from pytorch_metric_learning import losses as peer

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, MinedLoss, MultiLevelLoss, ProxyNCALoss, RankedListLoss


def make(width=6, seed=0):
    own = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(n, width, generator=own, dtype=torch.float64, requires_grad=True) for n in (8, 5))
    return x, torch.randint(3, (8,), generator=own), r, torch.randint(3, (5,), generator=own)


def test_it_is_the_sum_over_the_levels():
    x, labels, r, owners = make()
    parts = [RankedListLoss(), ContrastiveLoss(0.3, 1.2), peer.MultiSimilarityLoss()]
    loss = MultiLevelLoss(parts)
    terms = (torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([0, 1]), torch.tensor([4, 4]))
    for named in (None, terms):
        for references in ((), (r, owners)):
            value = loss(x, labels, named, *references)
            expected = 0.0
            for number, part in enumerate(parts):
                columns = slice(2 * number, 2 * number + 2)
                cut = (references[0][:, columns], owners) if references else ()
                expected = expected + part(x[:, columns], labels, named, *cut)
            torch.testing.assert_close(value, expected)
            inputs = (x, r) if references else (x,)
            torch.testing.assert_close(torch.autograd.grad(value, inputs), torch.autograd.grad(expected, inputs))


def test_each_level_is_normalised_as_its_loss_does_whoever_wrote_it():
    x = make()[0].detach()
    parts = [ContrastiveLoss(), peer.TripletMarginLoss(0.2), MinedLoss(ContrastiveLoss(), normalize=None)]
    low, middle, high = x.chunk(3, dim=1)
    lengths = low.norm(dim=1, keepdim=True).clamp(min=1)
    expected = torch.cat((low / lengths, torch.nn.functional.normalize(middle), high), dim=1)
    torch.testing.assert_close(MultiLevelLoss(parts).normalized(x), expected)


def test_proxies_of_its_losses_are_its_parameters():
    x, labels, _, _ = make()
    loss = MultiLevelLoss([ProxyNCALoss(3, 3), ProxyNCALoss(3, 3)])
    loss(x, labels).backward()
    assert [p.grad.any().item() for p in loss.parameters()] == [True, True]


def test_normalized_level_by_level():
    x, *_ = make()
    loss = MultiLevelLoss([RankedListLoss(), ContrastiveLoss(), peer.ContrastiveLoss()])
    expected = (RankedListLoss().normalized(x[:, :2]), ContrastiveLoss().normalized(x[:, 2:4]))
    torch.testing.assert_close(loss.normalized(x), torch.cat((*expected, torch.nn.functional.normalize(x[:, 4:])), dim=1))


@pytest.mark.parametrize("losses", [[], None, [RankedListLoss(), "ms"], RankedListLoss()])
def test_bad_losses_are_named(losses):
    with pytest.raises(LabError, match="^losses: expected a list of one loss for each level"):
        MultiLevelLoss(losses)


def test_a_width_that_cannot_be_shared_out_is_named():
    x, labels, r, owners = make()
    loss = MultiLevelLoss([RankedListLoss() for _ in range(4)])
    with pytest.raises(LabError, match=r"embeddings: .*multiple of 4.*\(8, 6\)"):
        loss(x, labels)
    loss = MultiLevelLoss([RankedListLoss() for _ in range(3)])
    with pytest.raises(LabError, match=r"ref_emb: .*multiple of 3.*\(5, 5\)"):
        loss(x, labels, None, r[:, :5], owners)
    with pytest.raises(LabError, match="embeddings: expected a torch.Tensor"):
        loss(None, labels)
