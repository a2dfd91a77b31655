"""JupyterLab in a browser: notebooks that are opened, run, clicked, and asked for their state.

    def test_a_panel(open_notebook):
        book = open_notebook("from labkit.panels import KCenterStepper", "panel = KCenterStepper(...)", "panel")
        book.run()                                       # all cells; fails on an exception in one
        book.click("Next")                               # a button of a panel, by what it says
        assert book.value("panel.step") == 1             # Python in the same kernel, beside the cells
        assert len(book.drawn()[0]["data"][0]["x"]) == 12  # what plotly has drawn, trace by trace
        assert book.complaints == []                     # errors in the browser's console
        book.screenshot("stepper")                       # tests/browser/screenshots/stepper.png, which git ignores

One JupyterLab serves the whole test session (fixture `jupyter_lab`): on loopback, on a free port, with a token of its
own, its configuration and data in a temporary folder. Each notebook has its own page and its own kernel.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).parent
SCREENSHOTS = HERE / "screenshots"
PATIENCE = 120.0  # seconds that a page and a kernel may take for anything: other work may keep the machine busy
ROOT = HERE.parents[1]
# Said by anywidget when a page is so busy that a widget's module takes more than two seconds; ours hear all the same.
GIVEN_UP = "[anywidget] Failed to initialize model"
# Said by JupyterLab or Chromium whatever the notebook does.
HARMLESS = (
    GIVEN_UP,
    "favicon.ico",
    "/lsp/status",
    "GPU stall due to ReadPixels",
    "ResizeObserver loop",
    "Canvas2D: Multiple readback",
)
SETTINGS = {
    # A cell out of sight is drawn all the same, no news are fetched, nothing is saved unasked.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}


class JupyterLab:
    """A server in a folder of its own; `stop` ends it and every kernel."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "notebooks"
        self.root.mkdir(parents=True)
        self.token = secrets.token_hex(16)
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        places = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
        }  # fmt: skip
        self.runtime = folder / "runtime"
        environment = {**os.environ, **{name: str(folder / place) for name, place in places.items()}}
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment |= {"PYTHONPATH": path.rstrip(os.pathsep), "JUPYTER_NO_CONFIG": "1", "JUPYTER_PREFER_ENV_PATH": "1"}
        for plugin, settings in SETTINGS.items():
            package, _, name = plugin.partition(":")
            file = folder / "settings" / package / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings), encoding="utf-8")
        options = [
            "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.root}", f"--IdentityProvider.token={self.token}",
            "--LabApp.expose_app_in_browser=True", "--LabApp.extensions_in_dev_mode=False",
        ]  # fmt: skip
        self.log = folder / "jupyter.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *options], stdout=log, stderr=log, env=environment, cwd=folder
            )
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended at once:\n{self.log.read_text()[-2000:]}")
            try:
                self.ask("/api/status")
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"JupyterLab did not answer within {PATIENCE:.0f} s:\n{self.log.read_text()[-2000:]}")

    def ask(self, path: str, method: str = "GET") -> Any:
        """The server's own interface, as JSON."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def stop(self) -> None:
        """End the server, which ends its kernels."""
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=10)

    def place(self, *cells: str, notebook: Path | None = None, name: str = "test") -> str:
        """Put a notebook of these code cells, or a copy of `notebook`, under the server's root; gives its path there."""
        file = f"{name}-{secrets.token_hex(4)}.ipynb"
        if notebook is not None:
            shutil.copy(notebook, self.root / file)
            return file
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(book, self.root / file)
        return file


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
