"""Ranges of client instance ids, so that a task reads, computes and holds some instances at a time.

Ids are 128 random bits in URL-safe base64, so that ranges of equal width have about as many clients each. Every file's
statistics name its least and greatest id: a task that reads one range passes over the files of others.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from fleetgauge.fleet.arrow import pa, pc
from fleetgauge.fleet.measures.rows import Numbers, one

Part: TypeAlias = tuple[str, str | None]
"""Ids from the first text on, up to but excluding the second; None is no end."""

ROWS_AT_ONCE: Final = 50_000
"""Rows that a task holds at a time if possible: of `windows`, the widest table, some 100 MB."""

_DIGITS: Final = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
"""Digits of base64 in the order of their code points, which is the order of texts in Arrow and in Delta's statistics.
"""
_PLACES: Final = 3

FEWEST_SHARDS: Final = 64
_SHARDS: Final = (FEWEST_SHARDS, 256, 1024, 4096)
_SHARDS_A_TASK: Final = 8
_PLACES_OF_SHARDS: Final = 2
_BITS: Final = 0xFFFFFFFF


def parts(count: int) -> list[Part]:
    """Ranges of about equal width that cover every id once; at most 262,144.

    >>> parts(1), parts(3)
    ([('', None)], [('', 'KKK'), ('KKK', 'eee'), ('eee', None)])
    >>> [low for low, _ in parts(64)] == ["", *_DIGITS[1:]]
    True
    """
    width = len(_DIGITS) ** _PLACES
    count = min(max(count, 1), width)
    bounds = ["", *(_text(width * number // count) for number in range(1, count))]
    return list(zip(bounds, [*bounds[1:], None], strict=True))


def shards_for(tasks: int) -> int:
    """Number of shards that suits so many tasks; shards are ranges as in `parts`, about as many for each task.

    SERIES have a file for each, so that they are few where one task has all of them: 64, those of ids that begin with
    the same character. A task of 200 has 20 or 21 of 4,096.

    >>> [shards_for(tasks) for tasks in (1, 8, 32, 200)]
    [64, 64, 256, 4096]
    """
    return next(count for count in _SHARDS if count >= min(_SHARDS_A_TASK * tasks, _SHARDS[-1]))


def shards_of(ids: Any, shards: int) -> Numbers:
    """Shard number of each id, a `pyarrow.Array` of texts; 0 for null."""
    beginnings = pc.utf8_slice_codeunits(ids, 0, _PLACES_OF_SHARDS).dictionary_encode()
    of_text = [_number(text) * shards // _SHARDS[-1] for text in beginnings.dictionary.to_pylist()]
    numbers: Numbers = np.array([*of_text, 0])[beginnings.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return numbers


def by_shard(rows: Any, shards: int) -> Iterator[tuple[int, Any]]:
    """Rows of each shard of a table or batch with `client_instance_id`."""
    numbers = shards_of(one(rows["client_instance_id"]), shards)
    for number in np.unique(numbers).tolist():
        yield number, rows.filter(pa.array(numbers == number))


def task_of(column: str, shards: int, tasks: int) -> str:
    """Spark SQL for the number of the task that has an id's shard: `shards_of` for a column of texts.

    The number of a null, or of what is no id, is that of some task.
    """
    digits = (f"greatest(instr('{_DIGITS}', substring({column}, {place}, 1)) - 1, 0)" for place in (1, 2))
    number = f"({' * 64 + '.join(digits)})"
    return f"coalesce({number} * {shards} div {_SHARDS[-1]} * {tasks} div {shards}, 0)"


def placed(tasks: int) -> list[int]:
    """For each task number, the least whole number whose rows Spark puts into the partition of that number.

    Spark gives a row to the partition that its hash names, modulo their number: of as many numbers as tasks, several
    would go to the same one, and none to a third of them.
    """
    number_for: dict[int, int] = {}
    for number in count():
        number_for.setdefault(_hash(number) % tasks, number)
        if len(number_for) == tasks:
            return [number_for[task] for task in range(tasks)]
    raise AssertionError


def divided(rows: int, tasks: int, rows_at_once: int = ROWS_AT_ONCE) -> list[list[Part]]:
    """Ranges that each task processes one after the other; together they cover every id once.

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
    """Adjacent ranges as one range."""
    return ranges[0][0], ranges[-1][1]


def within(part: Part) -> Any:
    """Condition that rows have these ids: a `pyarrow.compute.Expression`."""
    low, high = part
    name = pc.field("client_instance_id")
    return name >= low if high is None else (name >= low) & (name < high)


def _number(text: str) -> int:
    """The first digits of an id as a number, in the order of texts; other texts also get some number."""
    number = 0
    for character in text.ljust(_PLACES_OF_SHARDS, _DIGITS[0])[:_PLACES_OF_SHARDS]:
        number = number * len(_DIGITS) + min(bisect_left(_DIGITS, character), len(_DIGITS) - 1)
    return number


def _hash(number: int) -> int:
    """Spark's hash of a 32-bit integer (Murmur3, seed 42), without sign, or equal to it modulo any number of tasks."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593
    hashed = (_rotated(42 ^ mixed & _BITS, 13) * 5 + 0xE6546B64) & _BITS ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashed = (hashed ^ hashed >> shift) * factor & _BITS
    return hashed - (hashed >> 31 << 32)


def _rotated(number: int, by: int) -> int:
    number &= _BITS
    return (number << by | number >> 32 - by) & _BITS


def _text(number: int) -> str:
    """A number as base64 digits, without zeros at the end: `A` sorts before `A-` and everything that follows."""
    text = ""
    for _ in range(_PLACES):
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text.rstrip(_DIGITS[0])
