"""Neighbours and misread samples against plain loops; pictures that can be read back; right and wrong told twice."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.plots.explorer_traces import TRACES, blank_traces, neighbour_updates, number_notes, sample_updates
from labkit.plots.neighbourhood import framed, misread, nearest_to, neighbour_gallery, picture_tag, selection_gallery
from labkit.plots.thumbnails import any_images, picture_png


def cloud(n=30, size=3):
    random = np.random.default_rng(0)
    return random.normal(size=(n, size)), random.integers(0, 3, n)


def test_neighbours_are_the_nearest_in_order_without_the_sample_itself():
    x, _ = cloud()
    found, distances = nearest_to(x, 4, 6)
    by_hand = sorted((float(np.linalg.norm(x[i] - x[4])), i) for i in range(30) if i != 4)[:6]
    assert found.tolist() == [i for _, i in by_hand] and distances == pytest.approx([d for d, _ in by_hand])
    assert len(nearest_to(x, 4, 99)[0]) == 29


def test_a_duplicate_is_a_neighbour():
    x = np.array([[0.0, 0], [0, 0], [5, 5]])
    assert nearest_to(x, 1, 1)[0].tolist() == [0]


@pytest.mark.parametrize("n", [30, 1100])
def test_misread_samples_have_a_nearest_neighbour_of_another_class(n):
    x, y = cloud(n, 2)
    by_hand = []
    for i in range(n):
        distance = np.linalg.norm(x - x[i], axis=1)
        distance[i] = np.inf
        by_hand.append(y[distance.argmin()] != y[i])
    assert misread(x, y).tolist() == by_hand and 0 < sum(by_hand) < n
    asked = np.arange(0, n, 3)
    assert misread(x, y, asked).tolist() == by_hand[::3]
    assert misread(x, y, asked[:0]).tolist() == []


def decoded(png):
    """Pixels of an 8-bit PNG without line filters."""
    width, height, bits, kind = struct.unpack(">IIBB", png[16:26])
    body = zlib.decompress(b"".join(part for part in re.findall(rb"IDAT(.*?)....IEND", png, re.DOTALL)))
    assert bits == 8
    lines = np.frombuffer(body, dtype=np.uint8).reshape(height, -1)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:].reshape((height, width) if kind == 0 else (height, width, 3))


@pytest.mark.parametrize("shape", [(5, 7), (4, 6, 3)])
def test_a_picture_can_be_read_back(shape):
    image = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    assert np.array_equal(decoded(picture_png(image)), image)


def test_pictures_come_in_four_shapes():
    grey, colour = np.zeros((2, 4, 5), np.uint8), np.zeros((2, 4, 5, 3), np.uint8)
    assert any_images("images", grey, 2).shape == any_images("images", grey[:, None], 2).shape == (2, 4, 5)
    assert (
        any_images("images", colour, 2).shape
        == any_images("images", np.moveaxis(colour, 3, 1), 2).shape
        == (2, 4, 5, 3)
    )
    for wrong in (grey.astype(float), grey[:1], np.zeros((2, 4, 5, 2), np.uint8)):
        with pytest.raises(LabError, match="images"):
            any_images("images", wrong, 2)


def test_right_and_wrong_are_told_by_frame_and_mark_and_to_a_screen_reader():
    right, wrong, neither = (framed(np.zeros((2, 2), np.uint8), "seven", told) for told in (True, False, None))
    assert "3px solid" in right and "✓" in right and 'alt="right, seven"' in right
    assert "3px dashed" in wrong and "✗" in wrong and 'alt="wrong, seven"' in wrong
    assert "✓" not in neither and "✗" not in neither


def test_a_user_s_words_have_no_power():
    assert "<b>" not in picture_tag(None, "<b>")
    gallery = neighbour_gallery(0, np.array([1]), np.array([0.5]), np.array([0, 1]), ["<i>", "ok"], None)
    assert "<i>" not in gallery and "&lt;i&gt;" in gallery


def test_a_long_name_can_be_broken_and_what_was_asked_for_is_named():
    names = ["Black_footed_Albatross", "ok"]
    gallery = neighbour_gallery(0, np.array([1]), np.array([0.5]), np.array([0, 1]), names, None, asked="a_b/<1>.png")
    assert "class Black_<wbr>footed_<wbr>Albatross" in gallery and "overflow-wrap:anywhere" in gallery
    assert "<b>Asked for: a_b/&lt;1&gt;.png, class Black_footed_Albatross</b>" in gallery and "Sample 0" not in gallery
    assert "<b>Sample 0, class ok</b>" in neighbour_gallery(0, np.array([0]), np.array([0.5]), np.array([1]), names, None)


def test_galleries_count_what_they_show():
    x, y = cloud()
    found, distances = nearest_to(x, 4, 6)
    gallery = neighbour_gallery(4, found, distances, y, ["a", "b", "c"], None)
    right = int((y[found] == y[4]).sum())
    assert gallery.count("✓") == right and gallery.count("✗") == 6 - right and f"{right} of its 6" in gallery
    wrong = misread(x, y)
    chosen = selection_gallery(np.arange(30), y, ["a", "b", "c"], None, wrong, most=8)
    assert "30 selected" in chosen and f"{wrong.sum()} misread" in chosen and "and 22 more" in chosen
    assert chosen.count("✗") == wrong[:8].sum()
    assert "0 selected" in selection_gallery(np.arange(0), y, ["a", "b", "c"], None, wrong[:0])


def test_traces_of_a_view():
    x, y = cloud(30, 2)
    wrong = misread(x, y)
    updates = sample_updates(x, y, np.arange(30), ["a", "b", "c"], wrong, errors=True)
    assert len(updates["samples"]["x"]) == 30 and len(updates["misread"]["x"]) == wrong.sum()
    notes = number_notes(x, y, np.array([0, 2, 5]), ["a", "b", "c", "", "", "none of these"])
    assert [note["text"] for note in notes] == ["<b>a</b>", "<b>c</b>"] and number_notes(
        x, y, np.zeros(0, int), []
    ) == []
    dimmed = sample_updates(x, y, np.arange(30), ["a", "b", "c"], wrong, highlight=1, errors=True)
    assert (dimmed["samples"]["marker"]["opacity"][y == 1] > 0.8).all()
    assert (dimmed["samples"]["marker"]["opacity"][y != 1] < 0.2).all()
    assert len(dimmed["misread"]["x"]) == (wrong & (y == 1)).sum()
    nothing = sample_updates(x[:0], y[:0], np.arange(0), ["a", "b", "c"], wrong[:0])
    assert all(len(update["x"]) == 0 for update in nothing.values())


def test_traces_of_neighbours():
    at = neighbour_updates(np.zeros(2), np.ones((3, 2)), np.array([True, False, True]))
    assert [len(at[name]["x"]) for name in ("right", "wrong", "anchor", "links")] == [2, 1, 1, 9]
    assert all(len(update["x"]) == 0 for update in neighbour_updates(None, np.ones((3, 2)), np.ones(3, bool)).values())
    assert len(blank_traces()) == len(TRACES)
