"""The lens on a loss: what its controls do to the numbers and to the figure, without a browser."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import BaseLoss, ContrastiveLoss, FunctionLoss, ProxyNCALoss, RankedListLoss
from labkit.panels.lens_settings import KINDS, SCENES
from labkit.panels.lens_traces import CLICKED, GRID
from labkit.panels.loss_lens import LossLens
from labkit.plots.gradient_fields import field_values


@pytest.fixture
def lens() -> LossLens:
    return LossLens()


def named(panel: LossLens, name: str) -> Any:
    return next(trace for trace in panel.figure.data if trace.name == name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_loss_is_drawn_and_every_slider_acts(lens: LossLens, kind: str) -> None:
    lens.kind.value = kind
    for slider, setting in zip(lens.sliders.children, KINDS[kind].settings, strict=True):
        before = lens.drawn.field.loss, lens.drawn.field.force, lens.drawn.profile.loss["same"]
        powers = 10**setting.low, 10**setting.high
        low, high = powers if setting.log else (setting.low, setting.high)
        slider.value = low + 0.7 * (high - low) if slider.value < low + 0.6 * (high - low) else low + 0.4 * (high - low)
        assert lens.message.value == ""
        assert getattr(lens.loss, setting.attribute) == slider.value
        after = lens.drawn.field.loss, lens.drawn.field.force, lens.drawn.profile.loss["same"]
        assert any(not np.allclose(a, b) for a, b in zip(before, after, strict=True)), setting.attribute


@pytest.mark.parametrize("scene", SCENES)
def test_every_scene(lens: LossLens, scene: str) -> None:
    lens.scene.value = scene
    references, labels = SCENES[scene]
    for kind in ("Triplet", "ProxyGML"):
        lens.kind.value = kind
        assert lens.message.value == ""
        expected = field_values(lens.loss, references, labels, grid=GRID)
        assert np.allclose(lens.drawn.field.loss, expected.loss)
        assert lens.label.options == tuple(sorted(set(labels.tolist())))


def test_the_figure_shows_the_numbers(lens: LossLens) -> None:
    lens.kind.value = "Ranked list"
    lens.axis.value = "similarity"
    lens.label.value = 1
    field, profile = lens.drawn.field, lens.drawn.profile
    tint = np.asarray(lens.figure.data[CLICKED].z)
    assert np.array_equal(tint % 2 == 1, field.pulled) and np.array_equal(tint >= 2, field.pushed)
    lines = [t for t in lens.figure.data if t.name in ("own class", "another class")]
    assert np.allclose(lines[0].y, profile.loss["same"], atol=1e-6)
    assert np.allclose(lines[3].y, profile.slope["other"], atol=1e-6)
    own = named(lens, "references, own class")
    assert np.allclose(np.stack([own.x, own.y], axis=1), SCENES[lens.scene.value][0][2:4], atol=1e-3)
    assert lens.figure.layout.shapes[1].x1 == pytest.approx(1 - 0.8**2 / 2, abs=1e-3)
    assert list(lens.figure.layout.xaxis2.range) == [-1, 1]


def test_the_star_follows_a_click_and_the_sliders(lens: LossLens) -> None:
    lens.kind.value = "C2 · contrastive on distances"
    lens._clicked(None, SimpleNamespace(xs=[0.5], ys=[-0.24]), None)
    assert lens.probe == (0.5, -0.24)
    star = named(lens, "probe")
    assert (star.x[0], star.y[0]) == pytest.approx((0.5, -0.24))
    lens.x.value = -0.7
    assert named(lens, "probe").x[0] == pytest.approx(-0.7)
    lens.place(9.0, -9.0)
    assert lens.probe == (1.2, -1.2)
    with pytest.raises(LabError, match="x: expected a finite number"):
        lens.place(float("nan"), 0.0)
    lens._clicked(None, SimpleNamespace(xs=[], ys=[]), None)  # a click beside everything


def test_the_way_goes_down(lens: LossLens) -> None:
    lens.kind.value = "Multi-similarity"
    references, labels = (torch.tensor(values) for values in SCENES[lens.scene.value])
    path = lens.drawn.path_from((-0.9, -0.3))
    values = [
        lens.loss(torch.tensor(point[None]), torch.tensor([0]), ref_emb=references, ref_labels=labels).item()
        for point in path
    ]
    assert tuple(path[0]) == (-0.9, -0.3)
    assert (np.diff(values) < 1e-9).all() and values[-1] < values[0] - 0.1
    lens.place(-0.9, -0.3)
    way = named(lens, "way")
    assert np.allclose(np.stack([way.x, way.y], axis=1), path, atol=2e-3)


def test_what_the_loss_refuses_is_said_and_the_picture_stays(lens: LossLens) -> None:
    lens.kind.value = "ProxyGML"
    before = lens.drawn
    lens.sliders.children[0].value = 0.2
    assert "ratio: expected above 1 / num_classes" in lens.message.value and "would do" in lens.message.value
    assert lens.drawn is before
    lens.sliders.children[0].value = 0.9
    assert lens.message.value == ""


def test_other_normalisation_and_log_arrows(lens: LossLens) -> None:
    lens.kind.value = "Multi-similarity"
    on_sphere = lens.drawn.field.loss
    lens.normalize.value = "lipschitz"
    assert lens.loss.normalize == "lipschitz" and not np.allclose(lens.drawn.field.loss, on_sphere)
    linear = len(named(lens, "negative gradient").x)
    lens.log_arrows.value = True
    assert len(named(lens, "negative gradient").x) >= linear
    assert "a tenth of that" in lens.figure.layout.title.text


class Spring(BaseLoss):
    """A loss of somebody's own."""

    def __init__(self, stiffness: float = 2.0) -> None:
        super().__init__("lipschitz")
        self.stiffness = stiffness

    def compute(self, batch: Any) -> Any:
        from labkit.geometry import pairwise_distance

        d = pairwise_distance(batch.embeddings, batch.references)
        return self.stiffness * d[:, batch.reference_labels == batch.labels[0]].square().sum()


def test_a_loss_of_ones_own_with_its_numbers() -> None:
    panel = LossLens(Spring())
    assert panel.kind.value == "yours · Spring"
    (box,) = panel.sliders.children
    assert (box.description, box.value) == ("stiffness", 2.0)
    before = panel.drawn.field.loss
    box.value = 4.0
    assert np.allclose(panel.drawn.field.loss, 2 * before)
    assert "A loss of your own" in panel.notice.value
    panel.kind.value = "Triplet"
    assert panel.message.value == ""


def test_the_loss_that_was_given_stays_as_it_is() -> None:
    loss, proxies = Spring(), ProxyNCALoss(3, 2, 2)
    panel = LossLens(loss)
    panel.sliders.children[0].value = 4.0
    panel.normalize.value = "l2"
    assert (panel.loss.stiffness, panel.loss.normalize) == (4.0, "l2")
    assert (loss.stiffness, loss.normalize) == (2.0, "lipschitz")
    panel = LossLens(proxies)
    panel.normalize.value = "lipschitz"
    assert panel.loss.normalize == "lipschitz" and proxies.normalize == "l2"


class Angles(torch.nn.Module):
    """A loss that is none of ours; what it calls normalize is a switch."""

    def __init__(self, normalize: Any) -> None:
        super().__init__()
        self.normalize = normalize

    def forward(
        self, embeddings: Any, labels: Any, indices_tuple: Any = None, ref_emb: Any = None, ref_labels: Any = None
    ) -> Any:
        return (embeddings @ ref_emb.T).mean()


@pytest.mark.parametrize("normalize", [True, "cosine"])
def test_a_switch_of_the_same_name_is_left_alone(normalize: Any) -> None:
    panel = LossLens(Angles(normalize))
    assert panel.normalize.disabled and panel.message.value == ""
    assert panel.loss.normalize == normalize
    panel.kind.value = "Triplet"
    assert not panel.normalize.disabled and panel.normalize.value == "lipschitz"
    assert not LossLens(Angles(None)).normalize.disabled


def test_a_function_as_a_loss() -> None:
    panel = LossLens(FunctionLoss(lambda d, same, different: d[same].sum()))
    assert panel.sliders.children == () and panel.message.value == ""


def test_references_of_ones_own() -> None:
    points, labels = np.array([[0.2, 0.1], [-0.5, 0.4], [0.0, -0.6]]), np.array([4, 7, 7])
    panel = LossLens(RankedListLoss(), points, labels)
    assert panel.scene.value == "your references" and panel.label.value == 4
    assert np.allclose(panel.drawn.field.scene.references, points)
    assert panel.message.value == ""


def test_a_function_written_in_c_is_asked_and_what_it_gives_is_named() -> None:
    panel = LossLens(print)
    assert "0-d tensor" in panel.message.value


def test_a_loss_with_proxies_begins_with_them() -> None:
    loss = ProxyNCALoss(3, 2, 2)
    panel = LossLens(loss)
    assert panel.scene.value == "the loss's own proxies"
    assert np.allclose(panel.drawn.field.scene.references, loss.weight.detach().numpy())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((ContrastiveLoss,), "loss: expected a loss, not its class"),
        ((None, [[0.0, 1.0]], [0, 1]), "reference_labels: expected one label per"),
        ((None, [[0.0, 1.0, 2.0]], [0]), "references: expected two columns"),
        ((None, [[0.0, 1.0]]), "reference_labels: expected one label per .* got None"),
        ((None, [[0.0, 1.0]], [None]), "reference_labels: expected whole numbers"),
        ((None, [[0.0, 1.0]], []), "reference_labels: expected one label per"),
        ((None, [[0.0, 1.0], [1.0, 0.0]], [[0], [1, 2]]), "reference_labels: expected one label per"),
        ((lambda x, y: x.sum(),), r"loss: expected a loss, called as loss\(embeddings, labels, indices_tuple.*FunctionLoss"),
    ],
)
def test_bad_input_is_refused(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(LabError, match=message):
        LossLens(*given)


def test_a_change_of_loss_and_closing_leave_nothing_behind() -> None:
    from ipywidgets.widgets.widget import _instances as widgets

    panel = LossLens()
    panel.kind.value = "Ranked list"
    many = len(widgets)
    for kind in ("Triplet", "Multi-similarity", "Ranked list"):
        panel.kind.value = kind
    assert len(widgets) == many
    freed = weakref.ref(panel)
    before = len(widgets)
    panel.close()
    assert len(widgets) < before - 20
    del panel
    gc.collect()
    assert freed() is None


def test_two_lenses_do_not_disturb_each_other() -> None:
    first, second = LossLens(), LossLens()
    first.kind.value = "SoftTriple"
    assert second.kind.value == next(iter(KINDS)) and second.drawn.title != first.drawn.title
