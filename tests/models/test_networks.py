"""The networks: shapes, sizes, own random numbers, gradients, bad pictures."""

from __future__ import annotations

import pytest
import torch

from labkit.errors import LabError
from labkit.models import ResNet20V2, SmallNet, build_seeded

NETWORKS = [ResNet20V2, SmallNet]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("channels", "side", "size"), [(1, 28, 2), (3, 32, 64), (1, 17, 5)])
def test_shapes_for_any_channels_and_sides(network, channels, side, size):
    model = network(embedding_size=size, in_channels=channels).eval()
    assert model(torch.zeros(3, channels, side, side)).shape == (3, size)


def test_resnet20v2_has_the_published_layout():
    model = ResNet20V2(embedding_size=2)
    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(convolutions) == 19  # with the last linear layer: 20
    assert sorted({c.out_channels for c in convolutions}) == [16, 32, 64]
    # 3 x 3 kernels + two 1 x 1 shortcuts + batch norms (2 per block and the last) + head, counted by hand
    kernels = 9 * (1 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64)
    norms = 2 * (6 * 16 + (16 + 5 * 32) + (32 + 5 * 64) + 64)
    assert sum(p.numel() for p in model.parameters()) == kernels + 16 * 32 + 32 * 64 + norms + 64 * 2 + 2


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_depend_on_the_generator_alone_and_leave_the_global_one_alone(network):
    before = torch.get_rng_state()
    first, second = (build_seeded(network, torch.Generator().manual_seed(3)) for _ in range(2))
    other = build_seeded(network, torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), before)
    same = [torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)]
    assert all(same)
    assert not torch.equal(first.head.weight, other.head.weight)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_parameter_gets_a_gradient(network):
    model = build_seeded(network, torch.Generator().manual_seed(0))
    model(torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(1))).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.abs().sum() > 0)] == []


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "images",
    [torch.zeros(2, 3, 28, 28), torch.zeros(2, 28, 28), torch.zeros(0, 1, 28, 28), torch.zeros(2, 1, 2, 28),
     torch.zeros(2, 1, 28, 28, dtype=torch.uint8)],
    ids=["channels", "dimensions", "empty", "tiny", "bytes"],
)  # fmt: skip
def test_bad_pictures_are_named(network, images):
    with pytest.raises(LabError, match="images: expected"):
        network()(images)


@pytest.mark.parametrize("network", NETWORKS)
def test_bad_sizes_are_named(network):
    with pytest.raises(LabError, match="embedding_size"):
        network(embedding_size=0)
    with pytest.raises(LabError, match="in_channels"):
        network(in_channels=1.5)
