"""Gold: throttling, how long brokers had each client wait for its quota, as their answers said."""

from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.measures.values import Wide, described
from fleetgauge.fleet.schemas import THROTTLING
from fleetgauge.telemetry.catalogue.standard_metrics import telemetry_name

_REQUESTS: Final = (
    ("produce", "producer-metrics", False),
    ("fetch", "consumer-fetch-manager-metrics", False),
    ("fetch", "consumer-share-fetch-manager-metrics", True),
)
"""Kinds of request, Kafka's groups (JMX), and if share consumers have them. A broker's answer says one time for all
quotas that it ran into, so the REQUEST quota's is in these too; clients measure no other requests' throttling.
"""


def throttling(rows: Table) -> Table:
    """Merged ROWS -> THROTTLING: [ms], one row a client instance, kind of request and window.

    `throttle_avg_ms` is the mean of the averages that the client reported, `throttle_max_ms` the largest maximum; both
    null with no `samples` where it asked and nothing was recorded. 0 is what a broker said, or what librdkafka says
    when none answered: not throttled either way. A client that does not send the metric has no row.

    >>> columns = "client_instance_id received_at metric_name value"
    >>> produce = "org.apache.kafka.producer.produce.throttle.time"
    >>> points = rows(POINTS, columns, ("one", "12:00:00", f"{produce}.max", 0.0),
    ...     ("one", "12:01:00", f"{produce}.avg", 120.0), ("one", "12:01:00", f"{produce}.max", 900.0),
    ...     ("two", "12:01:00", f"{produce}.max", None))
    >>> found = throttling(aggregate(points, 300))
    >>> show(found, "client_instance_id request throttle_avg_ms throttle_max_ms samples throttled")
    client_instance_id  request  throttle_avg_ms  throttle_max_ms  samples  throttled
    one                 produce  120              900              2        1
    two                 produce  -                -                0        0
    """
    given = Wide(rows)
    return pa.concat_tables([THROTTLING.empty_table(), *(_of_request(given, *each) for each in _REQUESTS)])


def _of_request(given: Wide, request: str, group: str, of_share_consumers: bool) -> Table:
    is_asked = given.count(f"{request}_throttle_pushes") > 0
    if request == "fetch":
        is_asked &= (given.count("share_pushes") > 0) == of_share_consumers
    chosen = np.flatnonzero(is_asked)
    at = pa.array(chosen)
    names = ("throttle_avg_ms", "throttle_max_ms", "throttle_samples", "throttled")
    columns = {name.replace("throttle_samples", "samples"): given.value(f"{request}_{name}").take(at) for name in names}
    columns |= described(telemetry_name(group, f"{request}-throttle-time")) | {"request": request}
    return given.table(THROTTLING, chosen, columns)
