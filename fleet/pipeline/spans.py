"""When pushes were received, day by day: which rows of a table new ones touch, as a condition that prunes its files."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeAlias

from fleet.tables.catalog import DATE

Span: TypeAlias = tuple[datetime, datetime]
"""The first and the last of some times of receipt of one day."""

MAX_SPANS: Final = 100
"""Days that a condition names the times of; of more it names the days alone."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SQL: Final = "%Y-%m-%d %H:%M:%S.%f"


def from_micros(micros: int) -> datetime:
    """Of microseconds since the epoch, in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def whole(day: date) -> Span:
    """All of a day (UTC)."""
    begin = datetime.combine(day, time(), UTC)
    return begin, begin + timedelta(days=1) - _MICROSECOND


def of_windows(span: Span, window_s: int) -> Span:
    """From the beginning of the first window of `window_s` [s] that a span falls into to the end of the last.

    >>> first, last = of_windows((datetime(2026, 3, 1, 12, 4, 10), datetime(2026, 3, 1, 12, 5)), 300)
    >>> str(first.time()), str(last.time())
    ('12:00:00', '12:09:59.999999')
    """
    begin = datetime.combine(span[0].date(), time(), span[0].tzinfo)
    window = timedelta(seconds=window_s)
    first, last = ((at - begin) // window for at in span)
    return begin + first * window, begin + (last + 1) * window - _MICROSECOND


def of_days(days: Iterable[date]) -> str:
    """A condition in SQL.

    >>> of_days([date(2026, 3, 1)])
    "date IN (DATE'2026-03-01')"
    """
    listed = ", ".join(f"DATE'{day}'" for day in days)
    return f"{DATE} IN ({listed})"


def within(spans: Mapping[date, Span], column: str) -> str:
    """A condition in SQL, for a session in UTC: of these days, and `column` within the span of its day."""
    if len(spans) > MAX_SPANS:
        return of_days(spans)
    of_each = (
        f"{DATE} = DATE'{day}' AND {column} BETWEEN TIMESTAMP'{first:{_SQL}}' AND TIMESTAMP'{last:{_SQL}}'"
        for day, (first, last) in spans.items()
    )
    return f"{of_days(spans)} AND ({' OR '.join(of_each)})"
