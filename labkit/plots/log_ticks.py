"""Labels of a logarithmic axis: numbers written out, and never fewer than two of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labkit.plots.reading import Floats

NARROW, WIDE = 0.6, 1.5  # decades: below, evenly spaced labels as on a linear axis; from WIDE on, powers of ten


def log_ticks(values: Floats, most: int = 4) -> dict[str, Any]:
    """Settings of a logarithmic axis for the `values` drawn on it.

    Powers of ten where they span one and a half decades or more, every second or third where more than `most` would fall
    among the values; 1, 2 and 5 times powers of ten for less; evenly spaced round numbers within a factor of four. A finer
    ladder is taken where fewer than two of its labels would be among the values. The ladder goes on beyond the values, for a
    reader who zooms out.

    Parameters
    ----------
    values : (n,), positive; none gives plotly's own labels.

    Returns
    -------
    dict : `type`, `tickvals` and `ticktext` of a plotly axis.
    """
    axis: dict[str, Any] = {"type": "log", "tickfont_size": 11}
    if not len(values):
        return axis
    low, high = float(values.min()), float(values.max())
    if high <= low * (1 + 1e-9):  # one value: plotly draws a decade on either side of it
        low, high = low / 10, high * 10
    decades = math.log10(high / low)
    ladders = [_powers(low, high, max(1, round(decades / most)))] if decades >= WIDE else []
    ladders += [_one_two_five(low, high)] if decades >= NARROW else []
    ladders.append(_even(low, high))
    ticks = next((ladder for ladder in ladders if sum(low <= tick <= high for tick in ladder) >= 2), ladders[-1])
    return axis | {"tickvals": ticks, "ticktext": [written(tick) for tick in ticks]}


def written(tick: float) -> str:
    """A label in full: 0.5, 20; powers of ten, as 10 with an exponent, below 0.001 and from 100,000 on."""
    if 1e-3 * (1 - 1e-9) <= tick < 1e5:
        return f"{tick:.10g}"
    mantissa, exponent = f"{tick:.6e}".split("e")
    factor = f"{float(mantissa):g}"
    power = f"10<sup>{int(exponent)}</sup>".replace("-", "−")
    return power if factor == "1" else f"{factor}·{power}"


def _powers(low: float, high: float, every: int) -> list[float]:
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    return [float(f"1e{k}") for k in range(first, last + 1) if k % every == 0]


def _one_two_five(low: float, high: float) -> list[float]:
    return [float(f"{digit}e{round(math.log10(power))}") for power in _powers(low, high, 1) for digit in (1, 2, 5)]


def _even(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, at least three of them between `low` and `high`, and on to either side."""
    wanted = (high - low) / 3
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(m * power for m in (5, 2, 1) if m * power <= wanted * (1 + 1e-9))
    multiples = np.arange(max(1, math.ceil(low / 2 / step)), math.floor(2 * high / step) + 1)
    return [float(f"{m * step:.12g}") for m in multiples]
