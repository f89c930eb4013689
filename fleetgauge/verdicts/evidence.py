"""Evidence for and against a case: how its level rises and falls, whatever the windows are.

A measure is bad where its ratio to its bound is above 1. The level counts seconds of evidence: a window adds the time
that it is of times a weight between -1 and 1, the logarithm of the ratio by that of 1.2. So a figure at 1.02 times its
bound counts for little either way, one a fifth above it for all of that time. Above `for_s` the verdict opens.

A push covers the time since the one before, and what is known now and then is known of the time between: a window adds
the time since the last one that counted, five minutes at most. In windows of 30 s, pushes every 60 s count for 60 s in
each second window; in windows of 60 s, a poll() 330 s after the one before counts for 300 s where it is seen.

Short windows are noisier than long ones. Their ratio is therefore the mean of the last five minutes, or of half of
`for_s` if that is less: what windows of 300 s have anyway. In it a window counts for twice its bound at most: 7 minutes
at 20 times the bound are no 12 because they are still in the mean. What adds up has the ratio of the sums.

Worked through, for a bound of 100 ms and windows of 60 s: latencies of 190, 80, 150, 90 and 140 ms are 1.3 times the
bound: evidence for, where two of five windows are good by themselves. With 100 records of lag allowed in five minutes,
growth by 500, -600, 500 and -600 is none.

Only the measure that raised a case most can lower it: where that one is unknown, the level stays.
"""

import math
from collections.abc import Container
from typing import Final

from fleetgauge.verdicts.memory import Case
from fleetgauge.verdicts.window import LONGEST_COVERED_S

_CLEARS_WITHIN_S: Final = 600
"""Good windows that clear a verdict, however long it takes to open [s]."""

_FULL: Final = math.log(1.2)
"""From a fifth beyond the bound on, evidence counts in full."""

_MOST: Final = 2.0
"""Times its bound, what a short window counts for at most, so that one of many does not decide alone."""


def base_s(for_s: float) -> float:
    """How long a ratio is taken over [s], at least."""
    return min(LONGEST_COVERED_S, for_s / 2)


def ratio_of(
    case: Case, measure: str, above: float, below: float, end_us: int, covered_s: float, for_s: float, *, adds_up: bool
) -> float:
    """How far beyond its bound a measure of a case is, with the windows before in the same base.

    Args:
        case: takes the window in.
        measure: names it from window to window.
        above: the figure, or its bound where bad is below.
        below: the bound, or the figure.
        end_us: of the window.
        covered_s: the time that it is of [s].
        for_s: of the verdict's rules.
        adds_up: what it is less in one window was too much in another.
    """
    is_short, below = covered_s < base_s(for_s), max(abs(below), 1e-9)
    if not adds_up:
        above, below = min(above / below, _MOST if is_short else math.inf), 1.0
    since_us = end_us - base_s(for_s) * 1_000_000
    recent = [*(each for each in case.recent.get(measure, ()) if each[0] > since_us), [end_us, covered_s, above, below]]
    case.recent[measure] = recent if is_short else []
    return max(sum(each[1] * each[2] for each in recent) / sum(each[1] * each[3] for each in recent), 1e-9)


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
    """Takes off the evidence of the time in which what raised the case was good [s]."""
    case.level_s += weight_of(ratio) * good_s * max(1.0, for_s / _CLEARS_WITHIN_S)
    case.lift = case.held_s = 0.0


def may_lower(case: Case, known: Container[str]) -> bool:
    """True if the measure that raised a case most is among those that are known."""
    return not case.raised or max(case.raised, key=lambda measure: case.raised[measure]) in known


def raise_by_mean(case: Case, measure: str, lift: float, ratio: float, covered_s: float, for_s: float) -> float:
    """Adds the evidence of a window whose mean is raised; returns the part of its time that it was so.

    The window that it began in, and the one that it ended in, are mixtures: a mean m of what is usual, u, and of x in
    the window beside says that it was so for (m - u) / (x - u) of the time. Where 39 ms are usual, windows of 181, 741
    and 193 ms are so for 20 %, all and 22 % of them: seven minutes, and not fifteen.

    Which window is the last one is known later: each counts by its share beside the one before, the rest is held, and
    counts once another bad one follows. Of the first one the share is known with the second.

    Args:
        case: which is not open.
        measure: which is bad.
        lift: how far the window's own mean is from what is usual, in parts of the way to its bound.
        ratio: see `ratio_of`.
        covered_s: the time that the window is of [s].
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
