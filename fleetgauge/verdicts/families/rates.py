"""Rates of requests, from which on their sizes matter."""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.window import LONGEST_COVERED_S, Window

_BELOW, _ABOVE = float(np.log(0.8)), float(np.log(1.3))
"""Distances from the limit (log) between which a rate counts by its mean."""

_MEAN_S: Final = 1800
"""Time that this mean is of, about [s]."""


def busy(window: Window, memory: Memory, column: str, least: float) -> tuple[Numbers, Numbers]:
    """The rate of each row, and True where it is at least `least`. To be called once per window and column.

    A rate near the limit counts by its mean of half an hour (log), any other at once. A client that sends 47 requests
    per second now and 53 then, beside a limit of 50, would begin and end a verdict every few minutes, at other times in
    windows of 60 s than in those of 300 s.
    """
    rate, code, history = _recent(window, memory, column), window.instance, memory.history(f"busy by {column}")
    beyond = np.clip(np.log(np.maximum(rate, 1e-9) / least), _BELOW, _ABOVE)
    before, covered_s = history.expected(code, 0.0), window.covered_s
    age_s = np.maximum((window.end_us - memory.instances["first_us"][code]) / 1_000_000, covered_s)
    weight = np.maximum(1 - np.exp(-covered_s / _MEAN_S), covered_s / age_s)
    is_mean = (beyond > _BELOW) & (beyond < _ABOVE) & ~np.isnan(before)
    beyond = np.where(is_mean, before + weight * (beyond - before), beyond)
    history.put(code, beyond)
    return rate, beyond >= 0


def _recent(window: Window, memory: Memory, column: str) -> Numbers:
    """A rate of each row, in short windows over the last five minutes or so."""
    rate = window.rows.number(column)
    if window.length_s >= LONGEST_COVERED_S:
        return rate
    history = memory.history(column)
    before = history.expected(window.instance, 0.0)
    # As much noise, and as late, as the mean of the windows of five minutes
    weight = np.minimum(2 * window.covered_s / (LONGEST_COVERED_S + window.covered_s), 1.0)
    mean: Numbers = np.where(np.isnan(before), rate, before + weight * (rate - before))
    history.put(window.instance, mean)
    return mean
