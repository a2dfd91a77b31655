"""What the losses that own proxies refuse, and the words they find for it."""

import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ProxyAnchorLoss, ProxyNCALoss, SoftTripleLoss

C, D = 4, 3


def soft_triple(**options):
    return SoftTripleLoss(C, D, 2, **options)


def nca(**options):
    return ProxyNCALoss(C, D, 2, **options)


def anchor(**options):
    return ProxyAnchorLoss(C, D, proxies_per_class=2, **options)


every_loss = pytest.mark.parametrize("make", [soft_triple, nca, anchor])


def wrong_calls():
    x, y = torch.ones(3, D), torch.tensor([0, 1, 2])
    yield (x, torch.tensor([0, 1, C])), rf"labels: expected classes in 0 ... {C - 1}; got label {C}"
    yield (x, torch.tensor([0, -1, 1])), "labels: .*got label -1"
    yield (x, torch.tensor([0, 1])), r"labels: .*shape \(3,\); got shape \(2,\)"
    yield (x, y.float()), "labels: expected integer"
    yield (x, None), "labels"
    yield (x[:0], y[:0]), "embeddings: expected at least one row"
    yield (x * torch.nan, y), "embeddings: expected finite"
    yield (
        (torch.ones(3, D + 1), y),
        rf"embeddings: expected rows of embedding_size = {D} numbers; got shape \(3, {D + 1}\)",
    )
    yield (x, y, None, x, y), "ref_emb: expected None.*brings its own proxies.*AlternatingProjections"
    yield (x, y, (y, y)), "indices_tuple"
    yield (x, y, (y, y, y + 1)), r"indices_tuple\[2\]"


@every_loss
@pytest.mark.parametrize(("arguments", "message"), list(wrong_calls()))
def test_wrong_input_is_named(make, arguments, message):
    with pytest.raises(LabError, match=message):
        make()(*arguments)


@every_loss
def test_another_device_is_named(make):
    with pytest.raises(LabError, match=r"embeddings: .*device of the proxies, meta; got cpu. Move the loss"):
        make().to("meta")(torch.ones(1, D), torch.tensor([0]))


@every_loss
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reducr": None}, "option of .*Did you mean 'reducer'"),
        ({"centers_per_clas": 3}, "option of .*got 'centers_per_clas'"),
        ({"weight_init_func": "normal"}, "weight_init_func"),
    ],
)
def test_wrong_options_are_named_when_built(make, changes, message):
    with pytest.raises(LabError, match=message):
        make(**changes)


@every_loss
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalize": "L2"}, "Did you mean 'l2'"),
        ({"weight_reg_weight": float("nan")}, "weight_reg_weight"),
        ({"embedding_reg_weight": "1"}, "embedding_reg_weight"),
        ({"reducer": "mean"}, "reducer: expected something to call"),
        ({"weight_regularizer": 0.2}, "weight_regularizer"),
        ({"weight_regularizer": lambda weight: weight}, "weight_regularizer: expected a 0-d tensor returned"),
        ({"distance": lambda x, weight: x}, rf"distance: .*\(3, {2 * C}\) matrix"),
    ],
)
def test_wrong_options_are_named_when_called(make, changes, message):
    loss = make(**changes)
    with pytest.raises(LabError, match=message):
        loss(torch.ones(3, D), torch.tensor([0, 1, 2]))
    if "normalize" in changes:
        with pytest.raises(LabError, match=message):
            loss.get_logits(torch.ones(3, D))


@pytest.mark.parametrize("name", ["num_classes", "embedding_size", "proxies_per_class"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "3", None])
def test_sizes_are_whole_numbers(name, value):
    with pytest.raises(LabError, match=name):
        ProxyNCALoss(**{"num_classes": 2, "embedding_size": 2, name: value})


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (SoftTripleLoss(2, D, la=-1), "la"),
        (SoftTripleLoss(2, D, gamma=-0.1), "gamma"),
        (SoftTripleLoss(2, D, margin=float("inf")), "margin"),
        (ProxyNCALoss(2, D, temperature=0), "temperature"),
        (ProxyAnchorLoss(2, D, alpha=0), "alpha"),
        (ProxyAnchorLoss(2, D, margin="0.1"), "margin"),
    ],
    ids=lambda value: str(value)[:14],
)
def test_settings_out_of_range(loss, message):
    with pytest.raises(LabError, match=message):
        loss(torch.ones(1, D), torch.tensor([0]))
    if message != "alpha":
        with pytest.raises(LabError, match=message):
            loss.get_logits(torch.ones(1, D))
