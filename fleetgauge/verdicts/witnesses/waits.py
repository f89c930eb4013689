"""Time in a consumer's latencies that no broker causes: time away from poll(), and waits for data.

`verdicts.families.latency` and the console's view of brokers both use it, so that they agree.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers

FETCH_WAIT_MS: Final = np.array([500, 500, 5000, 500])
"""Longest time that a broker holds a fetch without data, by dialect (Java, librdkafka, franz-go, others at -1) [ms]: up
to it a consumer's latency depends on its traffic, and proves nothing about a client or a path."""

LEAST_CLIENTS: Final = 3
"""Least number of paths that show what a node's clients have in common."""

POLL_MEASURES: Final = (
    "poll_idle_ratio_avg", "time_between_poll_avg_ms", "last_poll_seconds_ago", "network_thread_poll_avg_ms",
)  # fmt: skip
"""Columns that `waits_for_poll` reads."""

_LONG_MS: Final = 100
"""Shorter absences from poll() explain nothing: Kafka measures the idle ratio in whole milliseconds [ms]."""


def time_in_poll(idle_ratio: Numbers) -> Numbers:
    """Share of their time that Java consumers spend in poll(), by their `poll.idle.ratio`; NaN where that is unknown.

    The ratio is not that share: Kafka (`KafkaConsumerMetrics`) divides the time in a call by the sum of this time and
    the time since the call before began. A consumer that does nothing but poll has 0.5.

    >>> time_in_poll(np.array([0.5, 0.2, 0.0, 0.6])).tolist()
    [1.0, 0.25, 0.0, 1.0]
    """
    share: Numbers = np.minimum(idle_ratio / np.maximum(1 - idle_ratio, 0.5), 1.0)
    return share


def away_from_poll_ms(between_ms: Numbers, idle_ratio: Numbers) -> Numbers:
    """Time of Java consumers away from poll() between two calls [ms], by their averages; NaN where one is unknown.

    >>> away_from_poll_ms(np.array([1000.0, 1000.0, 1500.0]), np.array([0.5, 0.2, 0.0])).tolist()
    [0.0, 750.0, 1500.0]
    """
    away_ms: Numbers = between_ms * (1 - time_in_poll(idle_ratio))
    return away_ms


def explains_latency(away_ms: Numbers, latency_ms: Numbers) -> Numbers:
    """True where absences from poll() are long enough to explain half of a latency or more; False where unknown.

    >>> explains_latency(np.array([1421.0, 1421.0, 90.0, np.nan]), np.array([2842.0, 2844.0, 10.0, 10.0])).tolist()
    [True, False, False, False]
    """
    return away_ms >= np.fmax(_LONG_MS, latency_ms / 2)


def waits_for_poll(
    number: Callable[[str], Numbers], is_java: Numbers, client_of: Numbers, latency_ms: Numbers
) -> Numbers:
    """True for Java consumers that were away from poll(), which reads responses, long enough to explain their latency.

    Args:
        number: returns a column of `POLL_MEASURES`, one value per client.
        is_java: of each client.
        client_of: place of each link's client.
        latency_ms: of each link.
    """
    away_ms = away_from_poll_ms(number("time_between_poll_avg_ms"), number("poll_idle_ratio_avg"))
    longest_ms = np.zeros(len(is_java))
    may_explain = (away_ms >= _LONG_MS)[client_of]
    np.maximum.at(longest_ms, client_of[may_explain], latency_ms[may_explain])
    long_ago = np.fmax(number("last_poll_seconds_ago"), 0) * 1000 > _LONG_MS * 10
    is_away = explains_latency(away_ms, longest_ms) | (np.isnan(away_ms) & long_ago)
    return is_away & is_java & np.isnan(number("network_thread_poll_avg_ms"))


def broker_time_ms(latency_ms: Numbers, is_consumer: Numbers, dialect: Numbers, is_waiting: Numbers) -> Numbers:
    """Part of each link's latency that is evidence about its broker [ms]; NaN where none is.

    For a consumer it is the time beyond the longest wait for data: of librdkafka's 502 ms, 2 ms. It is NaN for shorter
    latencies, and if the client `waits_for_poll`.

    >>> latency, is_consumer = np.array([20.0, 502.0, 300.0, 900.0]), np.array([False, True, True, True])
    >>> broker_time_ms(latency, is_consumer, np.array([0, 1, 1, 0]), np.array([False, False, False, True])).tolist()
    [20.0, 2.0, nan, nan]
    """
    beyond = latency_ms - FETCH_WAIT_MS[dialect]
    return np.where(is_consumer, np.where((beyond > 0) & ~is_waiting, beyond, np.nan), latency_ms)
