"""Random and central crops: their distribution, their pixels, their generator."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from labkit.datasets.views import Views
from labkit.errors import LabError

unit = st.floats(0, 1, exclude_max=True)


@settings(max_examples=200, deadline=None)
@given(h=st.integers(20, 400), w=st.integers(20, 400), draws=st.tuples(unit, unit, unit, unit, unit), plain=st.booleans())
def test_a_crop_lies_inside_with_the_area_and_aspect_asked_for(h, w, draws, plain):
    views = Views(size=16, side=20, crop="plain" if plain else "scaled")
    top, left, high, wide = views.crop_box(h, w, draws)
    assert 0 <= top <= h - high and 0 <= left <= w - wide and high >= 1 and wide >= 1
    if plain:
        assert (high, wide) == (16, 16)
        return
    edge = min(h, w) * (40 / 256 + (1 - 40 / 256) * draws[0])
    if high < h and wide < w:
        assert abs(high * wide - edge**2) <= high + wide
        assert 3 / 4 - 0.5 <= wide / high <= 4 / 3 + 0.5


def test_sizes_and_aspects_are_spread_as_stated():
    views, generator = Views(), torch.Generator().manual_seed(0)
    boxes = [views.crop_box(256, 1024, tuple(row)) for row in views.draw(4000, generator).tolist()]
    edges = torch.tensor([math.sqrt(h * w) for _, _, h, w in boxes])
    whole = torch.tensor([h == 256 for _, _, h, _ in boxes])  # cut at the picture's edge
    assert 38 <= edges.min() <= 48 and edges.max() <= 258 * math.sqrt(4 / 3)
    assert abs(edges[~whole].quantile(0.25) - (40 + 54 * (1 - whole.float().mean()))) < 8
    aspects = torch.tensor([math.log(w / h) for _, _, h, w in boxes])
    assert aspects.min() >= math.log(3 / 4) - 0.03 and abs(aspects.mean()) < 0.03
    assert abs(aspects.std() - 2 * math.log(4 / 3) / math.sqrt(12)) < 0.02
    lefts = torch.tensor([left / (1024 - w) for _, left, _, w in boxes])
    assert abs(lefts.mean() - 0.5) < 0.02 and lefts.min() < 0.01 and lefts.max() > 0.99


def test_the_pixels_are_those_of_the_box_resized():
    picture = F.interpolate(torch.rand(1, 3, 6, 6, generator=torch.Generator().manual_seed(0)), (60, 80), mode="bicubic")[0]
    picture = (255 * picture.clamp(0, 1)).to(torch.uint8)
    views = Views(size=32, side=60)
    for seed in range(10):
        draws = views.draw(1, torch.Generator().manual_seed(seed))[0]
        top, left, high, wide = views.crop_box(60, 80, tuple(draws.tolist()))
        part = picture[None, :, top : top + high, left : left + wide].float()
        wanted = F.interpolate(part, (32, 32), mode="bilinear", antialias=True)[0]
        wanted = wanted.flip(2) if draws[4] < 0.5 else wanted
        assert (views.random(picture, draws).float() - wanted).abs().max() <= 1.5


def test_the_centre_of_evaluation():
    picture = torch.arange(3 * 20 * 31).remainder(251).to(torch.uint8).view(3, 20, 31)
    views = Views(size=16, side=20)
    assert torch.equal(views.central(picture), picture[:, 2:18, 8:24])


def test_the_protocol_s_numbers():
    assert (Views().size, Views().resized) == (227, 256) and Views(size=160).resized == 180
    assert Views(size=227, side=256, square=True).square and Views(size=224, side=256).resized == 256


def test_half_are_mirrored_and_never_where_not_wanted():
    picture = torch.zeros(3, 32, 32, dtype=torch.uint8)
    picture[:, :, 16:] = 255
    for flip, wanted in ((0.5, 0.5), (0.0, 0.0), (1.0, 1.0)):
        views = Views(size=32, side=32, crop="plain", flip=flip)
        draws = views.draw(400, torch.Generator().manual_seed(1))
        mirrored = sum(int(views.random(picture, row)[0, 0, 0] == 255) for row in draws) / 400
        assert abs(mirrored - wanted) <= (0.08 if flip == 0.5 else 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"size": 4}, "size"), ({"size": 227, "side": 200}, "side"), ({"crop": "random"}, "crop"), ({"smallest": 0}, "smallest"),
     ({"smallest": 1.5}, "smallest"), ({"flip": 2}, "flip"), ({"size": 2.5}, "size")],
)  # fmt: skip
def test_settings_that_will_not_do(settings, words):
    with pytest.raises(LabError, match=words):
        Views(**settings)
