"""Algorithm 1: state, projection term, patience, re-initialisation, and what may stand inside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as pml
from torch import nn

from labkit.ccp import AlternatingProjections
from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss, TripletLoss
from tests.oracles.ccp import greedy_choice

C, K, B, D = 5, 3, 8, 4


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(**changes) -> AlternatingProjections:
    settings = {"proxies_per_class": K, "pool_size": B, **changes}
    return AlternatingProjections(settings.pop("loss", ContrastiveLoss()), C, D, **settings)


def pool(seed: int = 0, scale: float = 0.5) -> torch.Tensor:
    return scale * torch.randn(C, B, D, generator=generator(seed))


def batch(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    return 0.5 * torch.randn(12, D, generator=generator(seed)), torch.arange(12) % C


def lipschitz(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(1.0, np.linalg.norm(x, axis=-1, keepdims=True))


def test_first_proxies_are_k_centers_choice_with_the_origin_as_first_centre():
    inside = pool(scale=0.2)  # points pushed onto the sphere would all be equally far from the origin
    ccp = make()
    choice = ccp.initialize(inside)
    points = lipschitz(inside.numpy())
    for c in range(C):
        expected = greedy_choice(points[c], np.zeros((1, D)), K)
        assert choice.indices[c].tolist() == expected
        np.testing.assert_allclose(ccp.proxies[c].detach().numpy(), points[c][expected], atol=1e-6)


def test_later_proxies_start_from_the_best_proxies_not_from_the_newest():
    ccp = make(patience=1)
    ccp.initialize(pool())
    ccp.observe(0.5)
    best = lipschitz(ccp.proxies.detach().numpy().copy())
    with torch.no_grad():
        ccp.proxies.add_(0.3)
    assert ccp.observe(0.4) == "next problem"
    choice = ccp.initialize(pool(7))
    points = lipschitz(pool(7).numpy())
    assert choice.indices.tolist() == [greedy_choice(points[c], best[c], K) for c in range(C)]


def test_a_class_with_fewer_samples_than_the_pool_is_masked():
    ccp = make()
    mask = torch.ones(C, B, dtype=torch.bool)
    mask[2, K:] = False
    assert sorted(ccp.initialize(pool(), mask).indices[2].tolist()) == list(range(K))
    mask[2, 1:] = False
    with pytest.raises(LabError, match=r"at least K = 3 samples of every class; got 1 of class 2"):
        ccp.initialize(pool(), mask)


def test_the_projection_term_is_the_gradient_of_half_lambda_times_the_squared_distance():
    weight = 0.3
    ccp, model = make(projection_weight=weight, patience=1), nn.Linear(6, D)
    ccp.initialize(pool())
    ccp.add_projection_gradient(model)
    ccp.observe(0.5, model)
    previous = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator(3)))
    assert ccp.observe(0.5, model) == "next problem"
    ccp.initialize(pool(2))
    x, labels = torch.randn(12, 6, generator=generator(4)), batch()[1]
    loss = ccp(model(x), labels)
    penalty = 0.5 * weight * sum(((p - old) ** 2).sum() for p, old in zip(model.parameters(), previous, strict=True))
    expected = torch.autograd.grad(loss + penalty, [*model.parameters(), ccp.proxies])
    ccp(model(x), labels).backward()
    ccp.add_projection_gradient(model)
    for parameter, gradient in zip([*model.parameters(), ccp.proxies], expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_the_projection_term_is_off_in_the_first_problem_and_for_frozen_layers():
    ccp, model = make(projection_weight=1.0, patience=1), nn.Sequential(nn.Linear(6, 6), nn.Linear(6, D))
    model[0].requires_grad_(False)
    ccp.initialize(pool())
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    ccp.add_projection_gradient(model)
    assert all(bool((p.grad == 0).all()) for p in model.parameters())
    ccp.observe(0.5, model)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    ccp.observe(0.5, model)
    ccp.add_projection_gradient(model)
    assert all(bool((p.grad == 0).all()) for p in model[0].parameters())
    assert all(torch.allclose(p.grad, torch.ones(())) for p in model[1].parameters())


def test_patience_counts_evaluations_without_a_real_improvement_and_resets_with_the_problem():
    ccp = make(patience=3)
    ccp.initialize(pool())
    scores = [0.5, 0.6, 0.600009, 0.59, 0.61, 0.61, 0.61, 0.61]
    expected = ["improved", "improved", "waiting", "waiting", "improved", "waiting", "waiting", "next problem"]
    assert [ccp.observe(s) for s in scores] == expected
    assert ccp.problem == 1
    assert ccp.observe(0.1) == "improved"


def test_without_patience_the_problem_never_ends():
    ccp = make(patience=None)
    ccp.initialize(pool())
    assert {ccp.observe(0.5) for _ in range(50)} == {"improved", "waiting"}
    assert ccp.problem == 0


def test_grace_keeps_patience_from_counting_at_the_start_of_each_problem():
    ccp = make(patience=1, grace=3)
    ccp.initialize(pool())
    first = [ccp.observe(0.5) for _ in range(4)]
    assert first == ["improved", "waiting", "waiting", "next problem"]
    assert [ccp.observe(0.5) for _ in range(4)] == first


@pytest.mark.parametrize("restore", [False, True])
def test_restore_best_decides_whether_the_weights_go_back(restore):
    ccp, model = make(patience=1, restore_best=restore), nn.Linear(2, 2)
    ccp.initialize(pool())
    ccp.observe(0.5, model)
    best = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    ccp.observe(0.4, model)
    assert bool((model.weight == best).all()) is restore


@pytest.mark.parametrize("loss", [ContrastiveLoss(), CosineContrastiveLoss(), TripletLoss(margin=0.1), MultiSimilarityLoss()])
def test_the_pair_term_is_added_with_its_weight(loss):
    x, labels = batch()
    plain, paired = make(loss=loss), make(loss=loss, pair_weight=0.1)
    for ccp in (plain, paired):
        ccp.initialize(pool())
    proxies, owners = plain.proxies.detach().flatten(0, 1), torch.arange(C).repeat_interleave(K)
    proxy_term = loss(x, labels, ref_emb=proxies, ref_labels=owners)
    torch.testing.assert_close(plain(x, labels).detach(), proxy_term)
    torch.testing.assert_close(paired(x, labels).detach(), proxy_term + 0.1 * loss(x, labels))


@pytest.mark.parametrize(
    "loss",
    [pml.ContrastiveLoss(), pml.TripletMarginLoss(margin=0.1), pml.MultiSimilarityLoss(), pml.NTXentLoss()],
    ids=lambda loss: type(loss).__name__,
)
def test_a_pair_loss_of_pytorch_metric_learning_works_inside_unchanged(loss):
    ccp = make(loss=loss, pair_weight=0.5)
    ccp.initialize(pool())
    x, labels = batch()
    x.requires_grad_()
    value = ccp(x, labels)
    owners = torch.arange(C).repeat_interleave(K)
    expected = loss(x, labels, ref_emb=ccp.proxies.flatten(0, 1), ref_labels=owners) + 0.5 * loss(x, labels)
    torch.testing.assert_close(value, expected)
    value.backward()
    assert float(x.grad.abs().sum()) > 0 and float(ccp.proxies.grad.abs().sum()) > 0
    # its distances are l2-normalised, so that the proxies must start on the sphere
    torch.testing.assert_close(ccp.proxies.detach().norm(dim=-1), torch.ones(C, K))


def test_anchor_samples_take_the_place_of_the_proxies_and_get_the_gradient():
    ccp = make()
    ccp.initialize(pool())
    x, labels = batch()
    anchors = pool(5)[:, :K].clone().requires_grad_()
    ccp(x, labels, anchors=anchors).backward()
    assert float(anchors.grad.abs().sum()) > 0
    assert ccp.proxies.grad is None


def test_one_proxy_per_class_and_random_selection():
    ccp = make(proxies_per_class=1, pool_size=1, selection="random")
    assert ccp.initialize(pool()[:, :1]).indices.tolist() == [[0]] * C
    ccp = make(selection="random")
    picks = ccp.initialize(pool(), generator=generator(1)).indices
    assert all(len(set(row)) == K for row in picks.tolist())
    torch.testing.assert_close(picks, make(selection="random").initialize(pool(), generator=generator(1)).indices)
    assert picks.tolist() != ccp.initialize(pool(), generator=generator(2)).indices.tolist()


def test_moments_of_the_proxies_are_cleared_and_those_of_the_model_kept():
    ccp, model = make(), nn.Linear(D, D)
    ccp.initialize(pool())
    optimizer = torch.optim.Adam([*model.parameters(), ccp.proxies], lr=1e-2)
    x, labels = batch()
    ccp(model(x), labels).backward()
    optimizer.step()
    ccp.initialize(pool(3), optimizer=optimizer)
    assert ccp.proxies not in optimizer.state
    assert float(optimizer.state[model.weight]["exp_avg"].abs().sum()) > 0


def test_state_survives_a_round_trip_without_pickle(tmp_path):
    ccp, model = make(patience=1), nn.Linear(3, D)
    ccp.initialize(pool())
    for score in (0.5, 0.5, 0.3):
        ccp.observe(score, model)
    torch.save(ccp.state_dict(), tmp_path / "state.pt")
    other = make(patience=1)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (other.problem, other.progress.best_map_at_r, other.progress.waited) == (1, 0.3, 0)
    torch.testing.assert_close(other.proxies, ccp.proxies)
    for mine, theirs in zip(other.progress.previous_weights, ccp.progress.previous_weights, strict=True):
        torch.testing.assert_close(mine, theirs)
    x, labels = batch()
    torch.testing.assert_close(other(x, labels), ccp(x, labels))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"projection_weight": -1.0}, "projection_weight"),
        ({"pool_size": 0}, "pool_size"),
        ({"pool_size": 2}, "at least proxies_per_class = 3"),
        ({"proxies_per_class": 0}, "proxies_per_class"),
        ({"patience": 0}, "patience"),
        ({"pair_weight": float("nan")}, "pair_weight"),
        ({"selection": "k-center"}, "Did you mean 'k_center'"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(LabError, match=message):
        make(**changes)


def test_bad_input_is_named():
    ccp = make()
    x, labels = batch()
    with pytest.raises(LabError, match="initialize"):
        ccp(x, labels)
    with pytest.raises(LabError, match=r"pool: expected a tensor of shape \(C, b, D\) = \(5, b, 4\)"):
        ccp.initialize(pool()[:3])
    with pytest.raises(LabError, match="finite"):
        ccp.initialize(pool().fill_(float("nan")))
    ccp.initialize(pool())
    with pytest.raises(LabError, match=r"classes in 0 ... 4; got label 5"):
        ccp(x, labels + 1)
    with pytest.raises(LabError, match="map_at_r"):
        ccp.observe(float("nan"))
    ccp = make(patience=1)
    ccp.initialize(pool())
    ccp.observe(0.5)
    ccp.observe(0.5)
    with pytest.raises(LabError, match="model of the last problem"):
        ccp.add_projection_gradient(nn.Linear(2, 2))


def test_all_points_equal_gives_finite_proxies_and_gradient():
    ccp = make()
    same = torch.full((C, B, D), 0.25)
    assert all(len(set(row)) == K for row in ccp.initialize(same).indices.tolist())
    x = torch.full((12, D), 0.25, requires_grad=True)
    ccp(x, batch()[1]).backward()
    assert bool(torch.isfinite(x.grad).all()) and bool(torch.isfinite(ccp.proxies.grad).all())


def test_odd_arguments_are_named():
    ccp = make()
    ccp.initialize(pool())
    x, labels = batch()
    for arguments in [(x, labels.tolist()), (x, labels.float()), (x.numpy(), labels), (x[0], labels), (x, labels[:-1])]:
        with pytest.raises(LabError, match="embeddings|labels"):
            ccp(*arguments)
    for anchors in ([1], torch.rand(K, C, D), torch.rand(C, K + 1, D)):
        with pytest.raises(LabError, match=r"anchors: expected a tensor of shape \(C, K, D\) = \(5, 3, 4\)"):
            ccp(x, labels, anchors=anchors)
    for given in (pool().numpy(), pool().tolist(), pool().long()):
        with pytest.raises(LabError, match="pool"):
            ccp.initialize(given)
    for mask in (torch.ones(C, B), torch.ones(C, B + 1, dtype=torch.bool), torch.ones(C, dtype=torch.bool), [[True]]):
        with pytest.raises(LabError, match=r"mask: expected a bool tensor of shape \(C, b\) = \(5, 8\)"):
            ccp.initialize(pool(), mask)
    with pytest.raises(LabError, match="restore_best: expected True or False; got 'no'"):
        make(restore_best="no")


def test_what_the_padding_of_a_pool_holds_is_ignored():
    mask = torch.ones(C, B, dtype=torch.bool)
    mask[1, 4:] = False
    clean, dirty = pool(), pool()
    dirty[1, 4:] = float("nan")
    first, second = make(), make()
    assert first.initialize(clean, mask).indices.tolist() == second.initialize(dirty, mask).indices.tolist()
    assert bool(torch.isfinite(second.proxies).all())


def test_another_network_of_as_many_parameters_is_refused():
    ccp, model = make(patience=1), nn.Linear(6, D)
    ccp.initialize(pool())
    for _ in range(2):
        ccp.observe(0.5, model)
    with pytest.raises(LabError, match="model of the last problem"):
        ccp.add_projection_gradient(nn.Linear(7, D))
