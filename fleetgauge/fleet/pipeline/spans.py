"""Times of receipt that something changed in, and the condition by which files of other times are passed over.

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
"""That a condition names; of more, whole days are taken."""

_DAY: Final = timedelta(days=1)
LIVE_WINDOW_S: Final = 60
"""Length of the windows that are judged as they end [s], by the console and a watch: a verdict waits for that."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def from_micros(micros: int) -> datetime:
    """Of microseconds since the epoch, in UTC."""
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
    """The same times in as few spans as can be."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def bounded(spans: Iterable[Span]) -> list[Span]:
    """The same times, or, where these are more than MAX_SPANS spans, all of their days."""
    found = joined(spans)
    return found if len(found) <= MAX_SPANS else joined(map(whole, days(found)))


def days(spans: Iterable[Span]) -> list[date]:
    """The days that spans have a part of, in order."""
    found: set[date] = set()
    for begin, end in spans:
        first, last = begin.date(), (end - timedelta.resolution).date()
        found.update(first + number * _DAY for number in range((last - first).days + 1))
    return sorted(found)


def windows(spans: Iterable[Span], window_s: int) -> list[datetime]:
    """Where the windows of `window_s` [s] in these spans begin."""
    window = timedelta(seconds=window_s)
    return [begin + number * window for begin, end in spans for number in range((end - begin) // window)]


def within(spans: Sequence[Span], column: str) -> Any:
    """The condition that the time in `column` is in a span: a `pyarrow.compute.Expression`."""
    found = pc.scalar(False)
    for begin, end in spans:
        found |= (pc.field(column) >= pa.scalar(begin, TIME)) & (pc.field(column) < pa.scalar(end, TIME))
    return of_days(days(spans)) & found


def of_days(wanted: Iterable[date]) -> Any:
    """The condition that rows are of these days."""
    return pc.field(DATE).isin(pa.array(wanted, pa.date32()))


def part_in(spans: Sequence[Span], first: datetime, last: datetime) -> float:
    """How much of the time from the first on to before the last is in spans, up to 1.

    >>> noon, day = datetime(2026, 3, 1, 12, tzinfo=UTC), whole(date(2026, 3, 1))
    >>> part_in([(noon, day[1])], *day)
    0.5
    """
    inside = sum((max(min(last, end) - max(first, begin), timedelta()) for begin, end in spans), timedelta())
    return inside / (last - first)


def rows_within(files: Iterable[Mapping[str, Any]], spans: Sequence[Span], window_s: int) -> int:
    """About how many rows files with windows have of spans."""
    window = timedelta(seconds=window_s)
    found: Iterator[float] = (
        file["num_records"] * part_in(spans, file["min.window_start"], file["max.window_start"] + window)
        for file in files
    )
    return round(sum(found))


def meets(spans: Sequence[Span], first: datetime, last: datetime) -> bool:
    """True if any time from the first to the last is in a span."""
    at = bisect_right(spans, last, key=lambda span: span[0])
    return at > 0 and spans[at - 1][1] > first
