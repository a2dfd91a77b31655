"""The playground's picture: scenes of a session's snapshots, handed to the canvas that draws them."""

from __future__ import annotations

from typing import Any

from labkit.panels.live_canvas import LiveCanvas
from labkit.panels.live_scene import Cast, Course, Scene, age_of_rings, chosen_by, scene_of
from labkit.training.live_run import Frame, Snapshot


class LiveFigure:
    """Draws snapshots of a session, each in a single message to the page.

    Parameters
    ----------
    snapshot : the first. timeline : the slider over the stored ones.

    Attributes
    ----------
    widget : the `LiveCanvas`.
    """

    def __init__(self, snapshot: Snapshot, timeline: Any) -> None:
        self.widget = LiveCanvas(timeline, self._stored_scene)
        self._snapshot, self._cast = snapshot, Cast.of(snapshot)
        self._course: tuple[Any, Course] | None = None
        self._scenes: dict[int | None, tuple[Frame, int, Scene]] = {}  # by stored frame (None: now): what of, and the scene
        self._last: tuple[Frame, ...] = ()
        self.widget.begin(self._cast)
        self.draw(snapshot)

    def draw(self, snapshot: Snapshot, at: int | None = None) -> None:
        """Show a stored frame of a snapshot, or (None) what is there now."""
        frame = snapshot.live if at is None else snapshot.stored[at]
        if frame is None:
            return
        if snapshot.run != self._cast.run:
            self._cast = Cast.of(snapshot)
            self._scenes.clear()
            self._last = ()
            self.widget.begin(self._cast)
        before, self._snapshot = self._snapshot, snapshot
        self._forget_what_changed(before)
        self.widget.show(self._scene(at, frame), self._course_of(snapshot), len(snapshot.stored), live=at is None)

    def _forget_what_changed(self, before: Snapshot) -> None:
        """After a way back other frames stand in the old ones' places; where a problem ends, the rings are the next one's."""
        snapshot, last = self._snapshot, self._last
        kept = len(snapshot.stored) >= len(last) and (not last or snapshot.stored[len(last) - 1] is last[-1])
        self._last = snapshot.stored
        if not kept:
            self._scenes.clear()
            self.widget.forget()
        elif snapshot.run == before.run and len(snapshot.boundaries) > len(before.boundaries):
            new = [boundary.frame for boundary in snapshot.boundaries[len(before.boundaries) :]]
            self.widget.forget(*new)

    def _stored_scene(self, at: int) -> Scene:
        return self._scene(at, self._snapshot.stored[at])

    def _scene(self, at: int | None, frame: Frame) -> Scene:
        """The scene of a frame, made once: the frame and the problems that had ended by then decide on it."""
        snapshot = self._snapshot
        ended = sum(at is None or boundary.frame <= at for boundary in snapshot.boundaries)
        known = self._scenes.get(at)
        if known is None or known[0] is not frame or known[1] != ended:
            age = age_of_rings(snapshot, frame, at)
            made = scene_of(self._cast, frame, snapshot.chosen(at), chosen_by(snapshot, at), age)
            known = self._scenes[at] = frame, ended, made
        return known[2]

    def _course_of(self, snapshot: Snapshot) -> Course:
        """The course, the same object while it says the same."""
        made_of = (snapshot.run, snapshot.metrics, snapshot.boundaries, snapshot.events)
        if self._course is None or not _same(self._course[0], made_of):
            self._course = made_of, Course.of(snapshot)
        return self._course[1]


def _same(old: Any, new: Any) -> bool:
    """Whether run, metrics (which the session replaces when they grow), boundaries and events are as they were."""
    return old[0] == new[0] and old[1] is new[1] and len(old[2]) == len(new[2]) and old[3] == new[3]
