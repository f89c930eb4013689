"""Formats numbers for people."""

import time
from datetime import UTC, datetime

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def amount(count: int) -> str:
    """A count with separators.

    >>> amount(1234567)
    '1,234,567'
    """
    return f"{count:,}"


def number(value: float) -> str:
    """A number as Kafka's tools print it, whole ones without a fraction.

    >>> number(1048576.0), number(12.5)
    ('1048576', '12.5')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def size(count_bytes: int | None) -> str:
    """A size [B] in binary units; None if it is unknown.

    >>> size(0), size(1536), size(3 << 30), size(None)
    ('0 B', '1.5 KiB', '3.0 GiB', 'unknown size')
    """
    if count_bytes is None:
        return "unknown size"
    value = float(count_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float) -> str:
    """A duration in its largest unit.

    >>> duration(0.4), duration(90), duration(90_000)
    ('0.4 s', '1.5 min', '1.0 d')
    """
    for step, unit in _STEPS:
        if seconds >= step:
            return f"{seconds / step:.1f} {unit}"
    return f"{seconds:.1f} s"


def ago(at_us: int) -> str:
    """The time since a wall time [us since the epoch]."""
    return f"{duration(max(0.0, time.time() - at_us / 1e6))} ago"


def at(at_us: int) -> str:
    """A wall time [us since the epoch] in UTC.

    >>> at(1_700_000_000_000_000)
    '2023-11-14T22:13:20.000Z'
    """
    moment = datetime.fromtimestamp(at_us / 1e6, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
