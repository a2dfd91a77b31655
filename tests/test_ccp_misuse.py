"""Alternating projections used in the wrong order, with the wrong things, and with a damaged state."""

import math

import pytest
import torch
from torch import nn

from labkit.ccp import AlternatingProjections
from labkit.errors import LabError
from labkit.losses import ContrastiveLoss


def make(**changes):
    return AlternatingProjections(ContrastiveLoss(), **{"num_classes": 3, "embedding_size": 4, "proxies_per_class": 2,
                                                        "pool_size": 5, "patience": 1, **changes})  # fmt: skip


def pool():
    return torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))


def closed(net):
    """One problem solved with `net`."""
    ccp = make()
    ccp.initialize(pool())
    ccp.add_projection_gradient(net)
    assert [ccp.observe(0.5), ccp.observe(0.5)] == ["improved", "next problem"]
    return ccp


@pytest.mark.parametrize("loss", [None, 3, "c2"])
def test_what_is_no_loss_is_refused_at_once(loss):
    with pytest.raises(LabError, match="^loss: expected a loss"):
        AlternatingProjections(loss, 3, 4, 2, 5)


def test_before_the_first_backward_pass_there_is_nothing_to_pull():
    net = nn.Linear(7, 4)
    ccp = closed(net)
    ccp.add_projection_gradient(net)
    assert net.weight.grad is None


@pytest.mark.parametrize("other", [nn.Sequential(nn.Linear(7, 4)), nn.Linear(7, 5)])
@pytest.mark.parametrize("restore", [False, True])
def test_another_network_at_the_end_of_a_problem_is_named(other, restore):
    ccp = make(restore_best=restore)
    ccp.initialize(pool())
    ccp.observe(0.5, nn.Linear(7, 4))
    with pytest.raises(LabError, match="^model: expected the network that was observed"):
        ccp.close(other)
    assert ccp.problem == 0


@pytest.mark.parametrize("model", [3, "net", {"weight": torch.ones(2)}, nn.Linear])
def test_what_is_no_network_is_named(model):
    ccp = make()
    ccp.initialize(pool())
    for call in (lambda: ccp.observe(0.5, model), lambda: ccp.close(model), lambda: ccp.add_projection_gradient(model)):
        with pytest.raises(LabError, match="^model: expected the network"):
            call()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"generator": 3}, "^generator: expected a torch.Generator"),
        ({"optimizer": 3}, "^optimizer: expected a torch.optim.Optimizer"),
        ({"pool": torch.ones(3, 5, 4, device="meta")}, '^pool: expected a dense tensor; got one on the device "meta"'),
        ({"mask": torch.ones(3, 5, dtype=torch.bool, device="meta")}, "^mask: expected a dense tensor"),
        ({"mask": torch.ones(3, 5, dtype=torch.bool).to_sparse()}, "^mask: expected a dense tensor"),
    ],
)
def test_bad_arguments_of_a_choice_are_named(arguments, words):
    with pytest.raises(LabError, match=words):
        make().initialize(**{"pool": pool(), **arguments})


DAMAGES = {
    "nothing": lambda state: None,
    "a number": lambda state: 3,
    "empty": lambda state: {},
    "without initialized": lambda state: {k: v for k, v in state.items() if k != "initialized"},
    "a word for a flag": lambda state: state | {"initialized": "yes"},
    "a word for a count": lambda state: state | {"waited": "x"},
    "a score that is no number": lambda state: state | {"best_map_at_r": math.nan},
    "proxies that are no numbers": lambda state: state | {"best_proxies": torch.full((3, 2, 4), math.nan)},
    "weights that are none": lambda state: state | {"best_weights": {"a": 1}},
    "half a solution": lambda state: state | {"previous_weights": [torch.ones(2), None]},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_when_it_is_loaded(damage):
    ccp = closed(nn.Linear(7, 4))
    state = ccp.state_dict()
    state["_extra_state"] = DAMAGES[damage](state["_extra_state"])
    fresh = make()
    with pytest.raises(LabError, match="^state"):
        fresh.load_state_dict(state)
    assert fresh.problem == 0 and fresh.initialized is False


def test_what_stands_beside_a_state_changes_nothing_else():
    ccp, fresh = closed(nn.Linear(7, 4)), make()
    state = ccp.state_dict()
    state["_extra_state"] = state["_extra_state"] | {"close": "x"}
    fresh.load_state_dict(state)
    assert fresh.problem == 1 and callable(fresh.progress.close)
