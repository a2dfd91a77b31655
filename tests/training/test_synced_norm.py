"""Batch norm over all processes: alone it is torch's own, and what cannot be synchronised is named."""

import pytest
import torch
from torch import nn

from labkit.errors import LabError
from labkit.training.synced_norm import SyncedBatchNorm, synchronise_batch_norms
from labkit.training.world import World

CPU = torch.device("cpu")


class Two(World):
    """As if there were two processes with the same rows."""

    rank, size = 0, 2

    def sum(self, values):
        return 2 * values


@pytest.mark.parametrize(("kind", "shape"), [(nn.BatchNorm2d, (6, 3, 4, 5)), (nn.BatchNorm1d, (6, 3))])
@pytest.mark.parametrize("momentum", [0.3, None])
def test_alone_it_is_torchs_batch_norm(kind, shape, momentum):
    own = torch.Generator().manual_seed(0)
    plain, other = kind(3, momentum=momentum), kind(3, momentum=momentum)
    with torch.no_grad():
        for layer in (plain, other):
            layer.weight.copy_(torch.tensor([0.5, 1.0, 2.0]))
            layer.bias.copy_(torch.tensor([0.1, 0.0, -1.0]))
    synced = SyncedBatchNorm(other, World(CPU))
    for _ in range(2):
        x = 3 + 2 * torch.randn(shape, generator=own)
        first, second = x.clone().requires_grad_(), x.clone().requires_grad_()
        weights = torch.randn(shape, generator=own)
        (plain(first) * weights).sum().backward()
        (synced(second) * weights).sum().backward()
        torch.testing.assert_close(plain(x), synced(x), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(first.grad, second.grad, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(plain.weight.grad, synced.weight.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(dict(plain.named_buffers()), dict(synced.named_buffers()))
    torch.testing.assert_close(plain.eval()(x), synced.eval()(x))
    assert plain.state_dict().keys() == synced.state_dict().keys()


def test_layers_that_train_are_replaced_and_frozen_ones_stay():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
            self.frozen = nn.BatchNorm2d(2)

        def train(self, mode=True):
            super().train(mode)
            self.frozen.eval()
            return self

    net = synchronise_batch_norms(Net(), Two(CPU))
    assert isinstance(net.inner[1], SyncedBatchNorm) and type(net.frozen) is nn.BatchNorm2d
    alone = synchronise_batch_norms(Net(), World(CPU))
    assert type(alone.inner[1]) is nn.BatchNorm2d


def test_a_batch_norm_of_another_kind_is_refused():
    class Activated(nn.BatchNorm2d):
        pass

    with pytest.raises(LabError, match=r"Activated.*freeze_batch_norm=true"):
        synchronise_batch_norms(nn.Sequential(Activated(2)), Two(CPU))
