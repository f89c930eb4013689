"""Evidence for and against a case: how its level rises and falls, whatever the length of the windows.

A measure is bad if its ratio to its bound is above 1. The level counts seconds of evidence: a window adds the time that
it covers times a weight between -1 and 1, log(ratio) / log(1.2). So a figure at 1.02 times its bound counts for little
(0.11), one a fifth above it for all of that time. Above `for_s` the verdict opens.

A push covers the time since the one before, so a window adds the time since the last window that counted, five minutes
at most. In windows of 30 s, pushes every 60 s count for 60 s in every second window; in windows of 60 s, a poll() 330 s
after the one before counts for 300 s in the window that has it.

Short windows are noisier than long ones. Their ratio is therefore the mean of the last five minutes, or of half of
`for_s` if that is less, as in windows of 300 s. In this mean a window counts for at most twice its bound: otherwise
7 minutes at 20 times the bound would count for 12, as long as they are in the mean. A measure that adds up has the
ratio of the sums.

A latency that varies more than those of real clients usually do has to be farther beyond its bound to count in full
(`beside_noise`).

Worked through, for a bound of 100 ms and windows of 60 s: latencies of 190, 80, 150, 90 and 140 ms are 1.3 times the
bound: evidence for the case, although two of five windows alone are good. With 100 records of lag allowed in five
minutes, growth by 500, -600, 500 and -600 is no evidence.

Only the measure that raised a case most can lower it: where that one is unknown, the level stays.
"""

import math
from collections.abc import Container
from typing import Final

from fleetgauge.verdicts.memory import Case
from fleetgauge.verdicts.window import LONGEST_COVERED_S

_CLEARS_WITHIN_S: Final = 600
"""Time of good windows that clears a verdict, however long it takes to open [s]."""

_FULL: Final = math.log(1.2)
"""From a fifth beyond the bound on, evidence counts in full."""

_OF_NOISE: Final = 1.5
"""Distance from the bound from which on evidence of a noisy series counts in full [times its noise]."""

MOST_OF_SHORT: Final = 2.0
"""Most that a short window counts for [times its bound], so that one of many does not decide alone."""


_OF_FALL: Final = 0.25
"""Rise that does not end a recovery [share of its fall]."""


def base_s(for_s: float) -> float:
    """Least time over which a ratio is taken [s]."""
    return min(LONGEST_COVERED_S, for_s / 2)


def ratio_of(
    case: Case, measure: str, above: float, below: float, end_us: int, covered_s: float, for_s: float, *, adds_up: bool
) -> float:
    """Ratio of a measure of a case to its bound, over the last `base_s` or this window if that is longer.

    Args:
        case: remembers the window.
        measure: its name, the same in each window.
        above: the figure, or its bound where bad is below.
        below: the bound, or the figure.
        end_us: of the window.
        covered_s: the time that it covers [s].
        for_s: of the verdict's rules.
        adds_up: True if less in one window makes up for more in another.
    """
    is_short, below = covered_s < base_s(for_s), max(abs(below), 1e-9)
    if not adds_up:
        above, below = min(above / below, MOST_OF_SHORT if is_short else math.inf), 1.0
    since_us = end_us - base_s(for_s) * 1_000_000
    recent = [*(each for each in case.recent.get(measure, ()) if each[0] > since_us), [end_us, covered_s, above, below]]
    case.recent[measure] = recent if is_short else []
    return max(sum(each[1] * each[2] for each in recent) / sum(each[1] * each[3] for each in recent), 1e-9)


def beside_noise(ratio: float, noise: float) -> float:
    """A ratio whose distance from 1 (log) is reduced where its series is noisier than `_FULL` allows for.

    Args:
        ratio: to the bound.
        noise: mean distance of five-minute figures from their mean (log).

    Latencies of real clients have a noise of about 0.12 (producers 0.14, fetches 0.09), for which `_FULL` stands. Of a
    series of 0.24, whose figures are often a quarter off, a figure counts in full from 1.43 times its bound on:

    >>> [round(weight_of(beside_noise(ratio, 0.24)), 2) for ratio in (1.5, 1.43, 1.2, 0.9)]
    [1.0, 0.99, 0.51, -0.29]
    """
    return math.pow(ratio, min(1.0, _FULL / max(_OF_NOISE * noise, 1e-9)))


def weight_of(ratio: float) -> float:
    """The evidence of a ratio, from -1 to 1.

    >>> [round(weight_of(ratio), 2) for ratio in (3.0, 1.2, 1.02, 1.0, 0.9, 0.5)]
    [1.0, 1.0, 0.11, 0.0, -0.58, -1.0]
    """
    return min(max(math.log(ratio) / _FULL, -1.0), 1.0)


def raise_level(case: Case, measure: str, seconds: float, covered_s: float, for_s: float) -> None:
    """Adds the evidence that a measure gives in a window."""
    case.raised[measure] = case.raised.get(measure, 0.0) + seconds
    case.level_s = min(case.level_s + seconds, for_s + max(covered_s, base_s(for_s)))


def lower_level(case: Case, ratio: float, good_s: float, for_s: float) -> None:
    """Subtracts the evidence of a time in which the measure that raised the case was good [s]."""
    case.level_s += weight_of(ratio) * good_s * max(1.0, for_s / _CLEARS_WITHIN_S)
    case.low_s = min(case.low_s, case.level_s)
    case.lift = case.held_s = 0.0


def recovers(case: Case) -> bool:
    """True if a case goes on to recover in a bad window: its level has risen again by a quarter of its fall at most.

    A lag that no longer grows may still grow for a moment: while it falls, one minute at 1.05 times its bound among ten
    good ones does not begin the recovery anew.
    """
    return case.good_us is not None and case.level_s - case.low_s <= _OF_FALL * (case.high_s - case.low_s)


def may_lower(case: Case, known: Container[str]) -> bool:
    """True if the measure that raised a case most is among those that are known."""
    return not case.raised or max(case.raised, key=lambda measure: case.raised[measure]) in known


def raise_by_mean(case: Case, measure: str, lift: float, ratio: float, covered_s: float, for_s: float) -> float:
    """Adds the evidence of a window whose mean is raised; returns the share of its time that was bad.

    The window in which a case begins, and the one in which it ends, are mixtures: with a mean of m, a usual value of u
    and x in the window beside it, the case lasted for (m - u) / (x - u) of the window. Where 39 ms are usual, windows
    of 181, 741 and 193 ms count for 20 %, all and 22 % of their time: seven minutes, not fifteen.

    The last bad window is known only later: each counts by its share relative to the one before, and the rest is held
    until another bad one follows. The share of the first one is known with the second.

    Args:
        case: which is not open.
        measure: which is bad.
        lift: of the window's own mean; see `Threshold.lift`.
        ratio: see `ratio_of`.
        covered_s: the time that the window covers [s].
        for_s: of the verdict's rules.
    """
    if lift > 1.0:
        if case.bad_windows == 1 and lift > case.lift:
            case.level_s *= case.lift / lift
        case.level_s += case.held_s
        case.held_s = 0.0
    share = min(max(lift, 0.0) / case.lift, 1.0) if case.lift else 1.0
    weight = weight_of(max(ratio, case.excess) if share < 1.0 else ratio)
    raise_level(case, measure, share * weight * covered_s, covered_s, for_s)
    case.held_s += (max(weight_of(ratio), 0.0) - share * weight) * covered_s
    if lift > 1.0:
        case.lift = lift
    return share
