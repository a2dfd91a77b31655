"""Gradient fields against finite differences of the losses called by hand, zones against loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, FunctionLoss, MultiSimilarityLoss, ProxyAnchorLoss, ProxyNCALoss, SoftTripleLoss
from labkit.plots import gradient_field
from labkit.plots.gradient_fields import LONGEST, Field, field_values
from labkit.plots.zones import rule_of
from tests.plots.losses import LABELS, NAMES, REFERENCES, nine, one_value


def test_a_negative_margin_is_written_with_one_sign() -> None:
    for margin, text in ((-0.5, "s > −δ = 0.5 ("), (0.1, "s > −δ = −0.1 ("), (0.0, "s > −δ = 0 (")):
        loss = ProxyAnchorLoss(3, 2, margin)
        assert rule_of(loss).texts(loss)[1].startswith(text)


def ranked_with_weights_of(place: Any) -> Any:
    """Ranked list loss of one sample whose negatives keep the weights that they have at `place`: it takes them as
    constants."""

    def distances(point: Any) -> Any:
        return seen("rll", np.array([point]))[1][0]

    weights = np.where(distances(place)[2:] < 1.2, np.exp(10 * (1.2 - distances(place)[2:])), 0)

    def value(point: Any) -> float:
        d = distances(point)
        far = [v - 0.8 for v in d[:2] if v > 0.8]
        negative = (weights * (1.2 - d[2:])).sum() / max(weights.sum(), 1e-12)
        return float(sum(far) / max(len(far), 1) + negative)

    return value


@pytest.mark.parametrize("name", NAMES)
def test_values_and_arrows_against_finite_differences(name: str) -> None:
    field = field_values(nine()[name], REFERENCES, LABELS, grid=6, extent=1.1)
    h = 1e-6
    for i, y in enumerate(field.at):
        for j, x in enumerate(field.at):
            assert field.loss[i, j] == pytest.approx(one_value(name, (x, y)), abs=1e-9)
            value = ranked_with_weights_of((x, y)) if name == "rll" else lambda point: one_value(name, point)
            down = [(value((x - a, y - b)) - value((x + a, y + b))) / (2 * h) for a, b in ((h, 0), (0, h))]
            assert np.allclose(field.force[i, j], down, rtol=1e-4, atol=1e-4)


def seen(name: str, points: Any) -> tuple[Any, Any, Any]:
    """Normalised points and references, one pair after the other: distances and dot products."""
    loss = nine()[name]
    a = loss.normalized(torch.tensor(points)).numpy()
    b = loss.normalized(torch.tensor(REFERENCES)).detach().numpy()
    d = np.array([[np.linalg.norm(p - r) for r in b] for p in a])
    return loss, d, np.array([[float(p @ r) for r in b] for p in a])


def acts_by_hand(name: str, point: Any) -> list[bool]:
    """Which of the six references act on a sample of class 0."""
    loss, (d,), (s,) = seen(name, np.array([point]))
    same = LABELS == 0
    if name == "c1":
        return [bool(s[j] < 1 if same[j] else s[j] > loss.margin) for j in range(6)]
    if name == "c2":
        return [bool(d[j] > loss.pos_margin if same[j] else d[j] < loss.neg_margin) for j in range(6)]
    if name == "triplet":
        cost = {(p, n): d[p] - d[n] + loss.margin > 0 for p in range(2) for n in range(2, 6)}
        return [any(active for pair, active in cost.items() if j in pair) for j in range(6)]
    if name == "ms":
        return [bool(s[j] < loss.base if same[j] else s[j] > loss.base) for j in range(6)]
    if name == "rll":
        return [bool(d[j] > loss.alpha - loss.margin if same[j] else d[j] < loss.alpha) for j in range(6)]
    if name == "anchor":
        return [bool(s[j] < loss.margin if same[j] else s[j] > -loss.margin) for j in range(6)]
    if name == "gml":
        loss.weight.data = torch.tensor(REFERENCES).float()
        graph = loss.subgraph(torch.tensor(np.array([point])).float(), torch.tensor([0]))
        return [j in graph.indices[0].tolist() for j in range(6)]
    # A softmax: its weights are the derivatives by a shift of the classes' scores.
    if name == "nca":
        within = torch.tensor(-(d**2) / loss.temperature).reshape(3, 2)
        scores = within.logsumexp(dim=1)
    else:
        within = torch.tensor(s / loss.gamma).reshape(3, 2)
        scores = loss.la * (within.softmax(dim=1) * torch.tensor(s).reshape(3, 2)).sum(dim=1)
        scores[0] -= loss.la * loss.margin
    scores.requires_grad_()
    torch.nn.functional.cross_entropy(scores[None], torch.tensor([0])).backward()
    weight = scores.grad.abs()
    chosen = within.softmax(dim=1)
    return [bool(weight[j // 2] * chosen[j // 2, j % 2] / chosen[j // 2].max() > 0.1) for j in range(6)]


@pytest.mark.parametrize("name", NAMES)
def test_zones_against_loops(name: str) -> None:
    field = field_values(nine()[name], REFERENCES, LABELS, grid=3)
    rng = np.random.default_rng(1)
    kinds = set()
    for i, j in rng.integers(0, len(field.fine), size=(60, 2)):
        acts = acts_by_hand(name, (field.fine[j], field.fine[i]))
        assert bool(field.pulled[i, j]) == any(acts[:2])
        assert bool(field.pushed[i, j]) == any(acts[2:])
        kinds.add((any(acts[:2]), any(acts[2:])))
    assert len(kinds) > 1 or name == "gml"  # there a subgraph always has both sides


def shafts(fig: Any) -> np.ndarray:
    """(n, 2, 2) tails and tips."""
    trace = next(t for t in fig.data if t.name == "negative gradient" and t.mode == "lines")
    xy = np.stack([np.asarray(trace.x, dtype=float), np.asarray(trace.y, dtype=float)], axis=1).reshape(-1, 3, 2)
    assert np.isnan(xy[:, 2]).all()
    return xy[:, :2]


@pytest.mark.parametrize("log", [False, True])
def test_arrows_are_as_long_as_the_subtitle_says(log: bool) -> None:
    loss = nine()["c2"]
    field: Field = field_values(loss, REFERENCES, LABELS, grid=9)
    fig = gradient_field(loss, REFERENCES, LABELS, grid=9, log=log)
    unit = field.strength_at_cell()
    assert f"a gradient of {unit:.3g}" in fig.layout.meta["subtitle"]
    cell = field.at[1] - field.at[0]
    for tail, tip in shafts(fig):
        j, i = np.abs(field.at - tail[0]).argmin(), np.abs(field.at - tail[1]).argmin()
        strength = np.linalg.norm(field.force[i, j])
        cells = min(1 + np.log10(strength / unit) / 3 if log else strength / unit, LONGEST)
        assert np.allclose(tip - tail, cells * cell * field.force[i, j] / strength, atol=2e-3)
    unseen = (np.linalg.norm(field.force, axis=2) / unit < (1e-3 if log else 0.02)).sum()
    assert abs(len(shafts(fig)) + unseen - 81) <= 2


def test_heads_point_where_the_shafts_go() -> None:
    fig = gradient_field(nine()["ms"], REFERENCES, LABELS, grid=7)
    heads = next(t for t in fig.data if t.name == "negative gradient" and t.mode == "markers")
    lines = shafts(fig)
    for (tail, tip), angle in zip(lines, heads.marker.angle, strict=True):
        step = tip - tail
        if np.linalg.norm(step) > 0.02:
            turned = np.array([np.sin(np.radians(angle)), np.cos(np.radians(angle))])  # clockwise from upward
            assert turned @ step / np.linalg.norm(step) > 0.99
    assert np.allclose(heads.x, lines[:, 1, 0]) and np.allclose(heads.y, lines[:, 1, 1])


def test_tints_tell_the_four_cases() -> None:
    field = field_values(nine()["c2"], REFERENCES, LABELS)
    tint = gradient_field(nine()["c2"], REFERENCES, LABELS).data[0]
    z = np.asarray(tint.z)
    assert np.array_equal(z % 2 == 1, field.pulled) and np.array_equal(z >= 2, field.pushed)


def test_a_loss_with_proxies_shows_its_own() -> None:
    loss = nine()["nca"]
    before = loss.weight.detach().clone()
    field = field_values(loss, label=1, grid=3)
    assert np.allclose(field.scene.references, before.numpy()) and field.scene.labels.tolist() == LABELS.tolist()
    field_values(loss, REFERENCES, LABELS, grid=3)
    assert torch.equal(loss.weight, before) and loss.weight.requires_grad  # a copy is asked


def test_references_may_come_in_any_order() -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    mixed = field_values(nine()["soft_triple"], REFERENCES[order], LABELS[order], grid=4)
    assert np.allclose(mixed.loss, field_values(nine()["soft_triple"], REFERENCES, LABELS, grid=4).loss)


def test_the_loss_itself_stays_as_it_is() -> None:
    loss = nine()["triplet"]
    assert loss.anchor == "proxy"
    gradient_field(loss, REFERENCES, LABELS, grid=3)
    assert loss.anchor == "proxy"


def test_a_loss_of_ones_own_has_arrows_without_tints() -> None:
    loss = FunctionLoss(lambda d, same, different: d[same].square().sum())
    field = field_values(loss, REFERENCES, LABELS, grid=5, extent=0.6)  # within the unit ball
    for i in range(5):
        for j in range(5):
            point = np.array([field.at[j], field.at[i]])
            assert np.allclose(field.force[i, j], 2 * (REFERENCES[:2] - point).sum(axis=0))
    fig = gradient_field(loss, REFERENCES, LABELS, grid=5)
    assert not np.asarray(fig.data[0].z).any()
    assert not any("pulls" in (trace.name or "") for trace in fig.data)


def test_a_loss_of_pytorch_metric_learning() -> None:
    from pytorch_metric_learning import losses as peer

    theirs = field_values(peer.MultiSimilarityLoss(), REFERENCES, LABELS, grid=4)
    ours = field_values(MultiSimilarityLoss(beta=50.0), REFERENCES, LABELS, grid=4)
    assert np.allclose(theirs.loss, ours.loss) and np.allclose(theirs.force, ours.force)


def test_silence_everywhere_is_said() -> None:
    fig = gradient_field(ContrastiveLoss(5.0, 0.0), REFERENCES, LABELS, grid=5)
    assert fig.layout.meta["subtitle"] == "No arrows: the gradient is 0 everywhere"
    assert len(shafts(fig)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references": None}, "references: expected fixed samples or proxies"),
        ({"references": np.ones((6, 3))}, "references: expected two columns"),
        ({"references": np.full((6, 2), np.nan)}, "references: expected finite numbers"),
        ({"reference_labels": [0, 1]}, "reference_labels: expected one label per"),
        ({"label": 7}, "label: expected a class that a reference has"),
        ({"label": 0.5}, "label: expected a whole number"),
        ({"grid": 2}, "grid: expected"),
        ({"extent": 0}, "extent: expected"),
        ({"log": "yes"}, "log: expected True or False"),
        ({"width": 3}, "width: expected"),
        ({"loss": SoftTripleLoss}, "loss: expected a loss, not its class"),
        ({"loss": ProxyNCALoss(3, 2, 3)}, "reference_labels: expected 3 references for each class 0 … 2"),
        (
            {"loss": ProxyNCALoss(3, 2, 2), "reference_labels": [0, 0, -1, -1, 2, 2**40]},
            "got 2 of class -1, 2 of class 0, 1 of class 2, 1 of class 1099511627776",
        ),
        ({"loss": ContrastiveLoss(pos_margin=-1)}, "pos_margin: expected"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    given = {"loss": ContrastiveLoss(), "references": REFERENCES, "reference_labels": LABELS, **change}
    with pytest.raises(LabError, match=message):
        gradient_field(**given)


def test_proxies_of_more_dimensions_are_refused() -> None:
    with pytest.raises(LabError, match="references: expected two columns"):
        gradient_field(SoftTripleLoss(3, 5, 2))
    with pytest.raises(LabError, match="loss: expected proxies on the plane"):
        gradient_field(SoftTripleLoss(3, 5, 2), REFERENCES, LABELS)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3.0, "expected a 0-d tensor returned; got 3.0"),
        (torch.ones(2), "expected a 0-d tensor returned"),
        (torch.tensor(math.nan), "expected a finite loss; got nan"),
    ],
)
def test_what_a_loss_returns_is_checked(returned: Any, message: str) -> None:
    with pytest.raises(LabError, match=message):
        gradient_field(lambda *arguments: returned, REFERENCES, LABELS)
