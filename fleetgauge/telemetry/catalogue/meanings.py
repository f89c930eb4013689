"""Units and meanings of Kafka's metrics, by their own (JMX) names. The standard library alone.

A name is a quantity and a statistic of it (`request-latency` and `avg`), and so is what it means. Of Streams' own
metrics neither is told: their units differ from version to version.
"""

import re
from typing import Final

_STATISTICS: Final = {
    "avg": "on average over the client's last samples",
    "max": "at most in the client's last samples",
    "min": "at least in the client's last samples",
    "rate": "a second",
    "rate-per-hour": "an hour",
    "total": "counted",
}

_NO_STATISTIC: Final = frozenset({"compression-rate"})
"""Names that end as if in a statistic."""

_QUANTITIES: Final = {
    "acknowledgements-error": "acknowledgements of a share group's records that failed",
    "acknowledgements-send": "acknowledgements of a share group's records that were sent",
    "application-event-queue-processing-time": "time that the network thread takes for an application event",
    "application-event-queue-size": "application events that wait for the network thread",
    "application-event-queue-time": "time that an application event waits for the network thread",
    "application-events-expired-count": "application events that waited for too long",
    "assigned-partitions": "partitions that the consumer is assigned",
    "background-event-queue-processing-time": "time that the consumer takes for a background event",
    "background-event-queue-size": "background events that wait for the consumer",
    "background-event-queue-time": "time that a background event waits for the consumer",
    "batch-size": "bytes of a batch for one partition",
    "batch-split": "batches that were split since they were too large",
    "buffer-available-bytes": "bytes of the buffer that are free",
    "buffer-exhausted": "records that found no room in the buffer in time",
    "buffer-total-bytes": "bytes of the buffer",
    "bufferpool-wait-ratio": "share of the time that appending waits for room in the buffer",
    "bufferpool-wait-time-ns": "time that appending waited for room in the buffer",
    "byte": "bytes sent to the topic",
    "bytes-consumed": "bytes consumed",
    "commit": "commits of offsets",
    "commit-latency": "time from a commit's request to its response",
    "commit-sync-time-ns": "time spent in synchronous commits",
    "committed-time-ns": "time spent asking for committed offsets",
    "compression-rate": "size of compressed batches relative to what they hold",
    "connection-close": "connections closed",
    "connection-count": "connections open",
    "connection-creation": "connections opened",
    "count": "metrics that the client has",
    "failed-authentication": "connections whose authentication failed",
    "failed-reauthentication": "connections whose re-authentication failed",
    "failed-rebalance": "rebalances that failed",
    "fetch": "fetch requests",
    "fetch-latency": "time from a fetch request to its response",
    "fetch-size": "bytes of a fetch",
    "fetch-throttle-time": "time that a broker had a fetch request throttled",
    "flush-time-ns": "time spent in flush()",
    "heartbeat": "heartbeats sent to the group's coordinator",
    "heartbeat-response-time": "time from a heartbeat to its response",
    "incoming-byte": "bytes received",
    "io-ratio": "share of the time that the network thread reads and writes",
    "io-time-ns": "time that the network thread reads and writes",
    "io-wait-ratio": "share of the time that the network thread waits",
    "io-wait-time-ns": "time that the network thread waits",
    "join": "joins of the group",
    "join-time": "time that a join of the group takes",
    "last-heartbeat-seconds-ago": "time since the last heartbeat",
    "last-poll-seconds-ago": "time since the last poll()",
    "last-rebalance-seconds-ago": "time since the last rebalance",
    "metadata-age": "age of the metadata in use",
    "metadata-wait-time-ns": "time that sending waited for metadata",
    "network-io": "reads and writes on all connections",
    "outgoing-byte": "bytes sent",
    "partition-assigned-latency": "time spent in the listener's onPartitionsAssigned",
    "partition-lost-latency": "time spent in the listener's onPartitionsLost",
    "partition-revoked-latency": "time spent in the listener's onPartitionsRevoked",
    "poll-idle-ratio": "share of the time that the application spends in poll() rather than with its records",
    "preferred-read-replica": "broker that the partition is read from, -1 for its leader",
    "produce-throttle-time": "time that a broker had a produce request throttled",
    "reauthentication-latency": "time that a re-authentication takes",
    "rebalance": "rebalances that the consumer took part in",
    "rebalance-latency": "time that a rebalance takes",
    "record-error": "records that could not be sent",
    "record-queue-time": "time that a batch waits in the buffer before it is sent",
    "record-retry": "records that were sent again",
    "record-send": "records sent",
    "record-size": "bytes of a record",
    "records-consumed": "records consumed",
    "records-lag": "records between the consumer's position and the end of the partition",
    "records-lead": "records between the beginning of the partition and the consumer's position",
    "records-per-request": "records in a request",
    "request": "requests sent",
    "request-latency": "time from a request to its response",
    "request-size": "bytes of a request",
    "requests-in-flight": "requests that wait for their response",
    "response": "responses received",
    "select": "times that the network thread looked for work",
    "start-time-ms": "time that the client was started at, since 1970",
    "successful-authentication": "connections that were authenticated",
    "successful-authentication-no-reauth": "connections that were authenticated and cannot be again",
    "successful-reauthentication": "connections that were authenticated again",
    "sync": "synchronisations of the group",
    "sync-time": "time that a synchronisation of the group takes",
    "time-between-network-thread-poll": "time between two polls of the network thread",
    "time-between-poll": "time between two poll() of the application",
    "txn-abort-time-ns": "time spent in abortTransaction()",
    "txn-begin-time-ns": "time spent in beginTransaction()",
    "txn-commit-time-ns": "time spent in commitTransaction()",
    "txn-init-time-ns": "time spent in initTransactions()",
    "txn-prepare-time-ns": "time spent in prepareTransaction()",
    "txn-send-offsets-time-ns": "time spent in sendOffsetsToTransaction()",
    "unsent-requests-queue-size": "requests that wait to be sent",
    "unsent-requests-queue-time": "time that a request waits to be sent",
    "waiting-threads": "threads that wait for room in the buffer",
}

_UNITS: Final = (
    (r".*-rate-per-hour", "1/h"),
    (r"(.*-)?bytes?(-consumed)?-rate", "B/s"),
    (r"compression-rate(-avg)?|.*-ratio(-avg)?", "1"),
    (r".*-rate", "1/s"),
    (r".*-ns(-total|-avg)?", "ns"),
    (r".*-seconds-ago|metadata-age", "s"),
    (r".*-(latency|time|poll)-(avg|max|total)|start-time-ms", "ms"),
    (r"(.*-)?bytes?(-consumed)?(-total)?|buffer-total-bytes|(batch|record|request|fetch)-size-(avg|max)", "B"),
    (r"records-(lag|lead)(-avg|-max|-min)?|records-per-request-(avg|max)|records?-.*-total", "records"),
)
"""The first full match applies; otherwise the unit is a plain number."""


def split(name: str) -> tuple[str, str]:
    """Splits Kafka's name into a quantity and a statistic, which may be empty.

    >>> split("request-latency-avg"), split("rebalance-rate-per-hour"), split("assigned-partitions")
    (('request-latency', 'avg'), ('rebalance', 'rate-per-hour'), ('assigned-partitions', ''))
    """
    match = re.fullmatch(r"(.+)-(avg|max|min|rate-per-hour|rate|total)", name)
    return (match[1], match[2]) if match and name not in _NO_STATISTIC else (name, "")


def unit_of(group: str, name: str) -> str | None:
    """Returns the unit of a metric's values: `ms`, `B`, `1/s`, ...; `1` for a plain number, None for Streams' own
    metrics.

    >>> unit_of("consumer-coordinator-metrics", "commit-latency-avg"), unit_of("consumer-metrics", "request-total")
    ('ms', '1')
    """
    if group.startswith("stream-"):
        return None
    return next((unit for pattern, unit in _UNITS if re.fullmatch(pattern, name)), "1")


def quantity_of(group: str, name: str) -> str | None:
    """Returns the measured quantity without the statistic; None for Streams' own metrics."""
    return None if group.startswith("stream-") else _QUANTITIES.get(split(name)[0])


def meaning_of(group: str, name: str) -> str | None:
    """Returns the meaning of a metric in a few words; None for Streams' own metrics.

    >>> meaning_of("consumer-metrics", "poll-idle-ratio-avg").partition(", ")[2]
    "on average over the client's last samples"
    """
    quantity, statistic = quantity_of(group, name), split(name)[1]
    return f"{quantity}, {_STATISTICS[statistic]}" if quantity and statistic else quantity
