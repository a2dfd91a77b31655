"""Colours, marks and the one theme that all figures of labkit share.

Ten class colours: seven of Okabe and Ito's eight (their yellow is too faint on white) and three more, chosen so that
any two of the ten stay apart for readers with protanopia, deuteranopia or tritanopia (a test computes that). Colour
never stands alone: a class is also named by its number at its centre, a run by its dash, a kind of point by its shape.
"""

from __future__ import annotations

import html
import re
import textwrap
from typing import Any

import plotly.graph_objects as go

CLASS_COLORS = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # bluish green
    "#D55E00",  # vermillion
    "#56B4E9",  # sky blue
    "#CC79A7",  # reddish purple
    "#AFD07D",  # pale olive
    "#222222",  # black
    "#8716F4",  # violet
    "#682C00",  # dark brown
)
RUN_COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#222222")
RUN_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SAMPLE_SYMBOL = "y-down-open"  # three arms, as in the CCP paper's figure
PROXY_SYMBOL = "square"
NEXT_PROXY_SYMBOL = "circle"
INK, FAINT, GRID, PAPER = "#222222", "#8A8A8A", "#E6E6E6", "#FFFFFF"
FONT = "Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
BOLD = 10.4  # pixels of a character of a title full of numbers, in the widest of the fonts
MONO = "'DejaVu Sans Mono', Menlo, Consolas, 'Segoe UI Symbol', 'DejaVu Sans', monospace"


def class_color(index: int) -> str:
    """Colour of the `index`-th class; classes beyond the tenth begin again at the first colour."""
    return CLASS_COLORS[index % len(CLASS_COLORS)]


def run_line(index: int) -> dict[str, Any]:
    """Line style of the `index`-th run: its own colour and its own dash; from the seventh on, another pair of the two."""
    dash = RUN_DASHES[(index + index // len(RUN_COLORS)) % len(RUN_DASHES)]
    return {"color": RUN_COLORS[index % len(RUN_COLORS)], "dash": dash, "width": 2}


def translucent(color: str, alpha: float) -> str:
    """`color` (#RRGGBB) with opacity `alpha` in [0, 1], as CSS rgba."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def _template() -> go.layout.Template:
    axis = {
        "showgrid": True,
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": FAINT,
        "ticks": "outside",
        "tickcolor": FAINT,
        "title": {"standoff": 8},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": INK},
            "title": {"x": 0.0, "xref": "container", "xanchor": "left", "font": {"size": 16}},
            "paper_bgcolor": PAPER,
            "plot_bgcolor": PAPER,
            "colorway": list(RUN_COLORS),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"itemsizing": "constant", "bgcolor": "rgba(255,255,255,0.7)"},
            "hoverlabel": {"bgcolor": "white", "font": {"family": MONO, "size": 12, "color": INK}, "align": "left"},
            "margin": {"l": 60, "r": 20, "t": 70, "b": 55},
            "modebar": {"orientation": "v", "bgcolor": "rgba(255,255,255,0)"},  # at the side it covers no title
        }
    )


THEME = _template()


def legible(text: str) -> str:
    """A user's text as every file can hold it: half a character (a lone surrogate) becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(text: str) -> str:
    """A user's text without power over markup: plotly reads a few HTML tags in its texts."""
    return html.escape(legible(text), quote=False)


def present(fig: Any, title: str, subtitle: str = "", *, width: int, height: int, above: int = 10) -> None:
    """Give a figure the theme, its size and its title: the finding in bold and, below it, smaller, how to read the
    picture.

    Both texts are plain (what a user named a run cannot act as markup) and are broken to fit `width`; the margin over
    the picture grows with their lines, plus `above` pixels for what stands between title and picture. `layout.meta`
    keeps both texts, so that a page can print them as its own.
    """
    title, subtitle = legible(title), legible(subtitle)
    bold, small = _lines(title, width / BOLD), _lines(subtitle, width / 6.4)
    text = "<br>".join(f"<b>{line}</b>" for line in bold)
    text += "".join(f"<br><span style='font-size:12px;color:#555'>{line}</span>" for line in small)
    top = 32 + 21 * len(bold) + 17 * len(small) + above
    fig.update_layout(
        template=THEME,
        title={"text": text, "y": 1 - 22 / (height + top), "yref": "container", "yanchor": "top", "pad": {"l": 14}},
        width=width,
        height=height + top,
        margin={"t": top},
        meta={"title": title, "subtitle": subtitle, "above": above},
    )


def _lines(text: str, characters: float) -> list[str]:
    whole = re.sub(r" ([=≤≥<>]) ", "\xa0\\1\xa0", text)  # a line does not end within "K = 8"
    return [plain(line.replace("\xa0", " ")) for line in textwrap.wrap(whole, max(20, int(characters)))]
