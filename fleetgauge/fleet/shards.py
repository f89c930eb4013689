"""Client instances divided by their ids, so that a task reads, computes and holds some of them at a time.

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
"""Ids from the first text on to before the second; None is no end."""

ROWS_AT_ONCE: Final = 50_000
"""Rows that a task holds at a time, if it can: of `windows`, the widest, some 100 MB."""

_DIGITS: Final = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
"""Of base64, in the order of their code points, which is that of texts in Arrow and in Delta's statistics."""
_PLACES: Final = 3

FEWEST_SHARDS: Final = 64
_SHARDS: Final = (FEWEST_SHARDS, 256, 1024, 4096)
_SHARDS_A_TASK: Final = 8
_PLACES_OF_SHARDS: Final = 2
_BITS: Final = 0xFFFFFFFF


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


def shards_for(tasks: int) -> int:
    """Into how many shards, ranges as those of `parts`, instances are divided so that tasks have about as many each.

    SERIES have a file for each, so that they are few where one task has all of them: 64, those of ids that begin with
    the same character. A task of 200 has 20 or 21 of 4,096.

    >>> [shards_for(tasks) for tasks in (1, 8, 32, 200)]
    [64, 64, 256, 4096]
    """
    return next(count for count in _SHARDS if count >= min(_SHARDS_A_TASK * tasks, _SHARDS[-1]))


def shards_of(ids: Any, shards: int) -> Numbers:
    """The number of the shard of each id, a `pyarrow.Array` of texts; 0 of null."""
    beginnings = pc.utf8_slice_codeunits(ids, 0, _PLACES_OF_SHARDS).dictionary_encode()
    of_text = [_number(text) * shards // _SHARDS[-1] for text in beginnings.dictionary.to_pylist()]
    numbers: Numbers = np.array([*of_text, 0])[beginnings.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return numbers


def by_shard(rows: Any, shards: int) -> Iterator[tuple[int, Any]]:
    """The rows of each shard, of a table or a batch with `client_instance_id`."""
    numbers = shards_of(one(rows["client_instance_id"]), shards)
    for number in np.unique(numbers).tolist():
        yield number, rows.filter(pa.array(numbers == number))


def placed(tasks: int) -> list[int]:
    """For each number of a task the least whole number whose rows Spark gives to the partition of that number.

    Spark gives a row to the partition that its hash names, modulo their number: of as many numbers as tasks, several
    would go to the same one, and none to a third of them.
    """
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(_hash(number) % tasks, number)
        if len(found) == tasks:
            return [found[task] for task in range(tasks)]
    raise AssertionError


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


def _number(text: str) -> int:
    """The first places of an id as a number, by the order of texts; what is no id has some number, too."""
    found = 0
    for character in text.ljust(_PLACES_OF_SHARDS, _DIGITS[0])[:_PLACES_OF_SHARDS]:
        found = found * len(_DIGITS) + min(bisect_left(_DIGITS, character), len(_DIGITS) - 1)
    return found


def _hash(number: int) -> int:
    """Spark's of a whole number of 32 bits (Murmur3, seed 42), as one without a sign or, where it has one, one that is
    the same modulo any number.
    """
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593
    found = (_rotated(42 ^ mixed & _BITS, 13) * 5 + 0xE6546B64) & _BITS ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> shift) * factor & _BITS
    return found - (found >> 31 << 32)


def _rotated(number: int, by: int) -> int:
    number &= _BITS
    return (number << by | number >> 32 - by) & _BITS


def _text(number: int) -> str:
    """A number as digits of base64, without zeros at its end: `A` is less than `A-` and than all else that follows."""
    found = ""
    for _ in range(_PLACES):
        number, digit = divmod(number, len(_DIGITS))
        found = _DIGITS[digit] + found
    return found.rstrip(_DIGITS[0])
