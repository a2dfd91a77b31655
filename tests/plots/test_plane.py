"""The plane in which embeddings are drawn."""

from __future__ import annotations

import numpy as np

from labkit.plots.plane import Plane


def test_two_dimensions_stay_as_they_are() -> None:
    x = np.random.default_rng(0).normal(size=(7, 2))
    plane = Plane.of(x)
    assert np.array_equal(plane(x), x)
    assert (plane.projected, plane.note) == (False, "")


def test_one_dimension_lies_on_a_line() -> None:
    x = np.array([[0.5], [-1.0]])
    assert np.array_equal(Plane.of(x)(x), [[0.5, 0.0], [-1.0, 0.0]])


def test_more_dimensions_are_projected_on_principal_components() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 6)) * [0.1, 3, 0.2, 2, 0.1, 0.3] + 5
    plane = Plane.of(x)
    _, singular, directions = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    expected = (x - x.mean(axis=0)) @ directions[:2].T
    assert np.allclose(np.abs(plane(x)), np.abs(expected))
    assert np.isclose(plane.explained, (singular[:2] ** 2).sum() / (singular**2).sum())
    assert "6-D" in plane.note and f"{plane.explained:.0%}" in plane.note


def test_the_sign_of_the_axes_does_not_depend_on_the_solver() -> None:
    x = np.random.default_rng(2).normal(size=(50, 4)) * [1, 2, 3, 4]
    axes = Plane.of(x).axes
    assert (axes[np.abs(axes).argmax(axis=0), [0, 1]] > 0).all()


def test_points_that_all_coincide_give_a_picture() -> None:
    plane = Plane.of(np.ones((5, 3)))
    assert np.allclose(plane(np.ones((5, 3))), 0)
    assert plane.explained == 1.0
