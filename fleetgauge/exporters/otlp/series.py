"""The state of one series: what it has counted, since when. Pure; the rules are those of docs/reference/points.md."""

from typing import Final, NamedTuple

from fleetgauge.exporters.otlp.amounts import Amount

GAP_SLACK_NANO: Final = 100_000_000
"""A delta starts where the previous one ended, to the millisecond in all known clients; a clock may step a little."""


class Series(NamedTuple):
    """A series after its latest point.

    Attributes:
        amount: the latest cumulative value and the deltas since.
        start_unix_nano: start of the count.
        time_unix_nano: the time of its latest point.
        was_cumulative: a cumulative point is part of the amount.
    """

    amount: Amount
    start_unix_nano: int
    time_unix_nano: int
    was_cumulative: bool


class Step(NamedTuple):
    """Change of a series by a point.

    Attributes:
        series: the series after it.
        growth: growth by it; None if that is not known.
        since_unix_nano: start of the growth.
    """

    series: Series
    growth: Amount | None
    since_unix_nano: int


def after_delta(
    before: Series | None, delta: Amount, start: int, time: int, *, first_start: int, is_late: bool
) -> Step | None:
    """The series after a delta.

    Args:
        before: the series; None for a new one.
        delta: the value.
        start: its start as sent [ns since the epoch]; 0 if there is none.
        time: its time.
        first_start: start of a new series whose delta has none.
        is_late: its push was overtaken by a later one.

    Returns:
        None for a late delta that a cumulative point may have counted, or that does not fit.

    As in OpenTelemetry's data model ("Sums: Delta-to-Cumulative"), deltas that begin after a gap are a new count: after
    a delta of 5 until 10:00 and one of 3 from 10:05 on, the count is 3 since 10:05. Counts that a client sent itself
    go on over a gap.
    """
    if before is None:
        return Step(Series(delta, start or first_start, time, False), delta, start or first_start)
    fits = delta.fits(before.amount)
    if is_late:
        if before.was_cumulative or not fits:
            return None
        return Step(before._replace(amount=before.amount.plus(delta)), delta, start)
    since = start or min(before.time_unix_nano, time)
    is_after_gap = start > before.time_unix_nano + GAP_SLACK_NANO and not before.was_cumulative
    if is_after_gap or not fits:
        return Step(Series(delta, since, time, False), delta, since)
    return Step(before._replace(amount=before.amount.plus(delta), time_unix_nano=time), delta, since)


def after_cumulative(
    before: Series | None, value: Amount, start: int, time: int, *, first_start: int, may_fall: bool
) -> Step:
    """The series after a cumulative point, which is not late; arguments are as in `after_delta`.

    A sum that `may_fall` is not monotonic: only its start shows a reset. Without a reset the start stays, whatever is
    sent: clients that compute it anew may be off by some ms.
    """
    if before is None:
        return Step(Series(value, start or first_start, time, True), value if start else None, start)
    restarted = before.start_unix_nano < start and 0 < before.time_unix_nano <= start
    ended = min(before.time_unix_nano, time)
    if restarted or (not may_fall and value.is_below(before.amount)):
        began = start or ended
        return Step(Series(value, began, time, True), value, max(began, ended))
    growth = value.minus(before.amount)
    return Step(Series(value, before.start_unix_nano, time, True), growth, ended)
