"""A sample's subgraph against a sort by hand, and its class sums against ProxyGML's own loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ProxyGMLLoss, ProxyNCALoss
from labkit.plots import sample_subgraph
from labkit.plots.subgraphs import WIDTHS, _apart, class_sums

X = np.random.default_rng(4).normal(size=(9, 2))
Y = np.arange(9) % 3


def make(size: int = 2, **options: Any) -> ProxyGMLLoss:
    return ProxyGMLLoss(3, size, 4, ratio=0.6, proxy_weight=0.0, generator=torch.Generator().manual_seed(1), **options)


def by_hand(loss: ProxyGMLLoss, x: Any, label: int) -> dict[int, float]:
    """{proxy: similarity} of the proxies that a sample is connected to: its own class's, then the most similar."""
    w = loss.weight.detach().numpy().astype(float)
    s = [float(x @ p / np.linalg.norm(x) / np.linalg.norm(p)) for p in w]
    order = sorted(range(12), key=lambda j: (j // 4 != label if loss.positive_mask else False, -s[j]))
    return {j: s[j] for j in order[: loss.k]}


@pytest.mark.parametrize("positive_mask", [True, False])
def test_edges_and_marks_are_the_connected_proxies(positive_mask: bool) -> None:
    loss = make(positive_mask=positive_mask)
    fig = sample_subgraph(loss, X, Y, 4)
    expected = by_hand(loss, X[4], 1)
    unit = loss.normalized(loss.weight.detach()).numpy()
    connected = next(t for t in fig.data if t.name == "proxy, connected")
    assert np.allclose(sorted(zip(connected.x, connected.y)), sorted(map(tuple, unit[list(expected)])), atol=2e-3)
    rest = next(t for t in fig.data if t.name == "proxy, not connected")
    assert len(rest.x) == 12 - loss.k
    edges = [t for t in fig.data if t.type == "scatter" and t.mode == "lines"]
    assert len(edges) == loss.k
    low, high = min(expected.values()), max(expected.values())
    for edge in edges:
        ends = np.array([edge.x[1], edge.y[1]])
        proxy = min(expected, key=lambda j: np.linalg.norm(unit[j] - ends))
        width = WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * (expected[proxy] - low) / (high - low)
        assert edge.line.width == pytest.approx(width, abs=0.01)
        assert edge.line.dash == ("solid" if expected[proxy] >= 0 else "dash")
        assert np.allclose([edge.x[0], edge.y[0]], X[4] / np.linalg.norm(X[4]), atol=1e-3)


@pytest.mark.parametrize("positive_mask", [True, False])
@pytest.mark.parametrize("mask_softmax", [True, False])
def test_shares_give_the_loss(positive_mask: bool, mask_softmax: bool) -> None:
    loss = make(positive_mask=positive_mask, mask_softmax=mask_softmax)
    for row in range(9):
        chosen = by_hand(loss, X[row], Y[row])
        owners, similarities = np.array([j // 4 for j in chosen]), np.array(list(chosen.values()))
        sums, share = class_sums(loss, owners, similarities, int(Y[row]))
        value = loss(torch.tensor(X[row : row + 1]), torch.tensor(Y[row : row + 1])).item()
        assert -np.log(share[Y[row]]) == pytest.approx(value, abs=1e-5)
        assert share.sum() == pytest.approx(1)
        assert sums == pytest.approx([similarities[owners == c].sum() for c in range(3)])


def test_bars_show_the_sums_by_class() -> None:
    loss = make()
    fig = sample_subgraph(loss, X, Y, 4, class_names=["a", "b", "c"])
    bars = next(t for t in fig.data if t.type == "bar")
    chosen = by_hand(loss, X[4], 1)
    assert list(bars.y) == ["a", "b (own)", "c"]
    assert np.allclose(bars.x, [sum(s for j, s in chosen.items() if j // 4 == c) for c in range(3)], atol=1e-3)
    title = fig.layout.meta["title"]
    assert title.startswith(f"Sample 4 of class b sees {loss.k} of 12 proxies: 4 of its own class, {loss.k - 4} of ")


def test_many_dimensions_and_classes() -> None:
    loss = ProxyGMLLoss(50, 16, 3, ratio=0.2)
    x = np.random.default_rng(0).normal(size=(4, 16))
    fig = sample_subgraph(loss, x, np.array([7, 3, 49, 0]), 2)
    bars = next(t for t in fig.data if t.type == "bar")
    assert len(bars.y) == 12 and "49 (own)" in bars.y
    assert "principal components" in fig.layout.meta["subtitle"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": ProxyNCALoss(3, 2)}, "loss: expected a ProxyGMLLoss"),
        ({"loss": ProxyGMLLoss(3, 2, 4, ratio=0.1)}, "ratio: expected above"),
        ({"embeddings": np.ones((9, 3))}, "embeddings: expected rows of embedding_size"),
        ({"labels": np.full(9, 3)}, "labels: expected"),
        ({"sample": 9}, "sample: expected"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        sample_subgraph(**{"loss": make(), "embeddings": X, "labels": Y, **change})


def test_a_heap_of_one_class_is_named_once() -> None:
    places = np.array([[0.0, 0.0], [0.01, 0.0], [0.01, 0.01], [0.05, 0.0], [0.05, 0.0], [1.0, 1.0]])
    assert _apart(places, ["3", "3", "4", "3", "5", "3"]) == ["3", "", "", "", "5", "3"]
    assert _apart(places[:0], []) == []
