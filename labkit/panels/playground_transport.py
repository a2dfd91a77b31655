"""The playground's menu of presets, its buttons, its status and its slider over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from labkit.panels.common import button, row
from labkit.panels.playground_notice import where_it_stands
from labkit.panels.playground_presets import PRESETS
from labkit.training.live_run import Snapshot


class Transport:
    """Two rows: what moves the run, and what moves the picture through its stored snapshots.

    Parameters
    ----------
    does : what each button does, by its name. scrub : called as `scrub(at)` when somebody moves the slider: the number
        of a stored snapshot, or None for now. balls : called as `balls(whether)`.

    Attributes
    ----------
    buttons : the row of buttons. time : the row with the slider. timeline, balls, status, back : widgets in them.
    """

    def __init__(
        self, does: dict[str, Callable[[], Any]], scrub: Callable[[int | None], None], balls: Callable[[bool], None]
    ) -> None:
        self._scrub, self._moving = scrub, False
        self.status = ipywidgets.HTML()
        self.back = button("Go back", does["go_back"], tooltip="To the last moment known to be good", style="warning")
        self.buttons = row(
            button("Play", does["play"], tooltip="Train until paused", style="primary"),
            button("Pause", does["pause"], tooltip="Rest after this step"),
            button("Step", does["step"], tooltip="One step"),
            button("25 steps", does["steps"], tooltip="To about the next evaluation"),
            button("Next problem", does["next_problem"], tooltip="Start the proxies anew from chosen samples", style="success"),
            button("Reset", does["reset"], tooltip="Back to step 0, with the settings as they stand"),
            button("Stop", does["stop"], tooltip="Pause, and give the computer's cores back; Play goes on"),
            self.back,
            self.status,
        )
        self.timeline = ipywidgets.IntSlider(
            min=0, max=1, value=1, description="Snapshot", layout={"width": "520px"}, style={"description_width": "70px"}
        )
        self.timeline.observe(self._moved, names="value")
        self.balls = ipywidgets.Checkbox(
            value=False, description="Covering balls (95 %)", indent=False, layout={"width": "auto"}
        )
        self.balls.observe(lambda change: balls(change["new"]), names="value")
        self.time = row(self.timeline, button("Newest", lambda: scrub(None), tooltip="Follow the run"), self.balls)

    def _moved(self, change: Any) -> None:
        if not self._moving:
            self._scrub(None if change["new"] >= self.timeline.max else change["new"])

    def show(self, snapshot: Snapshot, at: int | None) -> None:
        """The slider reaches from the first stored snapshot to now, which is its right end, and stands where the picture is."""
        last = max(1, len(snapshot.stored))
        self._moving = True
        try:
            # One after the other: in one message the page may set the value first, which its slider would cut off at the
            # old maximum, and tell us so.
            self.timeline.max = last
            self.timeline.value = last if at is None else at
        finally:
            self._moving = False
        self.status.value = where_it_stands(snapshot, at)
        self.back.layout.display = "" if snapshot.can_go_back else "none"


class PresetMenu(ipywidgets.Dropdown):  # type: ignore[misc]
    """The menu of presets; calls `load(name)` when somebody chooses one, and not when `show` sets it."""

    def __init__(self, name: str, load: Callable[[str], Any]) -> None:
        options = [(each.label, known) for known, each in PRESETS.items()]
        super().__init__(
            options=options, value=name, description="Preset", layout={"width": "330px"}, style={"description_width": "52px"}
        )
        self._shown, self._quiet = name, False
        self.observe(lambda change: None if self._quiet else load(change["new"]), names="value")

    def show(self, name: str, *, force: bool = False) -> None:
        """Set it to the preset in use; only where that changed since the last time, unless forced."""
        if force or name != self._shown:
            self._shown, self._quiet = name, True
            try:
                self.value = name
            finally:
                self._quiet = False
