"""Pictures of SoftTriple's centres against loops and the loss itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, SoftTripleLoss
from labkit.plots import center_choice, center_merging, class_regions, distinct_centers

RNG = np.random.default_rng(8)
X = RNG.normal(size=(40, 2))
Y = np.arange(40) % 3


def soft_triple(k: int, size: int = 2) -> SoftTripleLoss:
    g = torch.Generator().manual_seed(0)
    return SoftTripleLoss(3, size, k, generator=g, weight_init_func=lambda w: torch.nn.init.normal_(w, generator=g))


def test_regions_are_the_largest_logits() -> None:
    losses = {"one": soft_triple(1), "four": soft_triple(4)}
    fig = class_regions(losses, X, Y)
    sentences = []
    for heat, (name, loss) in zip((t for t in fig.data if t.type == "heatmap"), losses.items(), strict=True):
        for i, j in RNG.integers(0, len(heat.x), size=(50, 2)):
            logits = loss.get_logits(torch.tensor([[heat.x[j], heat.y[i]]], dtype=torch.float32))
            assert heat.z[i][j] == int(logits.argmax())
        right = [int(loss.get_logits(torch.tensor(x[None]).float()).argmax()) == y for x, y in zip(X, Y, strict=True)]
        sentences.append(f"{name}: {np.mean(right):.0%}")
    assert fig.layout.meta["title"].endswith("; ".join(sentences))
    squares = [t for t in fig.data if t.name == "proxies"]
    assert [len(t.x) for t in squares] == [3, 12]
    assert np.allclose(np.hypot(squares[1].x, squares[1].y), 1, atol=2e-3)


def test_each_region_that_has_room_carries_its_class_name_inside() -> None:
    fig = class_regions({"four": soft_triple(4)}, X, Y, class_names=["ant", "bee", "cat"])
    heat = next(t for t in fig.data if t.type == "heatmap")
    (names,) = (t for t in fig.data if t.type == "scatter" and t.mode == "text")
    assert {"<b>ant</b>", "<b>bee</b>", "<b>cat</b>"} >= set(names.text) and len(names.text) >= 3
    for x, y, text in zip(names.x, names.y, names.text, strict=True):
        row, column = np.abs(np.asarray(heat.y) - y).argmin(), np.abs(np.asarray(heat.x) - x).argmin()
        around = np.asarray(heat.z)[max(row - 3, 0) : row + 4, max(column - 3, 0) : column + 4]
        assert {"ant": 0, "bee": 1, "cat": 2}[text[3:-4]] == around.max() == around.min()


def test_distinct_centers_chain() -> None:
    chain = np.array([[[0, 0], [0.08, 0], [0.16, 0], [1, 0]], [[0, 0], [0, 0], [0, 0], [0, 0]]], dtype=float)
    assert distinct_centers(chain, 0.1).tolist() == [2, 1]
    assert distinct_centers(chain, 0.05).tolist() == [4, 1]


@pytest.mark.parametrize("seed", range(5))
def test_distinct_centers_against_a_flood(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(size=(3, 12, 2))
    expected = []
    for own in points:
        left, groups = set(range(12)), 0
        while left:
            groups, front = groups + 1, [left.pop()]
            while front:
                i = front.pop()
                near = [j for j in left if np.linalg.norm(own[i] - own[j]) < 0.2]
                left -= set(near)
                front += near
        expected.append(groups)
    assert distinct_centers(points, 0.2).tolist() == expected


def test_merging_shows_counts_and_distances() -> None:
    centers = RNG.normal(size=(4, 3, 5, 2))
    centers[3] = centers[3, :, :1]  # all of a class on one point
    fig = center_merging([0, 0.1, 0.2, 5], centers, threshold=0.3)
    counts = [t for t in fig.data if t.yaxis == "y"]
    for c in range(3):
        assert list(counts[c].y) == [distinct_centers(own, 0.3)[c] for own in centers]
    assert np.allclose(counts[3].y, [distinct_centers(own, 0.3).mean() for own in centers])
    assert counts[3].y[3] == 1
    (spread,) = (t for t in fig.data if t.yaxis == "y2")
    for t in range(3):
        pairs = [np.linalg.norm(o[i] - o[j]) for o in centers[t] for i in range(5) for j in range(i)]
        assert spread.y[t] == pytest.approx(np.mean(pairs))
    assert spread.y[3] == 1e-6 and list(spread.x) == ["0", "0.1", "0.2", "5"]


def test_the_choice_is_the_losses() -> None:
    loss = soft_triple(4, size=6)
    x = torch.randn(1, 6, generator=torch.Generator().manual_seed(5))
    s = (loss.normalized(x) @ loss.normalized(loss.weight.detach()).T)[0, :4].numpy()
    fig = center_choice(s, gammas=[1e-3, 0.1, 2.0])
    for at, gamma in enumerate((1e-3, 0.1, 2.0)):
        loss.gamma = gamma
        assert fig.data[-1].y[at] == pytest.approx(loss.get_logits(x)[0, 0].item(), abs=1e-5)
        assert sum(trace.y[at] for trace in fig.data[:-1]) == pytest.approx(1)


def test_the_choice_at_its_two_ends() -> None:
    fig = center_choice([0.9, 0.5, -0.4], gammas=[1e-6, 1e6])
    assert [trace.y[0] for trace in fig.data[:3]] == [1, 0, 0]
    assert np.allclose([trace.y[1] for trace in fig.data[:3]], 1 / 3)
    assert np.allclose(fig.data[-1].y, [0.9, 1 / 3])


def test_the_title_tells_the_weight_at_gamma() -> None:
    weight = np.exp(9) / (np.exp(9) + np.exp(5))
    assert center_choice([0.9, 0.5]).layout.meta["title"] == (
        f"At γ = 0.1 the nearest of 2 centres has {weight:.0%} of the weight"
    )
    tied = center_choice([0.9, 0.9, 0.9, 0.1]).layout.meta["title"]
    assert tied == "At γ = 0.1 each of the nearest 3 of 4 centres has 33% of the weight"
    assert "nearest alone" in center_choice([0.9, 0.5], at=None).layout.meta["title"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: class_regions({}, X, Y), "losses: expected a dict"),
        (lambda: class_regions({"a": ContrastiveLoss()}, X, Y), "losses\\['a'\\]: expected a loss with proxies"),
        (lambda: class_regions({"a": soft_triple(2, 3)}, X, Y), "losses\\['a'\\]: expected a loss with proxies"),
        (lambda: class_regions({"a": soft_triple(2)}, np.ones((40, 3)), Y), "embeddings: expected two columns"),
        (lambda: class_regions({"a": soft_triple(2)}, X, Y + 3), "labels: expected classes"),
        (lambda: distinct_centers(X), "centers: expected"),
        (lambda: distinct_centers(np.ones((1, 2, 2)), 0.0), "threshold: expected"),
        (lambda: center_merging([0, 1], np.ones((1, 2, 2, 2))), "taus: expected"),
        (lambda: center_merging([-1], np.ones((1, 2, 2, 2))), "taus: expected"),
        (lambda: center_merging([0], np.ones((1, 2, 1, 2))), "centers: expected at least two"),
        (lambda: center_choice([[0.1]]), "similarities: expected"),
        (lambda: center_choice([0.1], gammas=[0.0]), "gammas: expected"),
        (lambda: center_choice([0.1], at=-1.0), "at: expected"),
    ],
)
def test_bad_input_is_refused(call: Any, message: str) -> None:
    with pytest.raises(LabError, match=message):
        call()
