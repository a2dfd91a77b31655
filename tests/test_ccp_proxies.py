"""Alternating projections around a loss that owns its proxies: one parameter, seen as (C, K, D), started anew."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from labkit.ccp import AlternatingProjections
from labkit.errors import LabError
from labkit.losses import ProxyAnchorLoss, ProxyNCALoss, SoftTripleLoss, SparseCentersRegularizer
from tests.oracles.ccp import greedy_choice

C, K, B, D = 5, 3, 8, 4
LOSSES = {
    "soft triple": lambda: SoftTripleLoss(
        C, D, K, weight_regularizer=SparseCentersRegularizer(C, K), weight_reg_weight=0.2
    ),
    "nca": lambda: ProxyNCALoss(C, D, K),
    "anchor": lambda: ProxyAnchorLoss(C, D, proxies_per_class=K),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def make(name: str = "soft triple", **changes) -> AlternatingProjections:
    settings = {"loss": LOSSES[name](), "num_classes": C, "embedding_size": D, "proxies_per_class": K, "pool_size": B}
    return AlternatingProjections(**{**settings, **changes})


def pool(seed: int = 0) -> torch.Tensor:
    return torch.randn(C, B, D, generator=torch.Generator().manual_seed(seed))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(12, D, generator=torch.Generator().manual_seed(1)), torch.arange(12) % C


def sphere(x: torch.Tensor) -> np.ndarray:
    return nn.functional.normalize(x, dim=-1).numpy()


@every_loss
def test_the_proxies_are_a_view_of_the_losss_only_parameter(name):
    ccp = make(name)
    ccp.initialize(pool())
    assert [key for key, _ in ccp.named_parameters()] == ["loss.weight"]
    assert ccp.proxy_parameter is ccp.loss.weight
    assert ccp.proxies.shape == (C, K, D)
    assert torch.equal(ccp.proxies.flatten(0, 1), ccp.loss.weight)
    with torch.no_grad():
        ccp.proxies[2, 1] = 7.0
    assert bool((ccp.loss.weight[2 * K + 1] == 7.0).all())


@every_loss
def test_its_call_is_the_losss_own(name):
    ccp, (x, labels) = make(name), batch()
    ccp.initialize(pool())
    terms = torch.tensor([0, 1]), torch.tensor([5, 6]), torch.tensor([2, 2])
    torch.testing.assert_close(ccp(x, labels), ccp.loss(x, labels))
    torch.testing.assert_close(ccp(x, labels, terms), ccp.loss(x, labels, terms))
    assert ccp(x, labels) != ccp(x, labels, terms)
    ccp(x, labels).backward()
    assert bool(ccp.proxy_parameter.grad.any())


@every_loss
def test_two_problems_choose_as_algorithm_two_has_it(name):
    ccp = make(name, patience=1)
    optimizer = torch.optim.Adam(ccp.parameters(), lr=0.1)
    first = ccp.initialize(pool())
    points = sphere(pool())
    assert all(len(set(row)) == K for row in first.indices.tolist())  # the origin is as far from all of the sphere
    picked = np.stack([points[c][first.indices[c].numpy()] for c in range(C)])
    np.testing.assert_allclose(ccp.proxies.detach().numpy(), picked, atol=1e-6)
    ccp(*batch()).backward()
    optimizer.step()
    assert ccp.observe(0.5) == "improved"
    best = sphere(ccp.proxies.detach().clone())
    with torch.no_grad():
        ccp.proxies.mul_(-1.0)  # the newest, which K-Center shall not start from
    assert ccp.observe(0.5) == "next problem"
    second = ccp.initialize(pool(7), optimizer=optimizer)
    points = sphere(pool(7))
    assert second.indices.tolist() == [greedy_choice(points[c], best[c], K) for c in range(C)]
    assert ccp.proxy_parameter not in optimizer.state


def test_it_trains_a_network_over_two_problems():
    ccp, model = make("anchor", patience=1, projection_weight=0.1), nn.Linear(6, D)
    optimizer = torch.optim.Adam([*model.parameters(), ccp.proxy_parameter], lr=0.05)
    own = torch.Generator().manual_seed(0)
    means = torch.randn(C, 6, generator=own)
    labels = torch.arange(20) % C
    x = means[labels] + 0.1 * torch.randn(20, 6, generator=own)
    values = []
    for _ in range(2):
        ccp.initialize(model(means[:, None] + 0.1 * torch.randn(C, B, 6, generator=own)).detach(), optimizer=optimizer)
        for _ in range(30):
            optimizer.zero_grad()
            value = ccp(model(x), labels)
            value.backward()
            ccp.add_projection_gradient(model)
            optimizer.step()
            values.append(value.item())
        assert [ccp.observe(0.5, model), ccp.observe(0.5, model)] == ["improved", "next problem"]
    assert values[29] < values[0] / 2
    assert values[59] < values[0] / 2


@every_loss
def test_state_survives_a_round_trip_without_pickle(name, tmp_path):
    ccp, model = make(name, patience=1), nn.Linear(3, D)
    ccp.initialize(pool())
    for score in (0.5, 0.5, 0.3):
        ccp.observe(score, model)
    torch.save(ccp.state_dict(), tmp_path / "state.pt")
    other = make(name, patience=1)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (other.problem, other.progress.best_map_at_r, other.progress.waited) == (1, 0.3, 0)
    torch.testing.assert_close(other.proxies, ccp.proxies)
    torch.testing.assert_close(other.progress.best_proxies, ccp.progress.best_proxies)
    torch.testing.assert_close(other(*batch()), ccp(*batch()))


def test_copies_and_moves_see_their_own_weight():
    ccp = make()
    ccp.initialize(pool())
    other = copy.deepcopy(ccp)
    with torch.no_grad():
        other.proxies.add_(1.0)
    assert not torch.equal(other.loss.weight, ccp.loss.weight)
    assert ccp.double().proxies.dtype == torch.float64
    with pytest.raises(AttributeError, match="proxiez"):
        _ = ccp.proxiez


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": C + 1}, "num_classes: expected 5, as the SoftTripleLoss has; got 6"),
        ({"embedding_size": D + 1}, "embedding_size: expected 4, as the SoftTripleLoss has; got 5"),
        ({"proxies_per_class": K - 1}, "proxies_per_class: expected 3, as the SoftTripleLoss has; got 2"),
        ({"pair_weight": 0.1}, "pair_weight: expected 0: the SoftTripleLoss owns its proxies; got 0.1"),
        ({"loss": nn.Linear(D, C)}, r"weight of the Linear: expected shape .* = \(15, 4\); got shape \(5, 4\)"),
    ],
)
def test_disagreement_with_the_loss_is_named(changes, message):
    with pytest.raises(LabError, match=message):
        make(**changes)


def test_bad_calls_are_named():
    ccp, (x, labels) = make(), batch()
    with pytest.raises(LabError, match="initialize"):
        ccp(x, labels)
    ccp.initialize(pool())
    with pytest.raises(LabError, match="anchors: expected None: SoftTripleLoss owns its proxies"):
        ccp(x, labels, anchors=pool()[:, :K])
    with pytest.raises(LabError, match=r"classes in 0 ... 4; got label 5"):
        ccp(x, labels + 1)
