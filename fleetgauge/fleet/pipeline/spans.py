"""Spans of receipt time that have changes, and conditions that skip files of other times.

A span is from one time on to before another (UTC). Spans are in order, and no two of them meet.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, TypeAlias

from fleetgauge.fleet.arrow import pa, pc
from fleetgauge.fleet.schemas import TIME
from fleetgauge.fleet.tables.written_file import DATE

Span: TypeAlias = tuple[datetime, datetime]

MAX_SPANS: Final = 100
"""Most spans in one condition; beyond that, whole days are used."""

_DAY: Final = timedelta(days=1)
LIVE_WINDOW_S: Final = 60
"""Length of windows that are judged as they end [s], by the console and a watch; a verdict is delayed by it."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def from_micros(micros: int) -> datetime:
    """UTC time from microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=micros)


def micros_of(at: datetime) -> int:
    """Microseconds since the epoch."""
    return (at - EPOCH) // timedelta(microseconds=1)


def whole(day: date) -> Span:
    """All of a day."""
    begin = datetime.combine(day, time(), UTC)
    return begin, begin + _DAY


def of_windows(starts: Iterable[datetime], window_s: int) -> list[Span]:
    """The spans of windows of `window_s` [s] that begin at these times.

    >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    >>> starts = [noon + timedelta(minutes=each) for each in (0, 20, 5)]
    >>> [(f"{begin:%H:%M}", f"{end:%H:%M}") for begin, end in of_windows(starts, 300)]
    [('12:00', '12:10'), ('12:20', '12:25')]
    """
    window = timedelta(seconds=window_s)
    return joined((start, start + window) for start in starts)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same times in as few spans as possible."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((begin, end))
    return result


def bounded(spans: Iterable[Span]) -> list[Span]:
    """The same times, or all of their days if there are more than MAX_SPANS spans."""
    few = joined(spans)
    return few if len(few) <= MAX_SPANS else joined(map(whole, days(few)))


def days(spans: Iterable[Span]) -> list[date]:
    """Days that the spans overlap, in order."""
    result: set[date] = set()
    for begin, end in spans:
        first, last = begin.date(), (end - timedelta.resolution).date()
        result.update(first + number * _DAY for number in range((last - first).days + 1))
    return sorted(result)


def windows(spans: Iterable[Span], window_s: int) -> list[datetime]:
    """Beginnings of the windows of `window_s` [s] in these spans."""
    window = timedelta(seconds=window_s)
    return [begin + number * window for begin, end in spans for number in range((end - begin) // window)]


def within(spans: Sequence[Span], column: str) -> Any:
    """Condition that the time in `column` is in a span: a `pyarrow.compute.Expression`."""
    condition = pc.scalar(False)
    for begin, end in spans:
        condition |= (pc.field(column) >= pa.scalar(begin, TIME)) & (pc.field(column) < pa.scalar(end, TIME))
    return of_days(days(spans)) & condition


def of_days(wanted: Iterable[date]) -> Any:
    """Condition that rows have one of these days."""
    return pc.field(DATE).isin(pa.array(wanted, pa.date32()))


def part_in(spans: Sequence[Span], first: datetime, last: datetime) -> float:
    """Fraction of the time between the two that is in spans, from 0 to 1.

    >>> noon, day = datetime(2026, 3, 1, 12, tzinfo=UTC), whole(date(2026, 3, 1))
    >>> part_in([(noon, day[1])], *day)
    0.5
    """
    inside = sum((max(min(last, end) - max(first, begin), timedelta()) for begin, end in spans), timedelta())
    return inside / (last - first)


def rows_within(files: Iterable[Mapping[str, Any]], spans: Sequence[Span], window_s: int) -> int:
    """Approximate number of rows in spans, from the statistics of files by window."""
    window = timedelta(seconds=window_s)
    counts: Iterator[float] = (
        file["num_records"] * part_in(spans, file["min.window_start"], file["max.window_start"] + window)
        for file in files
    )
    return round(sum(counts))


def meets(spans: Sequence[Span], first: datetime, last: datetime) -> bool:
    """True if a span has any time from the first to the last."""
    at = bisect_right(spans, last, key=lambda span: span[0])
    return at > 0 and spans[at - 1][1] > first
