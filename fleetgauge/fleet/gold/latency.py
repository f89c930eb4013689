"""Gold: latency, how long brokers take to answer each client, as the clients see it.

A Java consumer without a network thread of its own (group.protocol=classic) reads responses in `poll()` alone: its
latencies hold the time that its application is elsewhere meanwhile, and say little of the broker.
"""

from functools import cache
from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Array, Table, conformed, pa
from fleetgauge.fleet.gold.sql import WINDOWED, Query, described, listed, literal, over_windows
from fleetgauge.fleet.measures.catalogue import BY_COLUMN, ROLES_OF_NODES
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.measures.rows import Numbers, filled, is_valid
from fleetgauge.fleet.measures.values import Wide
from fleetgauge.fleet.schemas import LATENCY, LATENCY_OVERALL
from fleetgauge.telemetry.catalogue.standard_metrics import telemetry_name
from fleetgauge.verdicts.witnesses.waits import away_from_poll_ms, explains_latency

_TIMES: Final = (
    *((role, group, "request_latency") for group, role in ROLES_OF_NODES.items()),
    ("producer", "producer-metrics", "request_latency"),
    ("producer", "producer-metrics", "record_queue_time"),
    ("consumer", "consumer-fetch-manager-metrics", "fetch_latency"),
    ("consumer", "consumer-coordinator-metrics", "commit_latency"),
    ("share-consumer", "consumer-share-fetch-manager-metrics", "fetch_latency"),
)
"""Times that clients measure: role, Kafka's group (JMX), and the prefix of the measure before `_avg_ms`."""


_REST: Final = "latency_avg_ms, latency_max_ms, samples, unit, meaning, node_id < 0 AS bootstrap"


@cache
def latency() -> Query:
    """WINDOWS -> LATENCY: [ms], one row per client instance, metric, broker link and window.

    A link of node -1 is one to a bootstrap server, or librdkafka's to a logical broker (`bootstrap`): its latency is
    of no broker that is known.

    `latency_avg_ms` is the mean of the averages that the client reported, `samples` their number, `latency_max_ms`
    the largest maximum. Where nothing was recorded there is no row. Links of one identity (librdkafka has several of
    -1) are one row. Share consumers have the latency of fetches under a name of their own.

    >>> columns = "received_at metric_name node_id coordinator value"
    >>> node = "org.apache.kafka.producer.node.request.latency"
    >>> points = rows(POINTS, columns, ("12:00:00", f"{node}.avg", 1, False, 3.0),
    ...     ("12:01:00", f"{node}.avg", 1, False, 5.0), ("12:01:00", f"{node}.max", 1, False, 40.0),
    ...     ("12:06:00", f"{node}.avg", 1, False, None))
    >>> found = answer(latency(), aggregate(points, 300))
    >>> show(found, "window_start role node_id bootstrap latency_avg_ms latency_max_ms samples unit")
    window_start  role      node_id  bootstrap  latency_avg_ms  latency_max_ms  samples  unit
    12:00:00      producer  1        no         4               40              2        ms
    """
    return over_windows(
        LATENCY,
        f"""
        SELECT {WINDOWED}, role, metric, node_id, coordinator, {_REST} FROM (
          SELECT {WINDOWED}, role, metric, node_id, coordinator, request_latency_avg_ms AS latency_avg_ms,
            request_latency_max_ms AS latency_max_ms, request_latency_avg_ms_samples AS samples, unit, meaning
          FROM links JOIN {_times(of_links=True)} ON role = of_role
          UNION ALL
          SELECT {WINDOWED}, of_role AS role, metric, NULL AS node_id, NULL AS coordinator,
            {_measured("avg_ms")} AS latency_avg_ms, {_measured("max_ms")} AS latency_max_ms,
            {_measured("avg_ms_samples")} AS samples, unit, meaning
          FROM clients CROSS JOIN {_times(of_links=False)}
          WHERE of_time <> 'fetch_latency' OR (share_pushes > 0) = (of_role = 'share-consumer')
        ) measured
        WHERE latency_avg_ms IS NOT NULL OR latency_max_ms IS NOT NULL
        """,
    )


def _times(*, of_links: bool) -> str:
    """The relation `times` of those that links have, or clients."""
    rows = [
        f"({literal(role)}, {literal(time)}, {described(telemetry_name(group, time.replace('_', '-')))})"
        for role, group, time in _TIMES
        if (group in ROLES_OF_NODES) == of_links
    ]
    return f"(VALUES {listed(rows)}) AS times(of_role, of_time, metric, unit, meaning)"


def _measured(suffix: str) -> str:
    """The measure of a row of clients and times."""
    names = sorted({time for _, group, time in _TIMES if group not in ROLES_OF_NODES})
    return f"CASE of_time {' '.join(f'WHEN {literal(name)} THEN {name}_{suffix}' for name in names)} END"


_LINKS: Final = ("producer", "consumer")
_POLL: Final = ("poll_idle_ratio_avg", "time_between_poll_avg_ms", "time_between_poll_max_ms")
_NETWORK_THREAD: Final = "network_thread_poll_avg_ms"

METRIC_NAMES: Final = frozenset(
    [telemetry_name(f"{role}-node-metrics", f"request-latency-{each}") for role in _LINKS for each in ("avg", "max")]
    + [name for column in (*_POLL, _NETWORK_THREAD) for name in BY_COLUMN[column].names]
)
"""The metrics that `overall` needs; points of others need not be decoded for it."""


def overall(rows: Table) -> Table:
    """ROWS of any windows -> LATENCY_OVERALL: the same by broker link alone, over the whole time.

    `waits_for_poll` is true for links of a Java consumer that was away from `poll()` for 100 ms or more each time on
    average, which explains half of the latency or more: with 1,500 ms between two polls and an idle ratio of 0.05 it
    was away for 1,421 ms (`away_from_poll_ms`), and a latency of up to 2,842 ms may be its own doing. Null where the
    consumer sends neither.

    >>> columns = "client_instance_id dialect received_at metric_name node_id coordinator value"
    >>> consumer = "org.apache.kafka.consumer"
    >>> latency, idle, between = (f"{consumer}.{name}.avg" for name in ("node.request.latency", "poll.idle.ratio",
    ...     "time.between.poll"))
    >>> points = rows(POINTS, columns, ("one", "java", "12:00:00", latency, 1, False, 900.0),
    ...     ("one", "java", "12:00:00", idle, None, None, 0.05),
    ...     ("one", "java", "12:00:00", between, None, None, 1500.0),
    ...     ("two", "java", "12:00:00", latency, 1, False, 900.0),
    ...     ("two", "java", "12:00:00", idle, None, None, 0.48),
    ...     ("two", "java", "12:00:00", between, None, None, 1500.0))
    >>> found = overall(aggregate(points, 300))
    >>> show(found, "client_instance_id latency_avg_ms time_between_poll_avg_ms waits_for_poll")
    client_instance_id  latency_avg_ms  time_between_poll_avg_ms  waits_for_poll
    one                 900             1500                      yes
    two                 900             1500                      no
    """
    given = Wide(merge([_without_windows(rows)]))
    is_known = is_valid(given.value("request_latency_avg_ms")) | is_valid(given.value("request_latency_max_ms"))
    is_link = np.logical_or.reduce([given.has_role(role) for role in _LINKS])
    is_link &= is_valid(given.rows["node_id"])
    links = np.flatnonzero(is_known & is_link)
    columns = given.columns((*LATENCY_OVERALL.names, "dialect"), links)
    columns |= {
        f"latency_{each}_ms": given.value(f"request_latency_{each}_ms").take(pa.array(links)) for each in ("avg", "max")
    }
    columns["samples"] = pa.array(given.count("request_latency_avg_ms_count")[links])
    is_consumer = given.has_role("consumer")[links]
    client = given.client_of[links]
    of_consumer = pa.array(client, mask=~is_consumer | (client < 0))
    columns |= {name: given.value(name).take(of_consumer) for name in (*_POLL, _NETWORK_THREAD)}
    columns["waits_for_poll"] = _waits_for_poll(columns, is_consumer)
    return conformed(LATENCY_OVERALL, columns, len(links))


def _without_windows(rows: Table) -> Table:
    at = rows.schema.get_field_index("window_start")
    return rows.set_column(at, rows.schema.field(at), pa.nulls(rows.num_rows, rows.schema.field(at).type))


def _waits_for_poll(columns: dict[str, Array], is_consumer: Numbers) -> Array:
    numbers = {name: filled(columns[name], np.nan) for name in (*_POLL, _NETWORK_THREAD, "latency_avg_ms")}
    away_ms = away_from_poll_ms(numbers["time_between_poll_avg_ms"], numbers["poll_idle_ratio_avg"])
    explains = explains_latency(away_ms, numbers["latency_avg_ms"])
    is_java = np.array([dialect == "java" for dialect in columns["dialect"].to_pylist()], np.bool_)
    reads_in_poll = is_consumer & is_java & np.isnan(numbers[_NETWORK_THREAD])
    return pa.array(reads_in_poll & explains, mask=reads_in_poll & np.isnan(away_ms))
