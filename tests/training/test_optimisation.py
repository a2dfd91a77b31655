"""Groups, schedules and the resting backbone, against hand-made steps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from labkit.models import SmallNet
from labkit.training.optimisation import backbone_and_head, build_optimizer, prepare_groups, schedule
from labkit.training.sections import Optimizer


def make(settings: Optimizer):
    model, proxies = SmallNet(3), nn.Parameter(torch.ones(4, 3))
    return model, proxies, build_optimizer(settings, model, [proxies])


def test_each_group_has_its_own_rate_and_proxies_no_decay():
    settings = Optimizer(learning_rate=0.1, head_multiplier=10.0, proxy_multiplier=100.0, warmup_steps=0)
    model, proxies, optimizer = make(settings.__class__(**{**vars(settings), "schedule": "constant"}))
    prepare_groups(optimizer, Optimizer(**{**vars(settings), "schedule": "constant"}), 0, 10)
    groups = {group["name"]: group for group in optimizer.param_groups}
    assert {name: group["lr"] for name, group in groups.items()} == pytest.approx({"backbone": 0.1, "head": 1, "proxies": 10})
    assert groups["proxies"]["weight_decay"] == 0 and groups["head"]["weight_decay"] == 1e-4
    assert {id(p) for p in groups["head"]["params"]} == {id(p) for p in model.head.parameters()}
    assert groups["proxies"]["params"] == [proxies]
    total = sum(len(group["params"]) for group in groups.values())
    assert total == len(list(model.parameters())) + 1


def test_what_is_frozen_is_in_no_group():
    model = SmallNet(3)
    model.trunk.requires_grad_(False)
    backbone, head = backbone_and_head(model)
    assert backbone == [] and len(head) == 2
    assert len(build_optimizer(Optimizer(), model, []).param_groups) == 1


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_the_backbone_rests_at_first(name):
    settings = Optimizer(name=name, head_only_steps=2, learning_rate=0.01, warmup_steps=0)
    model, proxies, optimizer = make(settings)
    start = {k: v.detach().clone() for k, v in model.named_parameters()}
    for step in range(3):
        loss = model(torch.rand(8, 1, 28, 28)).square().sum() + (proxies**2).sum()
        optimizer.zero_grad()
        loss.backward()
        prepare_groups(optimizer, settings, step, 10)
        optimizer.step()
        moved = {k.split(".")[0] for k, v in model.named_parameters() if not torch.equal(v, start[k])}
        assert moved == ({"head"} if step < 2 else {"head", "trunk"})
        assert not torch.equal(proxies, torch.ones(4, 3))


@pytest.mark.parametrize("changes", [{"beta1": 0}, {"beta2": 0}, {"beta1": 0, "beta2": 0}])
def test_a_beta_that_is_written_as_a_whole_number_is_taken(changes):
    _, proxies, optimizer = make(Optimizer(**changes))
    proxies.sum().backward()
    optimizer.step()
    assert torch.isfinite(proxies).all() and all(type(beta) is float for beta in optimizer.param_groups[-1]["betas"])


def test_sgd_with_momentum_by_hand():
    settings = Optimizer(name="sgd", learning_rate=0.5, momentum=0.9, weight_decay=0.1, warmup_steps=0, schedule="constant")
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = build_optimizer(settings, model, [])
    weight, velocity = 1.0, 0.0
    for step in range(3):
        optimizer.zero_grad()
        (3 * model.weight).sum().backward()
        prepare_groups(optimizer, settings, step, 10)
        optimizer.step()
        velocity = 0.9 * velocity + 3 + 0.1 * weight
        weight -= 0.5 * velocity
        assert model.weight.item() == pytest.approx(weight)


def test_stairs():
    settings = Optimizer(schedule="step", step_size=20, step_factor=0.1, warmup_steps=4)
    factors = [schedule(settings, step, 60) for step in (0, 3, 19, 20, 39, 40, 59)]
    assert factors == pytest.approx([0.25, 1, 1, 0.1, 0.1, 0.01, 0.01])


def test_cosine_and_constant():
    cosine = Optimizer(warmup_steps=0, final_fraction=0.1, hold_fraction=0.5)
    assert schedule(cosine, 4, 10) == 1
    assert schedule(cosine, 9, 10) == pytest.approx(0.1)
    assert schedule(cosine, 7, 10) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.6)))
    assert schedule(Optimizer(schedule="constant", warmup_steps=0), 7, 10) == 1
