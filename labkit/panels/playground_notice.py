"""What the playground tells while it runs: one line of what to notice, one of where it stands."""

from __future__ import annotations

import html
import math

from labkit.errors import LabError
from labkit.plots.findings import COLLAPSED
from labkit.training.controls import NEXT_PROBLEM
from labkit.training.live_run import Snapshot

HELP = """
<p><b>The map</b> shows test pictures as small three-armed marks, a colour and a number for each class. Squares are the
proxies as they are now, rings the places of the samples that were chosen, by K-Center or at random, as the start of the
running problem (at a problem's last snapshot: of the next one); they fade as it goes on. Point at a mark to see its
picture; press a name in the legend to hide it, a class twice to see it alone. Drag over map or curves to look closer, press
them twice to see all again.</p>
<p><b>The curves</b> have a point per evaluation, the map is of the step in its title: between two evaluations their figures
differ a little, and below the curves stands of which step theirs are. Dotted lines: a proxy problem ends, its successor's
number beside it. Dashed lines with a triangle: you changed something; point at the triangle.</p>
<p><b>Acts at once</b>: from when is said beside these words and where you point at a control. <b>λ</b> pulls the network towards
its weights at the end of the last problem, from the second problem on (at the slider's left end not at all); pool and
selection say how the next start is chosen: set all three before you press <b>Next problem</b>. <b>Restarts</b> begins the run
anew, paused, without asking. <b>Play</b> and <b>Pause</b> do what they say; <b>Step</b> does one step, <b>25 steps</b> as
many as lie between two evaluations; <b>Next problem</b> starts the proxies anew from chosen samples; <b>Reset</b> goes back
to step 0 with the settings as they stand; <b>Stop</b> pauses, and gives the computer's cores back. The <b>Snapshot</b> slider
goes back in time while the run goes on; its right end, or <b>Newest</b>, is now.</p>
<p>Everything can be reached with Tab; arrow keys move sliders, Space presses buttons.</p>
"""


def what_to_notice(snapshot: Snapshot, preset: str) -> str:
    """The line for a snapshot; `preset` is what the preset says before anything has happened."""
    steps, problems = snapshot.metrics.get("step", ()), snapshot.metrics.get("problem", ())
    if snapshot.state == "failed":
        return "The run has left the numbers: the last change was too much for it. Go back, and try a smaller one."
    if len(steps) < 2:
        return preset
    last = max((b.step for b in snapshot.boundaries if b.chosen is not None), default=-1)
    if last >= steps[-1]:  # the last figures are those of the problem before
        return (
            "A new problem: the squares have jumped to the rings, on samples of their class. The title of the map tells their "
            f"cover; the curves still end with the old problem, at step {last:,}, and go on at the next evaluation."
        )
    moved = snapshot.events[-1] if snapshot.events else {}
    if moved.get("setting", NEXT_PROBLEM) != NEXT_PROBLEM and last <= moved["step"] and snapshot.step - moved["step"] < 100:
        return f"Changed at step {moved['step']}: {moved['what']} (dashed line). Compare the curves left and right of it."
    spread, cover, score = (snapshot.metrics.get(key, ()) for key in ("proxy_spread", "covering_q95", "map_at_r"))
    if not spread or not any(value > 0 for value in spread):
        return preset
    mine = [i for i, problem in enumerate(problems) if problem == problems[-1]]
    before = max((spread[i] for i in mine), default=math.nan)
    if snapshot.boundaries and len(mine) <= 3 and mine[0] > 0:
        old, new = cover[mine[0] - 1], cover[mine[-1]]
        way = "shrank" if new < old else "went"
        return (
            f"A new problem: the squares started at the rings, on samples of their class. The 95 % cover {way} from "
            f"{old:.2f} to {new:.2f}; MAP@R is {score[-1]:.2f}, and was {score[mine[0] - 1]:.2f} when the last problem ended. "
            "MAP@R follows later, if at all: give it some 200 steps."
        )
    if spread[-1] < COLLAPSED * before and snapshot.settings.method in ("ccp", "proxy"):
        by_hand = "Next problem starts them anew; MAP@R may fall at first."
        end = by_hand if snapshot.settings.method == "proxy" else "Soon the problem ends."
        return (
            f"The proxies of a class have run together: their spread fell from {before:.2g} to {spread[-1]:.2g}, while 95 % "
            f"of a class's samples lie within {cover[-1]:.2f} of them: the class is wide, or it lies elsewhere. {end}"
        )
    return preset


def check_has_trained(snapshot: Snapshot) -> None:
    """Raise LabError where the running problem has only just begun, and so cannot be ended."""
    begun = max((b.step for b in snapshot.boundaries), default=0)
    if snapshot.state != "playing" and snapshot.step == begun and snapshot.settings.method != "pairs":
        raise LabError("Next problem", "a problem that has trained", "one that has only just begun", "Train a step first.")


def where_it_stands(snapshot: Snapshot, at: int | None) -> str:
    """State, step, problem, speed and score, as HTML."""
    if at is not None:
        step = snapshot.stored[at].step
        return ", ".join([f"<b>stored snapshot</b>, step {step:,}, problem {snapshot.problem(at)}", *_score(snapshot, step)])
    words = {"new": "ready", "paused": "paused" if snapshot.step else "ready"}
    parts = [f"<b>{words.get(snapshot.state, snapshot.state)}</b>", f"step {snapshot.step:,}", f"problem {snapshot.problem()}"]
    parts += _score(snapshot, snapshot.step)
    if snapshot.state == "playing" and snapshot.steps_per_second:
        parts.append(f"{snapshot.steps_per_second:.0f} steps a second")
    if snapshot.message and snapshot.state != "failed":
        parts.append(html.escape(snapshot.message))
    return ", ".join(parts)


def _score(snapshot: Snapshot, step: int) -> list[str]:
    """MAP@R of the last evaluation not after a step, and of which step it is where that is another; nothing before the first."""
    scores = zip(snapshot.metrics.get("step", ()), snapshot.metrics.get("map_at_r", ()), strict=True)
    known = [(evaluated, score) for evaluated, score in scores if evaluated <= step]
    if not known:
        return []
    evaluated, score = known[-1]
    return [f"MAP@R {score:.3f}" + (f" at step {evaluated:,.0f}" if evaluated != step else "")]
