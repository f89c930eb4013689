"""Gold: producers, per window: what each sends, its errors, and the times that it waits."""

from functools import cache

from fleetgauge.fleet.gold.sql import KEY, WINDOWED, Query, listed, measures_of, over_windows, unknown
from fleetgauge.fleet.schemas import PRODUCERS

_OF_TOPICS = ("records_sent", "bytes_sent", "record_errors", "record_retries")
"""Measures that Java sends twice: for the producer, and for each of its topics."""


@cache
def producers() -> Query:
    """WINDOWS -> PRODUCERS: one row per producer instance and window that has any of the metrics.

    Records, bytes, errors and retries are what the totals grew by, without deltas that reach back before the
    subscription: the producer's own totals, or, where it was asked for those of topics alone, the sum over its topics.
    `bytes_sent` is what it wrote to its connections. Averages are means of the averages that it reported. Only Java
    counts records: of other clients they are null and in `unknown`.

    >>> columns = "client_instance_id dialect received_at metric_name topic value delta before_subscription"
    >>> producer = "org.apache.kafka.producer"
    >>> points = rows(POINTS, columns,
    ...     ("one", "java", "12:00:00", f"{producer}.record.send.total", None, 9.0, 9.0, False),
    ...     ("one", "java", "12:00:00", f"{producer}.topic.record.send.total", "a", 9.0, 9.0, False),
    ...     ("two", "java", "12:00:00", f"{producer}.topic.record.send.total", "a", 5.0, 5.0, False),
    ...     ("two", "java", "12:00:00", f"{producer}.topic.record.send.total", "b", 2.0, 2.0, False),
    ...     ("three", "librdkafka", "12:00:00", f"{producer}.record.queue.time.avg", None, 3.5, None, None))
    >>> found = answer(producers(), aggregate(points, 300))
    >>> show(found, "client_instance_id records_sent record_queue_time_avg_ms")
    client_instance_id  records_sent  record_queue_time_avg_ms
    one                 9             -
    three               -             3.5
    two                 7             -
    """
    measures = measures_of(PRODUCERS)
    own = [f"own.{name}" for name in measures if name not in _OF_TOPICS]
    either = [f"coalesce(own.{name}, topics.{name}) AS {name}" for name in _OF_TOPICS]
    return over_windows(
        PRODUCERS,
        f"""
        SELECT {WINDOWED}, greatest(producer_pushes, produce_throttle_pushes) AS pushes, {listed(measures)},
          producer_gap AS gap, producer_covers_gap AS covers_gap, {unknown(measures, "producer")} AS unknown
        FROM (
          SELECT {WINDOWED}, producer_pushes, produce_throttle_pushes, producer_gap, producer_covers_gap,
            {listed([*own, *either])}
          FROM clients own LEFT JOIN topics USING ({listed(KEY)})
        ) measured
        WHERE producer_pushes + produce_throttle_pushes > 0 OR records_sent IS NOT NULL
        """,
    )
