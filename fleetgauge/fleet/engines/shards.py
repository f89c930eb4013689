"""Client instances divided by their ids, so that a task reads, computes and holds some of them at a time.

Ids are 128 random bits in URL-safe base64, so that ranges of equal width have about as many clients each. Every file's
statistics name its least and greatest id: a task that reads one range passes over the files of others.
"""

from itertools import pairwise
from typing import Any, Final, TypeAlias

from fleetgauge.fleet.arrow import pc

Part: TypeAlias = tuple[str, str | None]
"""Ids from the first text on to before the second; None is no end."""

ROWS_AT_ONCE: Final = 50_000
"""Rows that a task holds at a time, if it can: of `windows`, the widest, some 100 MB."""

_DIGITS: Final = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
"""Of base64, in the order of their code points, which is that of texts in Arrow and in Delta's statistics."""
_PLACES: Final = 3


def parts(count: int) -> list[Part]:
    """Ranges of about equal width, which have every id once; 262,144 at most.

    >>> parts(1), parts(3)
    ([('', None)], [('', 'KKK'), ('KKK', 'eee'), ('eee', None)])
    >>> [low for low, _ in parts(64)] == ["", *_DIGITS[1:]]
    True
    """
    width = len(_DIGITS) ** _PLACES
    count = min(max(count, 1), width)
    bounds = ["", *(_text(width * number // count) for number in range(1, count))]
    return list(zip(bounds, [*bounds[1:], None], strict=True))


def divided(rows: int, tasks: int, rows_at_once: int = ROWS_AT_ONCE) -> list[list[Part]]:
    """Every id once: for each task the ranges that it takes one after the other.

    Args:
        rows: that there are of all ids.
        tasks: how many at most.
        rows_at_once: that a range has about.

    >>> [len(ranges) for ranges in divided(1_000_000, 3)], len(divided(1_000, 3))
    ([6, 7, 7], 1)
    """
    ranges = parts(-(-rows // rows_at_once))
    count = min(len(ranges), max(tasks, 1))
    bounds = [len(ranges) * number // count for number in range(count + 1)]
    return [ranges[begin:end] for begin, end in pairwise(bounds)]


def together(ranges: list[Part]) -> Part:
    """Ranges that follow one another, as one."""
    return ranges[0][0], ranges[-1][1]


def within(part: Part) -> Any:
    """The condition that rows are of these ids: a `pyarrow.compute.Expression`."""
    low, high = part
    name = pc.field("client_instance_id")
    return name >= low if high is None else (name >= low) & (name < high)


def _text(number: int) -> str:
    """A number as digits of base64, without zeros at its end: `A` is less than `A-` and than all else that follows."""
    found = ""
    for _ in range(_PLACES):
        number, digit = divmod(number, len(_DIGITS))
        found = _DIGITS[digit] + found
    return found.rstrip(_DIGITS[0])
