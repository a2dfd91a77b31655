"""Execute the notebooks in place and store their figures as PNG with alt text: `python notebooks/publish.py [NAME …]`.

`python notebooks/publish.py pictures` draws README's pictures from the recordings instead. A reader without a kernel then
sees pictures, and no notebook carries plotly's JSON. Needs the extra `images` and a Chromium (or Chrome) that Kaleido
finds; nothing in the tests does.
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import plotly.graph_objects as go
import plotly.io
from nbclient import NotebookClient

from labkit.plots.palette import CLASS_COLORS, GRID, PAPER, RUN_COLORS

HERE = Path(__file__).parent
FIGURE = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"


def publish(path: Path) -> None:
    """Run one notebook from its own folder and write it back with pictures."""
    started = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell.outputs = [placeless(still(o)) for o in cell.get("outputs", []) if keeps(o)] if cell.cell_type == "code" else []
        if cell.cell_type != "code":
            del cell["outputs"]
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)
    print(f"{path.relative_to(HERE)}: {time.monotonic() - started:.0f} s, {path.stat().st_size / 1e3:.0f} kB")


def keeps(output: Any) -> bool:
    """Progress bars and widgets mean nothing without a kernel."""
    return output.get("name") != "stderr" and WIDGET not in output.get("data", {})


def still(output: Any) -> Any:
    """The output with a plotly figure replaced by its picture, whose alt text is the figure's title."""
    data = output.get("data", {})
    if FIGURE not in data:
        return output
    figure = go.Figure({k: data[FIGURE][k] for k in ("data", "layout")}, skip_invalid=True)
    title = html.unescape(re.sub(r"<[^>]+>", " ", figure.layout.title.text or "figure"))
    alt = re.sub(r"\s+", " ", title).strip()
    picture = base64.b64encode(fewer_colors(plotly.io.to_image(figure, format="png", scale=1))).decode()
    output["data"] = {"image/png": picture, "text/plain": alt}
    output["metadata"] = {"image/png": {"alt": alt}}
    return output


def placeless(output: Any) -> Any:
    """The output without the name that this machine gave a temporary folder."""
    if "text" in output:
        output["text"] = re.sub(rf"{re.escape(tempfile.gettempdir())}/tmp\w+", "WORKSHOP", output["text"])
    return output


def fewer_colors(png: bytes) -> bytes:
    """The picture with a palette of some 160 colours, those of classes and runs among them, full and as thin lines and tints
    show them: a third of the bytes, and no difference to see."""
    from PIL import Image

    packed = io.BytesIO()
    drawn = Image.open(io.BytesIO(png)).convert("RGB")
    full = np.array([list(bytes.fromhex(color[1:])) for color in (PAPER, GRID, *CLASS_COLORS, *RUN_COLORS)])
    meant = np.vstack([(share * full + (1 - share) * 255).round() for share in (1, 0.75, 0.5)])
    found = np.array(drawn.quantize(112, dither=Image.Dither.NONE).getpalette()).reshape(-1, 3)[:112]
    palette = np.unique(np.vstack([meant, found]), axis=0)
    colors, places = np.unique(np.asarray(drawn).reshape(-1, 3), axis=0, return_inverse=True)
    nearest = np.array([np.square(palette - color.astype(int)).sum(axis=1).argmin() for color in colors], dtype=np.uint8)
    image = Image.fromarray(nearest[places].reshape(drawn.size[::-1]))
    image.putpalette(palette.astype(np.uint8).tobytes())
    image.save(packed, format="PNG", optimize=True)
    return packed.getvalue()


def pictures() -> None:
    """README's pictures, from the recordings that come with labkit."""
    from labkit.plots import problem_gallery, proxy_spread_over_time
    from labkit.training import load_shipped

    ccp, single = load_shipped("mnist-2d-ccp-seed0"), load_shipped("mnist-2d-proxy-seed0")
    (HERE / "pictures").mkdir(exist_ok=True)
    drawn = {"problems": problem_gallery(ccp), "spread": proxy_spread_over_time({"CCP": ccp, "single problem": single})}
    for name, figure in drawn.items():
        plotly.io.write_image(figure, HERE / "pictures" / f"{name}.png", scale=1.25)


def main(names: list[str]) -> None:
    """Publish the named notebooks, or all."""
    if names == ["pictures"]:
        pictures()
        return
    os.environ.setdefault("LABKIT_PROFILE", "quick")
    everything = sorted([*HERE.glob("*.ipynb"), *HERE.glob("solutions/*.ipynb")])
    for path in [p for p in everything if not names or p.stem in names]:
        publish(path)


if __name__ == "__main__":
    main(sys.argv[1:])
