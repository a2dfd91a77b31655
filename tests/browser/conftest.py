"""One browser and one JupyterLab for all tests here; `open_notebook` opens a notebook and closes it after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.lab import JupyterLab
from tests.browser.notebook import Notebook


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium for the whole session."""
    with chromium.browser() as started:
        yield started


@pytest.fixture(scope="session")
def jupyter_lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """A JupyterLab of its own; asks for the browser first, so that nothing is started where there is none."""
    lab = JupyterLab(tmp_path_factory.mktemp("jupyter"))
    yield lab
    lab.stop()


@pytest.fixture(scope="session")
def context(browser: Any) -> Iterator[Any]:
    """One profile for all notebooks, so that JupyterLab's scripts are loaded once."""
    made = browser.new_context()
    yield made
    made.close()


@pytest.fixture
def open_notebook(context: Any, jupyter_lab: JupyterLab) -> Iterator[Callable[..., Notebook]]:
    """`open_notebook("a cell", "another", …)` or `open_notebook(notebook=path)`, also `viewport=(width, height)`."""
    opened: list[Notebook] = []

    def opens(*cells: str, notebook: Path | None = None, viewport: tuple[int, int] = (1280, 1000)) -> Notebook:
        opened.append(Notebook(jupyter_lab, context, jupyter_lab.place(*cells, notebook=notebook), viewport))
        return opened[-1]

    yield opens
    for notebook in opened:
        notebook.close()
