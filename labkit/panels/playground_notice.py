"""What the playground tells while it runs: one line of what to notice, one of where it stands."""

from __future__ import annotations

import html
import math

from labkit.training.controls import NEXT_PROBLEM
from labkit.training.live_run import Snapshot

COLLAPSED = 0.1  # a spread below this share of the problem's first is called collapsed

HELP = """
<p><b>The map</b> shows test pictures as small three-armed marks, a colour and a number for each class. Squares are the
proxies as they are now, rings are the samples' places that were chosen, by K-Center or at random, for the running problem
(at a problem's last snapshot: for the next one). Point at a mark to see its picture; press a name in the legend to hide
it, a class twice to see it alone. Drag over map or curves to look closer, press them twice to see all again.</p>
<p><b>The curves</b> have a point per evaluation. Dotted lines: a proxy problem ends, its successor's number beside it.
Dashed lines with a triangle: you changed something; point at the triangle.</p>
<p><b>Acts at once</b> says beside each control from when it acts. <b>Restarts</b> begins the run anew, paused.
<b>Play</b> and <b>Pause</b> do what they say; <b>Step</b> does one step, <b>25 steps</b> as many as lie between two evaluations;
<b>Next problem</b> starts the proxies anew from chosen samples; <b>Reset</b> begins again with the settings as they stand;
<b>Stop</b> also gives the computer's cores back. The <b>Snapshot</b> slider goes back in time while the run goes on; its right
end, or <b>Newest</b>, is now.</p>
<p>Everything can be reached with Tab; arrow keys move sliders, Space presses buttons.</p>
"""

def what_to_notice(snapshot: Snapshot, preset: str) -> str:
    """The line for a snapshot; `preset` is what the preset says before anything has happened."""
    steps, problems = snapshot.metrics.get("step", ()), snapshot.metrics.get("problem", ())
    if snapshot.state == "failed":
        return "The run has left the numbers: the last change was too much for it. Go back, and try a smaller one."
    if len(steps) < 2:
        return preset
    moved = [event for event in snapshot.events if event.get("setting", NEXT_PROBLEM) != NEXT_PROBLEM]
    if moved and snapshot.step - moved[-1]["step"] < 100:
        return f"Changed at step {moved[-1]['step']}: {moved[-1]['what']} (dashed line). Compare the curves left and right of it."
    spread, cover, score = (snapshot.metrics.get(key, ()) for key in ("proxy_spread", "covering_q95", "map_at_r"))
    if not spread or not any(value > 0 for value in spread):
        return preset
    mine = [i for i, problem in enumerate(problems) if problem == problems[-1]]
    before = max((spread[i] for i in mine), default=math.nan)
    if snapshot.boundaries and len(mine) <= 3 and mine[0] > 0:
        old, new = cover[mine[0] - 1], cover[mine[-1]]
        way = "shrank" if new < old else "went"
        return (
            f"A new problem: the squares started at the rings, spread out over their class. The 95 % cover {way} from "
            f"{old:.2f} to {new:.2f}; MAP@R is {score[-1]:.2f}, and was {score[mine[0] - 1]:.2f} when the last problem ended."
        )
    if spread[-1] < COLLAPSED * before and snapshot.settings.method in ("ccp", "proxy"):
        end = "Press Next problem to set them apart." if snapshot.settings.method == "proxy" else "Soon the problem ends."
        return (
            f"The proxies of a class have run together: their spread fell from {before:.2g} to {spread[-1]:.2g}, while the "
            f"class still reaches {cover[-1]:.2f} beyond them. {end}"
        )
    return preset


def where_it_stands(snapshot: Snapshot, at: int | None) -> str:
    """State, step, problem, speed and score, as HTML."""
    if at is not None:
        frame = snapshot.stored[at]
        known = [v for s, v in zip(snapshot.metrics["step"], snapshot.metrics["map_at_r"], strict=True) if s <= frame.step]
        score = f", MAP@R {known[-1]:.3f}" if known else ""
        return f"<b>stored snapshot</b>, step {frame.step:,}, problem {snapshot.problem(at)}{score}"
    words = {"new": "ready", "paused": "paused" if snapshot.step else "ready"}
    parts = [f"<b>{words.get(snapshot.state, snapshot.state)}</b>", f"step {snapshot.step:,}", f"problem {snapshot.problem()}"]
    scores = snapshot.metrics.get("map_at_r", ())
    if scores:
        parts.append(f"MAP@R {scores[-1]:.3f}")
    if snapshot.state == "playing" and snapshot.steps_per_second:
        parts.append(f"{snapshot.steps_per_second:.0f} steps a second")
    if snapshot.message and snapshot.state != "failed":
        parts.append(html.escape(snapshot.message))
    return ", ".join(parts)
