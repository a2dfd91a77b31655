"""A picture of a running training that the page draws by itself on canvases: the embedding map and the run's curves.

The page holds what it has been told: who is in the picture (once a run), the present scene, the course of the figures, and
the scenes of the stored snapshots, which it asks for by and by. So it moves through time without asking anybody. All of
it travels as custom messages with binary parts, none of it as state, which a saved notebook would keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import numpy as np
import traitlets

from labkit.panels.listening import Listening, asset, listening_module
from labkit.panels.live_scene import CURVES, Cast, Course, Scene
from labkit.plots.comparison_traces import NO_SPREAD
from labkit.plots.palette import FAINT, FONT, GRID, INK, MONO, RUN_COLORS, class_color
from labkit.plots.thumbnails import sprite_sheet

CHANGE, BOUNDARY = RUN_COLORS[0], FAINT
SHEET_COLUMNS = 64  # pictures side by side in the sheet that the page cuts them from
CHUNK = 200_000  # bytes of stored scenes in one message, about
MOST_SCENES = 16  # stored scenes in one message: each has to be laid out
HALF = 6e4  # half precision reaches no farther
# One module, in pieces that fit in the head.
_PARTS = ("live_pen.js", "live_map.js", "live_curves.js", "live_legend.js", "live_view.js", "live_figure.js")


class LiveCanvas(Listening):
    """The widget. Without a page it only remembers what it was given last.

    Parameters
    ----------
    timeline : an IntSlider over the stored snapshots, whose right end is now. The page follows it without the kernel.
    stored : gives the scene of a stored snapshot by its number.

    Attributes
    ----------
    balls : whether covering balls are drawn. cast, scene, course : what the page shows, or would show.
    sent : number of the last message that the page answers once it has drawn it. drawn : called with such a number.
    """

    _esm = listening_module("liveFigure", *map(asset, _PARTS))
    _css = asset("live_figure.css")
    timeline = traitlets.Any().tag(sync=True, **ipywidgets.widget_serialization)
    balls = traitlets.Bool(False).tag(sync=True)
    theme = traitlets.Dict().tag(sync=True)

    def __init__(self, timeline: Any, stored: Callable[[int], Scene]) -> None:
        theme = {
            "ink": INK, "faint": FAINT, "grid": GRID, "line": RUN_COLORS[1], "change": CHANGE, "boundary": BOUNDARY,
            "font": FONT, "mono": MONO,
            "curves": [
                {"label": label, "log": log, "range": limits, "lone": NO_SPREAD if key == "proxy_spread" else ""}
                for key, label, log, limits in CURVES
            ],
        }  # fmt: skip
        super().__init__(timeline=timeline, theme=theme)
        self.cast: Cast | None = None
        self.scene: Scene | None = None
        self.course: Course | None = None
        self.sent = 0
        self.drawn: Callable[[int], None] = lambda number: None
        self._stored, self._count, self._life = stored, 0, 0
        self._live: Scene | None = None  # the last scene of the present that was shown
        self._watched = False  # whether a page was ever there: before that, nothing need be sent
        self.on_msg(self._hear)

    # ------------------------------------------------------------ telling the page

    def begin(self, cast: Cast) -> None:
        """A new run: forget the one before."""
        self.cast, self.course, self.scene, self._live, self._count = cast, None, None, None, 0
        self.forget()
        self._tell_cast()

    def forget(self, *snapshots: int) -> None:
        """Stored scenes are no longer what they were: these, or (none named) all of them."""
        if not snapshots:
            self._life += 1
        self._say({"kind": "forget", "life": self._life, "snapshots": snapshots})

    def show(self, scene: Scene, course: Course, count: int, *, live: bool) -> None:
        """Show a scene in one message to the page.

        Parameters
        ----------
        scene, course : what to show. count : how many snapshots are stored. live : False if the scene is a stored
            snapshot's, which the page has already.
        """
        fresh, news, grown = live and scene is not self._live, course is not self.course, count != self._count
        self.scene, self.course, self._count = scene, course, count
        if fresh:
            self._live = scene
        if fresh or news or grown:
            self._tell(scene if fresh else None, course if news else None)

    def _tell(self, scene: Scene | None, course: Course | None) -> None:
        if not self._watched:
            return
        self.sent += 1
        head: dict[str, Any] = {"kind": "show", "number": self.sent, "life": self._life, "count": self._count}
        buffers: list[bytes] = []
        if scene is not None:
            head["scene"] = _packed(scene, np.float32, buffers)
        if course is not None:
            buffers += [course.steps.tobytes(), *(values.tobytes() for values in course.values.values())]
            head["course"] = {"ends": course.ends, "changes": course.changes}
        self._say(head, buffers)

    def _tell_cast(self) -> None:
        cast = self.cast
        if cast is None or not self._watched:
            return
        head = {
            "kind": "begin", "life": self._life, "names": cast.names, "projected": cast.projected,
            "colors": [class_color(index) for index in range(len(cast.names))],
        }  # fmt: skip
        buffers = [cast.labels.astype(np.uint16).tobytes()]
        if cast.pictures is not None:
            head["sheet"] = {"height": cast.pictures.shape[1], "width": cast.pictures.shape[2], "columns": SHEET_COLUMNS}
            buffers.append(sprite_sheet(cast.pictures, SHEET_COLUMNS))
        self._say(head, buffers)

    def _say(self, head: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        if self._watched:
            self.send(head, buffers or [])

    # ------------------------------------------------------------ hearing it

    def _hear(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if message.get("asks") == "all":  # a page has come, or come back
            self._watched = True
            self._tell_cast()
            if self.scene is not None:
                self._tell(self._live or self.scene, self.course)
        elif message.get("asks") == "stored" and message.get("life") == self._life:
            self._tell_stored([int(at) for at in message["snapshots"]])
        elif "drawn" in message:
            self.drawn(int(message["drawn"]))

    def _tell_stored(self, snapshots: list[int]) -> None:
        heads: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        for at in snapshots[:MOST_SCENES]:
            if 0 <= at < self._count and sum(map(len, buffers)) < CHUNK:
                heads.append({"at": at, **_packed(self._stored(at), np.float16, buffers)})
        self._say({"kind": "scenes", "life": self._life, "scenes": heads}, buffers)


def _packed(scene: Scene, kind: Any, buffers: list[bytes]) -> dict[str, Any]:
    """A scene as two more buffers, of the samples in precision `kind` and of the rest, and what a page needs to read them."""
    samples = scene.samples if kind is np.float32 else np.clip(scene.samples, -HALF, HALF)
    rest = (scene.proxies, scene.chosen, scene.numbers, scene.radii)
    buffers += [samples.astype(kind).tobytes(), b"".join(part.tobytes() for part in rest)]
    return {
        "step": scene.step, "title": scene.title, "note": scene.note, "extent": scene.extent, "half": kind is np.float16,
        "proxies": scene.proxies.shape[1], "chosen": scene.chosen.shape[1], "chosenBy": scene.chosen_by,
        "chosenStrength": scene.chosen_strength,
        "radii": len(scene.radii),
    }  # fmt: skip
