"""Trunks of other libraries with our pooling, batch norms and heads."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labkit.errors import LabError
from labkit.models import Backbone, MultiLevelHead, PhotoNet, build_photo_net
from labkit.models.trunks import Trunk, build_trunk


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(n=2, side=64):
    return torch.rand(n, 3, side, side, generator=generator(1))


def toy(pools=False):
    """A trunk that shows what it was given."""
    module = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
    return Trunk(module, 8, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), ("fc",), pools)


@pytest.fixture(scope="module")
def lite():
    return build_photo_net("efficientnet-lite0", 16, generator(), weights="none").eval()


def test_pictures_are_standardised_then_pooled():
    trunk = toy()
    images = pictures(3, 33)
    standard = (images - torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1)) / torch.tensor([0.2, 0.3, 0.4]).view(1, 3, 1, 1)
    features = trunk.module.eval()(standard)
    mean, largest = features.flatten(2).mean(2), features.flatten(2).max(2).values
    torch.testing.assert_close(Backbone(trunk).eval()(images), mean)
    torch.testing.assert_close(Backbone(trunk, "average+max").eval()(images), mean + largest)


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_batch_norms_keep_their_statistics_under_train(frozen):
    net = PhotoNet(Backbone(toy(), freeze_batch_norm=frozen), 4).train()
    norm = net.backbone.trunk[1]
    before = norm.running_mean.clone()
    net(pictures()).square().sum().backward()
    assert torch.equal(norm.running_mean, before) == frozen
    assert norm.weight.grad is not None and net.training and net.backbone.trunk[0].training
    assert norm.training is not frozen
    copied = copy.deepcopy(net).eval().train()
    assert copied.backbone.trunk[1].training is not frozen


def test_frozen_batch_norms_see_each_picture_alone():
    net = PhotoNet(Backbone(toy()), 4).train()
    images = pictures(4)
    torch.testing.assert_close(net(images)[:1], net(images[:1]))


@pytest.mark.parametrize(
    ("name", "channels"),
    [("efficientnet-lite0", 1280), ("bn-inception", 1024), ("timm:mobilenetv3_small_050", 1024)],
)
def test_networks_give_embeddings_for_several_sizes(name, channels):
    net = build_photo_net(name, 8, generator()).eval()
    assert isinstance(net, PhotoNet) and net.backbone.channels == channels
    for side in (64, 96):
        assert net(pictures(2, side)).shape == (2, 8)
    assert net.backbone(pictures()).shape == (2, channels)


def test_resnet50_is_the_original_one():
    trunk = build_trunk("resnet50", generator())
    assert trunk.channels == 2048 and trunk.module.pretrained_cfg["tag"] == "tv_in1k"
    assert sum(p.numel() for p in trunk.module.parameters()) == 25_557_032 - 2048 * 1000 - 1000


def test_the_levels_of_ranked_list_loss():
    """3c, 4e and 5b: after three, eight and ten inception modules, at 1/16, 1/32 and 1/32 of the picture's side."""
    net = build_photo_net("bn-inception", 4, generator(), levels=("low", "middle", "high")).eval()
    assert isinstance(net, MultiLevelHead) and net.embedding_size == 12
    shapes = {}
    for name in net.taps:
        layer = net.backbone.get_submodule(name)
        layer.register_forward_hook(lambda m, i, o, name=name: shapes.update({name: tuple(o.shape[1:])}))
    embeddings = net(pictures(2, 96))
    assert list(shapes.values()) == [(576, 6, 6), (1056, 3, 3), (1024, 3, 3)]
    torch.testing.assert_close(embeddings.view(2, 3, 4).norm(dim=2), torch.ones(2, 3))
    with pytest.raises(LabError, match=r"got \(48, 48\)"):  # branches of this network come out at 1 and 2 pixels
        net(pictures(1, 48))
    alone = build_photo_net("bn-inception", 4, generator(), levels=("high",)).eval()
    torch.testing.assert_close(alone(pictures(2, 96)).norm(dim=1), torch.ones(2))


def test_weights_depend_on_the_generator_alone(lite):
    before = torch.get_rng_state()
    twin, other = (build_photo_net("efficientnet-lite0", 16, generator(seed)) for seed in (0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(lite.state_dict().values(), twin.state_dict().values()))
    assert not torch.equal(other.backbone.trunk.conv_stem.weight, twin.backbone.trunk.conv_stem.weight)
    assert not torch.equal(other.head.weight, twin.head.weight)


def test_average_pooling_is_the_library_s_own(lite):
    import timm

    theirs = timm.create_model("tf_efficientnet_lite0", num_classes=0).eval()
    theirs.load_state_dict(lite.backbone.trunk.state_dict())
    images = pictures()
    torch.testing.assert_close(lite.backbone(images), theirs((images - 0.5) / 0.5), rtol=1e-4, atol=1e-5)


def test_a_transformer_pools_by_itself_and_takes_its_own_size_only():
    net = build_photo_net("timm:vit_tiny_patch16_224", 4, generator()).eval()
    with pytest.raises(LabError, match=r"a size that this network takes; got \(64, 64\)"):
        net(pictures(1, 64))
    with pytest.raises(LabError, match="pools by itself"):
        Backbone(Trunk(net.backbone.trunk, 192, pools=True), "average+max")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "resnet"}, "Did you mean 'resnet50'"),
        ({"name": "timm:resnt50"}, "Did you mean 'resnet50'"),
        ({"pooling": "max"}, "pooling"),
        ({"freeze_batch_norm": 1}, "freeze_batch_norm"),
        ({"weights": "package", "name": "bn-inception"}, "efficientnet-lite0"),
        ({"weights": "nowhere.pth"}, "not there"),
        ({"embedding_size": 0}, "embedding_size"),
        ({"levels": ("high",)}, "bn-inception"),
        ({"levels": ("top",), "name": "bn-inception"}, "network.levels"),
    ],
)
def test_settings_that_will_not_do(change, words):
    settings = {"name": "timm:mobilenetv3_small_050", "embedding_size": 4} | change
    with pytest.raises(LabError, match=words):
        build_photo_net(generator=generator(), **settings)


@pytest.mark.parametrize(
    "images", [torch.zeros(1, 1, 64, 64), torch.zeros(1, 3, 16, 64), torch.zeros(1, 3, 64, 64, dtype=torch.uint8)]
)
def test_pictures_that_will_not_do(lite, images):
    with pytest.raises(LabError, match="images"):
        lite(images)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("labkit.models.trunks.importlib.util.find_spec", lambda name: None)
    with pytest.raises(LabError, match="pip install pytorchcv"):
        build_photo_net("bn-inception", 4, generator())


def test_embeddings_have_gradients_through_everything():
    net = PhotoNet(Backbone(toy(), "average+max"), 4).double().train()
    images = pictures(2, 32).double().requires_grad_()
    net(images).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    step = 1e-6 * torch.randn(images.shape, generator=generator(), dtype=torch.float64)
    with torch.no_grad():
        difference = net(images + step).square().sum() - net(images - step).square().sum()
    torch.testing.assert_close(difference, 2 * (images.grad * step).sum(), rtol=1e-4, atol=1e-12)
    assert F.mse_loss(net.head(net.backbone(images)), net(images)) == 0


def test_the_head_keeps_its_precision_where_the_backbone_has_less():
    net = PhotoNet(Backbone(toy(), "average"), 4).eval()
    images = pictures(3, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        features, embeddings = net.backbone(images), net(images)
    assert embeddings.dtype == torch.float32
    torch.testing.assert_close(embeddings, net.head(features.float()), rtol=1e-6, atol=1e-6)
