"""Rates of requests, from which on their sizes matter."""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.window import LONGEST_COVERED_S, Window

_BELOW, _ABOVE = 0.8, 1.3
"""Ratios to the limit between which a rate counts by its mean."""

_MEAN_S: Final = 1800
"""Time that this mean is of, about [s]."""


def busy(window: Window, memory: Memory, column: str, least: float) -> tuple[Numbers, dict[str, Numbers]]:
    """True for each row with a rate of at least `least`; and its `rate`, and `mean` where that counts, for a sentence.

    To be called once per window and column.

    A rate near the limit counts by its geometric mean of half an hour, any other at once. A client that sends 47
    requests per second now and 53 then, beside a limit of 50, would begin and end a verdict every few minutes, at other
    times in windows of 60 s than in those of 300 s. The mean goes on from 40 or 65 after a rate that was clear: below
    the limit after a quiet client, above it after a busy one. If the latest rate is clear, too, on the other side, it
    is on its way there, and counts at once.
    """
    rate, code, known = _recent(window, memory, column), window.instance, memory.instances
    ratio = np.clip(rate / least, _BELOW, _ABOVE)
    latest = np.clip(window.rows.number(column) / least, _BELOW, _ABOVE)
    before, covered_s = known[f"beside_limit_{column}"][code], window.covered_s
    crosses = ((before == _BELOW) & (latest == _ABOVE)) | ((before == _ABOVE) & (latest == _BELOW))
    is_near = (ratio > _BELOW) & (ratio < _ABOVE) & (before > 0)
    near = np.flatnonzero(is_near & ~crosses)
    age_s = np.maximum((window.end_us - known["first_us"][code[near]]) / 1_000_000, covered_s[near])
    weight = np.maximum(1 - np.exp(-covered_s[near] / _MEAN_S), covered_s[near] / age_s)
    ratio[near] = before[near] * (ratio[near] / before[near]) ** weight
    known[f"beside_limit_{column}"][code] = np.where(np.isnan(ratio) | (is_near & crosses), before, ratio)
    mean = np.full(len(rate), "", object)
    mean[near] = [f" ({each:,.0f} in the mean of half an hour)" for each in (ratio[near] * least).tolist()]
    return ratio >= 1, {"rate": rate, "mean": mean}


def _recent(window: Window, memory: Memory, column: str) -> Numbers:
    """A rate of each row, in short windows over the last five minutes or so."""
    rate = window.rows.number(column)
    if window.length_s >= LONGEST_COVERED_S:
        return rate
    recent, covered_s = memory.instances[f"recent_{column}"], window.covered_s
    before = recent[window.instance]
    # As much noise, and as late, as the mean of the windows of five minutes
    weight = np.minimum(2 * covered_s / (LONGEST_COVERED_S + covered_s), 1.0)
    mean: Numbers = np.where(before > 0, before + weight * (rate - before), rate)
    recent[window.instance] = np.where(np.isnan(rate), before, mean)
    return mean
