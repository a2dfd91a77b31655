"""Taking a run out of the playground: as a recording, as a page, as JSON, as code."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets
import traitlets

from labkit.errors import LabError
from labkit.files import write_atomically
from labkit.panels.common import button, row
from labkit.panels.listening import Listening, listening_module
from labkit.panels.playground_losses import maker_of
from labkit.plots import animation
from labkit.training.as_code import as_code
from labkit.training.experiment import Experiment
from labkit.training.session import LiveSession
from labkit.validation import check_path

MOST_DRAWN = 1500  # samples in an exported page: three hundred snapshots of them are ten megabytes
_COPY = """
function render({ model, el }) {
  const button = document.createElement("button");
  button.className = "lm-Widget jupyter-widgets jupyter-button widget-button";
  button.style.width = "auto";
  button.textContent = model.get("label");
  button.title = model.get("hint");
  button.addEventListener("click", () => model.send({ asks: "text" }));
  const copy = async (message) => {
    if (message.text === undefined) return;
    try { await navigator.clipboard.writeText(message.text); model.send({ copied: true }); }
    catch (error) { model.send({ copied: false }); }
  };
  model.on("msg:custom", copy);
  el.appendChild(button);
  return () => model.off("msg:custom", copy);
}
"""


class CopyButton(Listening):
    """A button that puts what `text()` gives into the clipboard; `done(whether)` hears if the page allowed that."""

    _esm = listening_module("() => ({ render })", _COPY)
    label = traitlets.Unicode().tag(sync=True)
    hint = traitlets.Unicode().tag(sync=True)

    def __init__(self, label: str, text: Callable[[], str], done: Callable[[bool], None], hint: str = "") -> None:
        super().__init__(label=label, hint=hint)
        self._text, self._done = text, done
        self.on_msg(self._hear)

    def _hear(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if "asks" in message:
            self.send({"text": self._text()})
        elif "copied" in message:
            self._done(bool(message["copied"]))


class Sharing:
    """The fold "Save, share, code" of a playground.

    Parameters
    ----------
    session : whose run it is.
    begin : begins again with an experiment and the name of a loss of the user's own.
    complain : shows an exception, or None for none.
    """

    def __init__(
        self,
        session: LiveSession,
        begin: Callable[[Experiment, str], None],
        complain: Callable[[Exception | None], None],
    ) -> None:
        self._session, self._begin, self._complain = session, begin, complain
        self.name = ipywidgets.Text(
            value="playground", description="File", layout={"width": "260px"}, style={"description_width": "40px"}
        )
        self.text = ipywidgets.Textarea(
            placeholder="Code and state appear here; a state can be pasted here and loaded.",
            layout={"width": "100%", "height": "150px"},
        )
        self.said = ipywidgets.HTML()
        copy = CopyButton("Copy as code", self._show_code, self._copied, "Python that repeats this run, changes by hand included")
        inside = ipywidgets.VBox([
            row(
                self.name,
                button("Save recording", lambda: self._do(self._save), tooltip="An .npz file that Recording.load reads"),
                button("Export page", lambda: self._do(self._export), tooltip="An HTML file that plays the run without a kernel"),
                copy,
                button("State as JSON", lambda: self._do(self._show_state), tooltip="Settings and changes, to be loaded again"),
                button("Load state", lambda: self._do(self._load), tooltip="Begin again with the settings in the text field"),
                self.said,
            ),
            self.text,
        ])  # fmt: skip
        self.box = ipywidgets.Accordion(children=[inside], titles=("Save, share, code",), selected_index=None)

    # ------------------------------------------------------------ what it gives

    def code(self) -> str:
        """Python that makes this run's recording again.

        A loss or pictures that the playground was given as objects stand as `loss=...` or `splits=...`, to be filled in.
        """
        snapshot = self._session.snapshot
        maker = maker_of(snapshot)
        return as_code(
            snapshot.experiment, snapshot.events, snapshot.step, maker.loss_as_code(), to_fill_in=maker.to_fill_in()
        )

    def state(self) -> str:
        """JSON: what the run began with, what was changed since, the settings as they stand, and the step."""
        snapshot = self._session.snapshot
        parts = {
            "experiment": snapshot.experiment.to_dict(),
            "events": [dict(event) for event in snapshot.events],
            "settings": snapshot.settings.to_dict(),
            "loss": maker_of(snapshot).own_loss,
            "step": snapshot.step,
        }
        return json.dumps(parts, indent=2, ensure_ascii=False)

    def load(self, text: str) -> None:
        """Begin again with the settings of a state, or of an experiment's JSON.

        Raises
        ------
        LabError : neither of them, or settings that are refused.
        """
        try:
            parts = json.loads(text)
        except ValueError as error:
            raise LabError("state", "JSON, as State as JSON gives it", str(error)) from error
        if not isinstance(parts, dict):
            raise LabError("state", "a JSON object", type(parts).__name__)
        own_loss = str(parts.get("loss") or "") if "settings" in parts else ""
        self._begin(Experiment.from_dict(parts.get("settings", parts)), own_loss)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the run so far as a recording (.npz); errors as `Recording.save`."""
        return self._session.recording().save(path)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the run so far as an HTML page that plays by itself, plotly.js included.

        Raises
        ------
        LabError : the disk is full or read-only.
        """
        page = animation(self._session.recording(), sample=MOST_DRAWN).to_html(include_plotlyjs=True, full_html=True)
        return write_atomically(path, lambda file: file.write(page.encode()))

    # ------------------------------------------------------------ buttons

    def _do(self, what: Callable[[], str]) -> None:
        self._complain(None)
        self.said.value = ""
        try:
            self._say(what())
        except LabError as error:
            self._complain(error)

    def _say(self, text: str) -> None:
        self.said.value = f'<span role="status">{html.escape(text)}</span>'

    def _path(self, ending: str) -> Path:
        name = self.name.value.strip()
        if Path(name).name.strip(".") == "":  # nothing, "." or ".."
            raise LabError("file", "a name", repr(name) if name else "nothing")
        return check_path("file", name if name.lower().endswith(ending) else name + ending)  # "lr0.01" has no ending

    def _save(self) -> str:
        path = self.save(self._path(".npz"))
        return f"Saved {path}, {path.stat().st_size / 1e6:.1f} MB."

    def _export(self) -> str:
        path = self.export(self._path(".html"))
        return f"Written {path}, {path.stat().st_size / 1e6:.1f} MB."

    def _show_code(self) -> str:
        code = self.code()
        self.text.value = code
        return code

    def _copied(self, allowed: bool) -> None:
        self._say("Copied." if allowed else "The page may not use the clipboard: copy it from the field.")

    def _show_state(self) -> str:
        self.text.value = self.state()
        return ""

    def _load(self) -> str:
        self.load(self.text.value)
        return "Loaded."
