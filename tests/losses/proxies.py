"""The three losses that own proxies, small, beside their definitions; batches for them, and proxies of mixed lengths."""

import pytest
import torch

from labkit.losses import ProxyAnchorLoss, ProxyNCALoss, SoftTripleLoss
from tests.oracles import proxy_losses as oracle

C, D = 4, 3


def soft_triple(per_class=2, **options):
    return SoftTripleLoss(C, D, per_class, la=7.0, gamma=0.3, margin=0.1, **options)


def nca(per_class=2, **options):
    return ProxyNCALoss(C, D, per_class, temperature=0.4, **options)


def anchor(per_class=2, **options):
    return ProxyAnchorLoss(C, D, margin=0.2, alpha=5.0, proxies_per_class=per_class, **options)


DEFINITIONS = {
    soft_triple: (oracle.soft_triple, {"la": 7.0, "gamma": 0.3, "margin": 0.1}),
    nca: (oracle.proxy_nca, {"temperature": 0.4}),
    anchor: (oracle.proxy_anchor, {"margin": 0.2, "alpha": 5.0}),
}
every_loss = pytest.mark.parametrize("make", DEFINITIONS, ids=lambda make: make.__name__)


def batch(n=9, seed=0, scale=1.0):
    own = torch.Generator().manual_seed(seed)
    x = (scale * torch.randn(n, D, generator=own, dtype=torch.float64)).requires_grad_()
    return x, torch.randint(C, (n,), generator=own)


def of(loss, seed=1):
    """The loss in double, its proxies of mixed lengths, so that each normalisation does something else."""
    own = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        loss.weight.copy_(0.8 * torch.randn(loss.weight.shape, generator=own))
    return loss.double()
