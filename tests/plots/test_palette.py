"""The colours must be told apart by readers who see fewer of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import pytest

from labkit.plots.palette import CLASS_COLORS, RUN_COLORS, class_color, present, run_line, translucent

# Machado, Oliveira and Fernandes (2009), severity 1, in linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color: str, sight: str) -> np.ndarray:
    """CIE L*a*b* of a #RRGGBB colour as that eye sees it."""
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(SIGHT[sight]) @ linear, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("colors", [CLASS_COLORS, RUN_COLORS[:4]], ids=["classes", "runs"])
def test_any_two_colors_stay_apart(colors: tuple[str, ...], sight: str) -> None:
    nearest = min(np.linalg.norm(lab(a, sight) - lab(b, sight)) for a, b in combinations(colors, 2))
    assert nearest > 15  # 2.3 is a just noticeable difference


def test_every_color_stands_out_from_white() -> None:
    assert max(lab(color, "normal")[0] for color in CLASS_COLORS) < 80


def test_colors_begin_again_after_the_tenth() -> None:
    assert [class_color(i) for i in range(12)] == [*CLASS_COLORS, *CLASS_COLORS[:2]]


def test_two_runs_differ_by_dash_as_well_as_by_color() -> None:
    first, second = run_line(0), run_line(1)
    assert first["color"] != second["color"]
    assert first["dash"] != second["dash"]
    assert len({(run_line(i)["color"], run_line(i)["dash"]) for i in range(36)}) == 36


def test_translucent_keeps_the_color() -> None:
    assert translucent("#D55E00", 0.25) == "rgba(213,94,0,0.25)"


def test_a_title_full_of_numbers_is_broken_before_the_edge() -> None:
    fig = go.Figure()
    present(fig, "0.355 → 0.399, " * 20, width=600, height=300)
    lines = fig.layout.title.text.replace("<b>", "").replace("</b>", "").split("<br>")
    assert len(lines) > 3 and max(map(len, lines)) * 10.2 < 600 - 14  # bold digits are 11 pixels wide, blanks and points 6


def test_a_title_is_not_broken_within_an_equation() -> None:
    fig = go.Figure()
    for width in range(300, 700, 20):
        present(fig, "MAP@R from 0.021 at λ = 100, K = 8 to 0.905 at λ ≤ 0.0002, K > 8", width=width, height=300)
        lines = fig.layout.title.text.replace("<b>", "").replace("</b>", "").split("<br>")
        assert not any(line.startswith(("=", "≤", "&gt;")) or line.endswith(("=", "≤", "&gt;")) for line in lines)
        assert not any(line.endswith((" K", " λ")) for line in lines) and "\xa0" not in "".join(lines)


def test_a_title_is_text_and_grows_the_margin_with_its_lines() -> None:
    short, long = go.Figure(), go.Figure()
    present(short, "a <b> & c", width=400, height=300)
    present(long, "many words " * 20, "and more " * 20, width=400, height=300)
    assert "a &lt;b&gt; &amp; c" in short.layout.title.text
    assert long.layout.margin.t > short.layout.margin.t + 80
    assert long.layout.height - long.layout.margin.t == short.layout.height - short.layout.margin.t == 300
