"""Selection of pushes by an operator, and its form on the command line. Independent of Spark."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from fleetgauge.fleet.errors import WrongOptionError
from fleetgauge.telemetry.push_record import format_instance_id, parse_instance_id

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DAYS_AGO = {"today": 0, "yesterday": 1}


class SelectionError(WrongOptionError):
    """A time or an instance id is not in a known form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which pushes to read; an empty collection or None selects all.

    Attributes:
        since: first time of receipt, inclusive (UTC).
        until: end of the times of receipt, exclusive (UTC).
        client_ids: client ids, exactly as the clients have them.
        instance_ids: client instance ids in Kafka's form, 22 characters.
    """

    since: datetime | None = None
    until: datetime | None = None
    client_ids: Collection[str] = ()
    instance_ids: Collection[str] = ()

    @property
    def ids(self) -> dict[str, Collection[str]]:
        """Selected values by column; other columns are not limited."""
        columns = {"client_id": self.client_ids, "client_instance_id": self.instance_ids}
        return {name: values for name, values in columns.items() if values}


def parse_time(text: str, now: datetime) -> datetime:
    """A time from a command line: an age such as `90s`, `30m`, `2h`, `7d`, or an ISO 8601 time, UTC unless it has an
    offset.

    `yesterday` and `today` are their midnights (UTC).

    >>> parse_time("2h", datetime(2026, 1, 31, 8, tzinfo=UTC)).isoformat()
    '2026-01-31T06:00:00+00:00'
    >>> parse_time("yesterday", datetime(2026, 1, 31, 8, tzinfo=UTC)).isoformat()
    '2026-01-30T00:00:00+00:00'

    Raises:
        SelectionError: the text is neither.
    """
    age = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    if (days := _DAYS_AGO.get(text.strip())) is not None:
        return datetime.combine(now.date(), time(), UTC) - timedelta(days=days)
    try:
        if age:
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise SelectionError(
            f"{text!r} is not a time: use an age (90s, 30m, 2h, 7d) or an ISO 8601 time (2026-01-31T08:00, UTC)"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Days from `first` to `last`, both inclusive (UTC)."""

    first: date = date.min
    last: date = date.max

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last


def parse_days(text: str) -> Days:
    """Days from a command line; a missing end is unbounded.

    >>> parse_days("2026-03-01..2026-03-05") == Days(first=date(2026, 3, 1), last=date(2026, 3, 5))
    True
    >>> parse_days("2026-03-01..").first, parse_days("2026-03-01").last
    (datetime.date(2026, 3, 1), datetime.date(2026, 3, 1))

    Raises:
        SelectionError: these are none, or the last comes before the first.
    """
    first, dots, last = text.partition("..")
    days = Days(
        first=parse_day(first) if first else date.min,
        last=parse_day(last) if last else date.max if dots else parse_day(first),
    )
    if days.last < days.first:
        raise SelectionError(f"{text!r} is not a range of days: the last is before the first")
    return days


def parse_day(text: str) -> date:
    """A day such as 2026-03-01.

    Raises:
        SelectionError: it is none.
    """
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise SelectionError(f"{text!r} is not a day: use a date such as 2026-03-01") from error


def parse_instance_ids(texts: Iterable[str]) -> tuple[str, ...]:
    """Client instance ids in any form that clients log, in Kafka's form.

    Raises:
        SelectionError: one of them is in none.
    """
    try:
        return tuple(format_instance_id(parse_instance_id(text)) for text in texts)
    except ValueError as error:
        raise SelectionError(str(error)) from error
