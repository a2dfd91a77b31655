"""The lens's presets: what they set, and that what their lines promise happens."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.panels.lens_settings import KINDS, PRESETS
from labkit.panels.loss_lens import LossLens


@pytest.fixture
def lens() -> LossLens:
    return LossLens()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(lens: LossLens, preset: str) -> None:
    lens.preset.value = preset
    chosen = PRESETS[preset]
    assert (lens.kind.value, lens.scene.value, lens.probe) == (chosen.loss, chosen.scene, chosen.probe)
    for name, value in chosen.settings.items():
        assert getattr(lens.loss, name) == value
    assert chosen.notice[:40].replace("'", "&#x27;") in lens.notice.value and lens.message.value == ""
    lens.kind.value = next(kind for kind in KINDS if kind != chosen.loss)
    assert chosen.notice[:40] not in lens.notice.value


def test_what_the_presets_promise(lens: LossLens) -> None:
    """Their lines say what happens when a slider is moved."""
    lens.preset.value = "Ranked list: a class keeps its shape"
    assert not lens.drawn.field.pulled.all()
    lens.sliders.children[1].value = 1.2
    assert lens.drawn.field.pulled.all()

    lens.preset.value = "SoftTriple: nearest centre or mean"
    strength = lens.drawn.field.strength_at_cell()
    lens.sliders.children[1].value = 10
    assert lens.drawn.field.strength_at_cell() < strength / 2

    lens.preset.value = "ProxyGML: few proxies act"
    subgraph = lens.loss.k
    assert subgraph == 3
    lens.sliders.children[0].value = 1.0
    assert lens.loss.k == 6

    lens.preset.value = "ProxyNCA++: a seam as narrow as T"
    assert lens.drawn.field.pulled.mean() > 0.9
    lens.sliders.children[0].value = 0.02
    assert lens.drawn.field.pulled.mean() < 0.9

    lens.preset.value = "C2: margins make silence"
    pushed = lens.drawn.field.pushed.mean()
    assert not lens.drawn.field.pulled.all()
    lens.sliders.children[1].value = 1.4
    assert lens.drawn.field.pushed.mean() > pushed

    lens.preset.value = "Triplet: only the difference counts"
    white = (~lens.drawn.field.pulled & ~lens.drawn.field.pushed).mean()
    lens.sliders.children[0].value = 0.5
    assert white > (~lens.drawn.field.pulled & ~lens.drawn.field.pushed).mean()


def test_ranked_list_at_zero_temperature_pushes_less_decidedly(lens: LossLens) -> None:
    lens.preset.value = "Ranked list: T picks the hardest"
    even = np.linalg.norm(lens.drawn.field.force, axis=2)
    lens.sliders.children[2].value = 50
    assert np.median(np.linalg.norm(lens.drawn.field.force, axis=2)) > np.median(even)
