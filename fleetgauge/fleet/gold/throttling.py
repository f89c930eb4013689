"""Gold: throttling, the time that brokers made each client wait for a quota, by their responses."""

from functools import cache
from typing import Final

from fleetgauge.fleet.gold.sql import WINDOWED, Query, described, listed, literal, over_windows
from fleetgauge.fleet.schemas import THROTTLING
from fleetgauge.telemetry.catalogue.standard_metrics import telemetry_name

_REQUESTS: Final = (
    ("produce", "producer-metrics", False),
    ("fetch", "consumer-fetch-manager-metrics", False),
    ("fetch", "consumer-share-fetch-manager-metrics", True),
)
"""Kinds of request, Kafka's groups (JMX), and whether share consumers have them. A response has one throttle time for
all quotas that were exceeded, so the REQUEST quota's time is included; clients measure no throttling of other requests.
"""


@cache
def throttling() -> Query:
    """WINDOWS -> THROTTLING: [ms], one row per client instance, kind of request and window.

    `throttle_avg_ms` is the mean of the averages that the client reported, `throttle_max_ms` the largest maximum; both
    null with no `samples` where it asked and nothing was recorded. 0 is what a broker said, or what librdkafka says
    when none answered: not throttled either way. A client that does not send the metric has no row.

    >>> columns = "client_instance_id received_at metric_name value"
    >>> produce = "org.apache.kafka.producer.produce.throttle.time"
    >>> points = rows(POINTS, columns, ("one", "12:00:00", f"{produce}.max", 0.0),
    ...     ("one", "12:01:00", f"{produce}.avg", 120.0), ("one", "12:01:00", f"{produce}.max", 900.0),
    ...     ("two", "12:01:00", f"{produce}.max", None))
    >>> found = answer(throttling(), aggregate(points, 300))
    >>> show(found, "client_instance_id request throttle_avg_ms throttle_max_ms samples throttled")
    client_instance_id  request  throttle_avg_ms  throttle_max_ms  samples  throttled
    one                 produce  120              900              2        1
    two                 produce  -                -                0        0
    """
    kinds = listed(
        f"({literal(request)}, {share}, {described(telemetry_name(group, f'{request}-throttle-time'))})"
        for request, group, share in _REQUESTS
    )
    figures = ("throttle_avg_ms", "throttle_max_ms", "throttle_samples", "throttled", "throttle_pushes")
    measured = listed(
        f"CASE request WHEN 'produce' THEN produce_{name} ELSE fetch_{name} END AS {name}" for name in figures
    )
    return over_windows(
        THROTTLING,
        f"""
        SELECT {WINDOWED}, request, metric, throttle_avg_ms, throttle_max_ms, throttle_samples AS samples, throttled,
          unit, meaning
        FROM (
          SELECT {WINDOWED}, request, {measured}, metric, unit, meaning
          FROM clients CROSS JOIN (VALUES {kinds}) AS kinds(request, of_share, metric, unit, meaning)
          WHERE request = 'produce' OR (share_pushes > 0) = of_share
        ) asked
        WHERE throttle_pushes > 0
        """,
    )
