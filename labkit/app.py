"""How a notebook is opened: in JupyterLab, or by Voilà as a page without code, where every visitor has a kernel."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from labkit.errors import LabError
from labkit.validation import check_number

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HIDDEN = "code-only"  # tag of cells that say nothing without their code
PORT = 8866
IDLE = 1800  # seconds after which a kernel whose page is gone is ended, should the page not have said so


def lab_command(notebook: Path, *, host: str = "127.0.0.1", port: int | None = None, browser: bool = True) -> list[str]:
    """The command that opens JupyterLab on a notebook.

    Parameters
    ----------
    notebook : the .ipynb file. host : the address to listen at. port : 1 … 65535; None leaves the choice to Jupyter.
    browser : whether to open it here.

    Raises
    ------
    LabError : no such port.
    """
    if port is not None:
        check_number("--port", port, low=1, high=65535, whole=True)
    # A default URL, rather than the file itself: so the address that is printed leads to the notebook as well.
    where = [f"--ServerApp.root_dir={notebook.parent}", f"--LabApp.default_url=/lab/tree/{notebook.name}"]
    asked = [] if browser else ["--no-browser"]
    asked += [] if port is None else [f"--port={port}"]
    asked += [] if host in LOOPBACK else [f"--ServerApp.ip={host}"]
    return [sys.executable, "-m", "jupyterlab", *where, *asked]


def app_command(
    notebook: Path, *, host: str = "127.0.0.1", port: int | None = None, browser: bool = True
) -> list[str]:
    """The command that serves a notebook as a page.

    Parameters
    ----------
    notebook : the .ipynb file; cells tagged "code-only" and "exercise" are left out.
    host : the address to listen at; "0.0.0.0" lets other machines in. port : 1 … 65535; by default 8866.
    browser : whether to open the page here.

    Raises
    ------
    LabError : Voilà is not installed, or no such port.
    """
    if importlib.util.find_spec("voila") is None:
        raise LabError("--app", "the package voila, which serves the page", "none installed", 'pip install "labkit[app]"')
    port = PORT if port is None else port
    check_number("--port", port, low=1, high=65535, whole=True)
    hidden = [f"--TagRemovePreprocessor.remove_cell_tags={tag}" for tag in (HIDDEN, "exercise")]
    return [
        sys.executable, "-m", "voila", str(notebook), f"--Voila.ip={host}", f"--port={port}",
        "--show-margins", "--TagRemovePreprocessor.enabled=True", *hidden,
        f"--MappingKernelManager.cull_idle_timeout={IDLE}", "--MappingKernelManager.cull_interval=60",
        *([] if browser else ["--no-browser"]),
    ]  # fmt: skip


def open_to_others(host: str) -> str:
    """What to tell whoever serves the page to other machines; empty where it stays on this one."""
    if host in LOOPBACK:
        return ""
    return (
        f"The page is open to everybody who can reach this machine at {host}: each visitor starts a kernel here, trains on your "
        "cores, and can save recordings where you can. End it with Ctrl-C."
    )
