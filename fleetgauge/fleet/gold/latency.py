"""Gold: latency, how long brokers take to answer each client, as the clients see it.

A Java consumer without a network thread of its own (group.protocol=classic) reads responses in `poll()` alone: its
latencies hold the time that its application is elsewhere meanwhile, and say little of the broker.
"""

from typing import Final, NamedTuple

import numpy as np

from fleetgauge.fleet.arrow import Array, Table, conformed, pa
from fleetgauge.fleet.measures.catalogue import BY_COLUMN, ROLES_OF_NODES
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.measures.rows import Numbers, filled, is_valid
from fleetgauge.fleet.measures.values import Wide, described
from fleetgauge.fleet.schemas import LATENCY, LATENCY_OVERALL
from fleetgauge.telemetry.catalogue.standard_metrics import telemetry_name
from fleetgauge.verdicts.witnesses.waits import away_from_poll_ms, explains_latency


class _Time(NamedTuple):
    """A time that clients measure; Kafka's names (JMX), to which `-avg` and `-max` belong."""

    role: str
    group: str
    name: str


_TIMES: Final = (
    *(_Time(role, group, "request-latency") for group, role in ROLES_OF_NODES.items()),
    _Time("producer", "producer-metrics", "request-latency"),
    _Time("producer", "producer-metrics", "record-queue-time"),
    _Time("consumer", "consumer-fetch-manager-metrics", "fetch-latency"),
    _Time("consumer", "consumer-coordinator-metrics", "commit-latency"),
    _Time("share-consumer", "consumer-share-fetch-manager-metrics", "fetch-latency"),
)
_LINKS: Final = ("producer", "consumer")
_POLL: Final = ("poll_idle_ratio_avg", "time_between_poll_avg_ms", "time_between_poll_max_ms")
_NETWORK_THREAD: Final = "network_thread_poll_avg_ms"

METRIC_NAMES: Final = frozenset(
    [telemetry_name(f"{role}-node-metrics", f"request-latency-{each}") for role in _LINKS for each in ("avg", "max")]
    + [name for column in (*_POLL, _NETWORK_THREAD) for name in BY_COLUMN[column].names]
)
"""The metrics that `overall` needs; points of others need not be decoded for it."""


def latency(rows: Table) -> Table:
    """Merged ROWS -> LATENCY: [ms], one row a client instance, metric, broker link and window.

    `latency_avg_ms` is the mean of the averages that the client reported, `samples` their number, `latency_max_ms`
    the largest maximum. Where nothing was recorded there is no row. Links of one identity (librdkafka has several of
    -1) are one row.

    >>> columns = "received_at metric_name node_id coordinator value"
    >>> node = "org.apache.kafka.producer.node.request.latency"
    >>> points = rows(POINTS, columns, ("12:00:00", f"{node}.avg", 1, False, 3.0),
    ...     ("12:01:00", f"{node}.avg", 1, False, 5.0), ("12:01:00", f"{node}.max", 1, False, 40.0),
    ...     ("12:06:00", f"{node}.avg", 1, False, None))
    >>> show(latency(aggregate(points, 300)), "window_start role node_id latency_avg_ms latency_max_ms samples unit")
    window_start  role      node_id  latency_avg_ms  latency_max_ms  samples  unit
    12:00:00      producer  1        4               40              2        ms
    """
    given = Wide(rows)
    return pa.concat_tables([LATENCY.empty_table(), *(_of_time(given, time) for time in _TIMES)])


def _of_time(given: Wide, time: _Time) -> Table:
    column = time.name.replace("-", "_")
    average, largest = given.value(f"{column}_avg_ms"), given.value(f"{column}_max_ms")
    is_known = is_valid(average) | is_valid(largest)
    chosen = np.flatnonzero(is_known & _has(given, time))
    at = pa.array(chosen)
    columns = {"latency_avg_ms": average.take(at), "latency_max_ms": largest.take(at), "role": time.role}
    columns["samples"] = pa.array(given.count(f"{column}_avg_ms_count")[chosen])
    return given.table(LATENCY, chosen, columns | described(telemetry_name(time.group, time.name)))


def _has(given: Wide, time: _Time) -> Numbers:
    """True for the rows that this time is of."""
    if time.group in ROLES_OF_NODES:
        return given.has_role(time.role)
    found = given.is_client()
    if time.name == "fetch-latency":  # consumers and share consumers have it, under names of their own
        found &= (given.count("share_pushes") > 0) == (time.role == "share-consumer")
    return found


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
