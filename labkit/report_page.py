"""The shell of a report: figures and data blocks inside one HTML file, plotly.js and labkit's own script with them."""

from __future__ import annotations

import base64
import importlib.resources
import json
from html import escape
from typing import Any

import numpy as np
import plotly.offline

from labkit.plots.reading import RecordingLike
from labkit.plots.thumbnails import grey_images, sprite_sheet

SHEET_COLUMNS = 64


class Page:
    """Collects the data blocks that the page's script reads."""

    def __init__(self) -> None:
        self.blocks: dict[str, str] = {}
        self.sheets: list[dict[str, Any]] = []
        self._sheet_sources: list[Any] = []

    def block(self, name: str, text: str) -> None:
        # "<" cannot end the script element from inside a JSON string once it is written as an escape.
        self.blocks[name] = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

    def figure(self, fig: Any, *, sheet: int | None = None, picture: int = 0) -> str:
        """A figure, drawn when it comes into view: title and width become the page's, or `picture` pixels at most."""
        name = f"figure-{len(self.blocks)}"
        meta = bare(fig)
        self.block(name, fig.to_json())
        pictures = "" if sheet is None else f' data-sheet="{sheet}"'
        caption = f"<b>{escape(meta['title'])}</b><span>{escape(meta['subtitle'])}</span>"
        style = f"height:{fig.layout.height}px" + (
            f";max-width:{picture}px;min-width:{0.85 * picture:.0f}px" if picture else ""
        )
        return (
            f'<figure><figcaption>{caption}</figcaption><div class="scroll"><div class="plot" role="img" '
            f'aria-label="{escape(meta["title"])}" '
            f'style="{style}" data-figure="{name}"{pictures}></div></div></figure>'
        )

    def sheet(self, recording: RecordingLike) -> int | None:
        """Index of the sheet with this recording's thumbnails; recordings of the same pictures share one."""
        if recording.thumbnails is None:
            return None
        images = grey_images("recording.thumbnails", recording.thumbnails, recording.embeddings.shape[1])
        for index, known in enumerate(self._sheet_sources):
            if known.shape == images.shape and np.array_equal(known, images):
                return index
        self._sheet_sources.append(images)
        png = base64.b64encode(sprite_sheet(images, SHEET_COLUMNS)).decode()
        height, width = images.shape[1:]
        self.sheets.append(
            {"png": f"data:image/png;base64,{png}", "width": width, "height": height, "columns": SHEET_COLUMNS}
        )
        return len(self.sheets) - 1

    def finish(self, title: str, body: str) -> str:
        """The whole page around `body`."""
        assets = importlib.resources.files("labkit") / "assets"
        self.block("sheets", json.dumps(self.sheets))
        blocks = "".join(
            f'<script type="application/json" id="{name}">{text}</script>' for name, text in self.blocks.items()
        )
        script = plotly.offline.get_plotlyjs()
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
            f"<style>{(assets / 'report.css').read_text('utf-8')}</style></head><body>{body}"
            "<noscript><p>The pictures need JavaScript; texts and tables do without.</p></noscript>"
            f"{blocks}<script>{script}</script>"
            f"<script>{(assets / 'report.js').read_text('utf-8')}</script></body></html>"
        )


def bare(fig: Any) -> dict[str, Any]:
    """Take title, margin for it and fixed width off a figure of labkit; returns the `meta` that held the texts."""
    meta: dict[str, Any] = dict(fig.layout.meta)
    top = meta["above"] + 12
    fig.update_layout(
        title=None, width=None, autosize=True, height=fig.layout.height - fig.layout.margin.t + top, margin_t=top
    )
    return meta
