"""Sentences about runs, every claim computed from the recording: when an effect did not appear, they say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from labkit.plots.reading import RecordingLike, Runs, series, value_at

COLLAPSED = 0.1  # proxies count as collapsed when less than this share of their spread is left
NOTICEABLE = 0.05  # a relative change under this is called no change
ALONE = "One proxy per class: no spread that could be lost or gained"
BETTER_MAP = 0.005  # MAP@R differences under this (half a point) are called equal: seeds differ by as much


def number(value: float, digits: int = 3) -> str:
    """A value as a reader wants it: .1234 -> 0.123, 2.04e-05 -> 2e-5, NaN -> a dash."""
    if not math.isfinite(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits}f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


@dataclass(frozen=True)
class Moments:
    """The evaluations that a run is judged by: steps; None where the run has not come so far."""

    begin: int | None
    first: int | None  # end of the first proxy problem
    end: int | None  # last evaluation

    @classmethod
    def of(cls, recording: RecordingLike) -> Moments:
        """Read them off a recording, which may be partial: without evaluations all are None."""
        steps = sorted({int(s) for s in recording.metrics.get("step", ())})
        if not steps:
            return cls(None, None, None)
        closed = [p.end for p in recording.problems if p.end <= steps[-1]]
        return cls(steps[0], closed[0] if closed else None, steps[-1])

    @property
    def several_problems(self) -> bool:
        """Whether there is training after the first problem's end."""
        return self.first is not None and self.end is not None and self.first < self.end


def has_learned_proxies(recording: RecordingLike) -> bool:
    """Whether the proxies learn: not so in sample-based runs, whose anchors are embedded afresh at every step."""
    return recording.proxies is not None and recording.experiment.get("method") != "samples"


def _first_problem_spread(recording: RecordingLike) -> tuple[float, float] | None:
    """Proxy spread at the first and the last evaluation of the first problem; None where fewer than two are there."""
    moments = Moments.of(recording)
    steps, values = series(recording, "proxy_spread")
    until = moments.first if moments.first is not None else moments.end
    inside = values[steps <= until] if until is not None else values[:0]
    return (float(inside[0]), float(inside[-1])) if len(inside) >= 2 else None


def collapse(recording: RecordingLike) -> str:
    """What happened to the distance between a class's own proxies within the first problem."""
    spread = _first_problem_spread(recording)
    if spread is None:
        return "Too few evaluations with proxies to say whether they collapse"
    if not any(spread):
        return ALONE
    start, end = spread
    span = f"from {number(start)} to {number(end)}"
    if not has_learned_proxies(recording):
        return f"Anchor samples, embedded afresh at every step: in the first problem their spread goes {span}"
    if end <= COLLAPSED * start:
        return f"Proxies collapse: within the first problem their spread falls {span}"
    if end < (1 - NOTICEABLE) * start:
        return f"Proxies draw together but do not collapse: in the first problem their spread goes {span}"
    return f"Proxies do not collapse in the first problem: their spread goes {span}"


def collapses(runs: Runs) -> str:
    """The same for one run or several, in one sentence."""
    if len(runs) == 1:
        return collapse(next(iter(runs.values())))
    learned = {name: recording for name, recording in runs.items() if has_learned_proxies(recording)}
    known = {name: s for name, recording in learned.items() if (s := _first_problem_spread(recording)) is not None}
    spreads = {name: both for name, both in known.items() if any(both)}  # one proxy per class can neither collapse nor not
    if not spreads:
        return ALONE if known else "Too few evaluations with proxies to say whether they collapse"
    collapsed = [name for name, (start, end) in spreads.items() if end <= COLLAPSED * start]
    head = f"Proxies {'collapse' if collapsed else 'do not collapse'} within the first problem"
    if 0 < len(collapsed) < len(spreads):
        head += f" of {', '.join(collapsed)} only"
    figures = "; ".join(f"{name}: {number(start)} → {number(end)}" for name, (start, end) in spreads.items())
    return f"{head} (spread, {figures})"


def spread_again(recording: RecordingLike) -> str:
    """How wide the proxies stand when later problems begin and end, against the end of the first."""
    moments = Moments.of(recording)
    first = value_at(recording, "proxy_spread", moments.first) if moments.first is not None else math.nan
    steps, values = series(recording, "proxy_spread")
    later = values[steps > moments.first] if moments.first is not None else values[:0]
    if not len(later) or not math.isfinite(first):
        return "There is no second problem yet: nothing has spread the proxies again"
    widest, last = float(later.max()), float(later[-1])
    if not widest > 0 and not first > 0:
        return ALONE
    if widest < 2 * first:
        return f"Re-initialising did not spread the proxies: {number(first)} after problem 1, at most {number(widest)} later"
    figures = f"{number(first)} after problem 1, up to {number(widest)} later, {number(last)} at the end"
    return f"Re-initialising spreads the proxies: {figures}"


def change(recording: RecordingLike, key: str, what: str, *, since: int | None = None, points: bool = False) -> str:
    """How a metric went from one evaluation to the last one.

    Parameters
    ----------
    since : step to count from; if not given the end of the first problem, or the start where nothing follows the first
        problem.
    points : tell the difference of a fraction in hundredths ("2.6 points") instead of relative to where it began.
    """
    moments = Moments.of(recording)
    if moments.end is None:
        return f"{what} has not been evaluated yet"
    start, origin = _origin(moments, since)
    before, after = value_at(recording, key, start), value_at(recording, key, moments.end)
    if not (math.isfinite(before) and math.isfinite(after)):
        return f"{what} has not been measured at both ends"
    figures = f"{number(before)} {origin}, {number(after)} at the end"
    if points:
        clear, size = abs(after - before) > BETTER_MAP, f"{100 * abs(after - before):.1f} points"
    else:
        clear = before > 0 and abs(after / before - 1) >= NOTICEABLE
        size = f"{abs(after / before - 1):.0%}" if clear else ""
    if clear:
        return f"{what} {'rises' if after > before else 'falls'} by {size}: {figures}"
    return f"{what} hardly changes: {figures}"


def _origin(moments: Moments, since: int | None) -> tuple[int, str]:
    if since is not None and since != moments.first:
        return since, f"at step {since:,}"
    if moments.several_problems and moments.first is not None:
        return moments.first, "after problem 1"
    return moments.begin or 0, "at the start"


def common_origin(runs: Runs) -> int | None:
    """The step from which all runs are judged alike: the end of problem 1 of the first run that goes on after it."""
    found = (Moments.of(r) for r in runs.values())
    return next((m.first for m in found if m.several_problems), None)


def headline_of(recording: RecordingLike, since: int | None = None) -> str:
    """One line for a whole run: MAP@R and 95 % cover, then and now; `since` as in `change`."""
    moments = Moments.of(recording)
    if moments.end is None:
        return "Not evaluated yet"
    start, origin = _origin(moments, since)
    return _then_and_now(recording, start, moments.end, f"({origin} → step {moments.end:,})")


def until_chosen(recording: RecordingLike) -> str:
    """The same from the first evaluation to the model that was chosen, or to the last evaluation where none is yet."""
    moments = Moments.of(recording)
    if moments.end is None or moments.begin is None:
        return "Not evaluated yet"
    chosen = float(recording.final.get("chosen_step", math.nan))
    until, where = (int(chosen), "chosen step") if math.isfinite(chosen) else (moments.end, "step")
    return _then_and_now(recording, moments.begin, until, f"(start → {where} {until:,})", "Held-out ")


def _then_and_now(recording: RecordingLike, start: int, end: int, span: str, whose: str = "") -> str:
    parts = []
    for key, what in (("map_at_r", f"{whose}MAP@R"), ("covering_q95", "95 % cover")):
        before, after = value_at(recording, key, start), value_at(recording, key, end)
        if math.isfinite(before) and math.isfinite(after):
            parts.append(f"{what} {number(before)} → {number(after)}")
    return f"{', '.join(parts)} {span}" if parts else "Not evaluated yet"


def compare(runs: Runs) -> list[str]:
    """Runs against each other: at the last step that all have evaluated, then the chosen models on the test set."""
    ends = [Moments.of(recording).end for recording in runs.values()]
    known = [end for end in ends if end is not None]
    if len(runs) < 2 or len(known) < len(ends):
        return []
    step = min(known)
    lines = [
        _ranked({name: value_at(r, key, step) for name, r in runs.items()}, f"At step {step:,}", what, higher, alike)
        for key, what, higher, alike in (
            ("map_at_r", "MAP@R", True, _near_scores),
            ("covering_q95", "95 % cover", False, _near),
            # Collapsed proxies differ by chance alone, so a spread counts as another one only from twice its size on.
            ("proxy_spread", "proxy spread", True, lambda a, b: max(a, b) < 2 * min(a, b)),
            ("inter_class_distance", "inter-class distance", True, _near),
        )
    ]
    scores = {name: float(r.final.get("map_at_r", math.nan)) for name, r in runs.items()}
    lines.append(_ranked(scores, "On the test set, with the chosen models", "MAP@R", True, _near_scores))
    return [line for line in (identical_until(runs), *lines) if line]


def identical_until(runs: Runs) -> str:
    """Up to which step the runs placed the samples exactly alike; empty where they never did after the start."""
    first, *others = runs.values()
    at = 0
    while all(_same_snapshot(first, other, at) for other in others):
        at += 1
    if at < 2:
        return ""
    if at == min(len(recording.steps) for recording in runs.values()):
        return "The runs are identical at every recorded step"
    step = int(first.steps[at - 1])
    return f"Up to step {step:,} the runs are identical: what differs afterwards is the method's doing alone"


def _same_snapshot(a: RecordingLike, b: RecordingLike, at: int) -> bool:
    return (
        at < min(len(a.steps), len(b.steps))
        and a.steps[at] == b.steps[at]
        and np.array_equal(a.labels, b.labels)
        and np.array_equal(a.embeddings[at], b.embeddings[at])
    )


def _near_scores(a: float, b: float) -> bool:
    return abs(a - b) <= BETTER_MAP


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= NOTICEABLE * max(abs(a), abs(b))


def _ranked(
    values: Mapping[str, float], when: str, what: str, higher: bool, alike: Callable[[float, float], bool]
) -> str:
    finite = {name: v for name, v in values.items() if math.isfinite(v)}
    if len(finite) < 2:
        return ""
    order = sorted(finite, key=lambda name: finite[name], reverse=higher)
    figures = ", ".join(f"{number(finite[name])} ({name})" for name in order)
    same = "practically the same: " if alike(finite[order[0]], finite[order[-1]]) else ""
    return f"{when}, {what} is {same}{figures}"
