"""When a client counts as gone: the one rule for the node's instances, the inventory, the console and tables.

The page of client series keeps them by the same intervals, without the minute; a verdict has a limit of its own.

A client may wait 1.5 push intervals after it was given another one (KIP-714, Client behavior), and only then do its
pushes show it. So its interval is that of the latest answer to a Get where it is known, else the longest of those that
its latest two pushes had and the subscriptions in force give it, where these are known.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

DEFAULT_PUSH_INTERVAL_MS: Final = 300_000
"""Where a record has no interval (KIP-714: the default of `interval.ms`) [ms]."""

IntervalOf = Callable[[Mapping[str, Any]], int]
"""The push interval that the subscriptions in force give a client [ms], by the names of its push record's fields."""

ABSENT_INTERVALS: Final = 3
ABSENT_AT_LEAST_MS: Final = 60_000


def absent_after_ms(push_interval_ms: int) -> int:
    """Time without a request or push after which a client counts as gone [ms].

    >>> absent_after_ms(60_000), absent_after_ms(1_000)
    (180000, 60000)
    """
    return max(ABSENT_AT_LEAST_MS, ABSENT_INTERVALS * push_interval_ms)


def expected_interval_ms(answered_ms: int | None, *others_ms: int | None) -> int:
    """The push interval that a client is judged by [ms].

    >>> expected_interval_ms(300_000, 15_000, 15_000), expected_interval_ms(None, 15_000, 60_000)
    (300000, 60000)

    Args:
        answered_ms: of the latest answer to its Get, if we gave it.
        others_ms: of its latest pushes and of the subscriptions, as far as known.
    """
    return answered_ms or max(filter(None, others_ms), default=DEFAULT_PUSH_INTERVAL_MS)
