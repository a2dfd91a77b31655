"""The multi-level head: what it taps, what it returns, gradients, copies, bad taps; trained with one loss a level."""

import copy

import pytest
import torch
from torch import nn

from labkit.errors import LabError
from labkit.losses import MultiLevelLoss, RankedListLoss
from labkit.models import MultiLevelHead, ResNet20V2, build_seeded

STAGES = {"stages.0": 16, "stages.1": 32, "stages.2": 64}


def seeded(taps=STAGES, level_size=4, backbone=ResNet20V2):
    return build_seeded(lambda: MultiLevelHead(backbone(), taps, level_size), torch.Generator().manual_seed(0))


def images(n=6):
    return torch.rand(n, 1, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "taps", [STAGES, {"stages.2": 64}, {"norm": 64, "stages.0.1.conv1": 16}, {"head": 2, "stem": 16}]
)
def test_each_level_is_a_linear_layer_on_averaged_features(taps):
    model = seeded(taps).eval()
    features = {}
    for name in taps:
        module = model.backbone.get_submodule(name)
        module.register_forward_hook(lambda m, i, output, name=name: features.update({name: output.clone()}))
    result = model(images())
    assert result.shape == (6, model.embedding_size) == (6, 4 * len(taps))
    for number, name in enumerate(taps):
        feature = features[name]
        pooled = feature if feature.ndim == 2 else feature.flatten(2).mean(dim=2)
        level = pooled @ model.heads[number].weight.T + model.heads[number].bias
        level = level / level.norm(dim=1, keepdim=True)
        torch.testing.assert_close(result[:, 4 * number : 4 * number + 4], level)


def test_levels_have_length_one_in_eval_mode_only():
    model = seeded()
    trained = model(images())
    model.backbone.eval()
    raw = model(images())
    assert not torch.allclose(trained, raw)  # batch norm
    assert not torch.allclose(raw.unflatten(1, (3, 4)).norm(dim=2), torch.ones(6, 3), atol=0.01)
    model.eval()
    scaled = model(images()).unflatten(1, (3, 4))
    torch.testing.assert_close(scaled, nn.functional.normalize(raw.unflatten(1, (3, 4)), dim=2))


def test_a_level_s_loss_trains_what_lies_below_its_tap():
    model = seeded()
    model(images())[:, 4:8].square().sum().backward()  # the middle
    has = {name for name, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert {"heads.1.weight", "backbone.stem.weight", "backbone.stages.0.0.conv1.weight"} <= has
    assert not any(name.startswith(("backbone.stages.2", "heads.0", "heads.2", "backbone.head")) for name in has)


def test_a_module_whose_output_is_overwritten_in_place_gives_what_it_computed():
    layers = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Conv2d(3, 2, 1))
    model = MultiLevelHead(layers, {"0": 3}, 2).train()
    pooled = layers[0](images()).mean(dim=(2, 3))
    torch.testing.assert_close(model(images()), model.heads[0](pooled))


def test_copies_and_failures_leave_no_hook_behind():
    model = seeded()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.heads[0].weight.zero_()
        twin.heads[0].bias.zero_()
    assert not twin(images())[:, :4].any()
    assert model(images())[:, :4].any()
    with pytest.raises(LabError, match="images"):
        model(images()[:, :, :2])
    assert not any(module._forward_hooks for module in (*model.modules(), *twin.modules()))
    loaded = seeded(level_size=4)
    loaded.load_state_dict(model.state_dict())
    model.eval(), loaded.eval()
    assert torch.equal(model(images()), loaded(images()))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x)


def test_features_without_a_picture():
    model = MultiLevelHead(Unused(), {"a": 4}, 3)
    x = torch.rand(5, 4)
    torch.testing.assert_close(model(x), model.heads[0](model.backbone.a(x)))


@pytest.mark.parametrize(
    ("taps", "size", "message"),
    [
        ({}, 4, "taps: expected names"),
        (["stages.0"], 4, "taps: expected names"),
        ({"stage.0": 16}, 4, "taps: .*Did you mean 'stages.0'"),
        ({"stages.0": 0}, 4, r"taps\['stages.0'\]: expected a whole number"),
        (STAGES, 0, "level_size"),
        (STAGES, 1.5, "level_size"),
    ],
)
def test_bad_taps_are_named_when_built(taps, size, message):
    with pytest.raises(LabError, match=message):
        MultiLevelHead(ResNet20V2(), taps, size)


def test_what_the_taps_give_is_compared_with_what_was_announced():
    with pytest.raises(LabError, match=r"taps: .*\(n, 8, h, w\).*'stages.0'; got .*\(6, 16, 16, 16\)"):
        MultiLevelHead(ResNet20V2(), {"stages.0": 8}, 4)(images())
    with pytest.raises(LabError, match="taps: .*'b', which it does not call"):
        MultiLevelHead(Unused(), {"a": 4, "b": 4}, 3)(torch.rand(5, 4))


def test_one_ranked_list_loss_a_level_trains_it():
    model = seeded(level_size=8)
    labels = torch.arange(12) % 3
    x = images(12) * 0.3 + labels.view(-1, 1, 1, 1) * torch.linspace(0, 1, 16)
    loss = MultiLevelLoss([RankedListLoss() for _ in STAGES])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    values = []
    for _ in range(12):
        optimizer.zero_grad()
        value = loss(model(x), labels)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.7 * values[0]
