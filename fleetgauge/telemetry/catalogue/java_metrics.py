"""Metrics of Kafka's Java clients under the names in their registries; data only.

Read from running producer, consumer (both group protocols), share consumer, admin and Streams clients 4.3.1, at
recording level TRACE. `standard_metrics` derives the telemetry names. The tag
`client-id` is on every one of them and is never pushed. Metrics with a non-numeric value are never pushed, and omitted.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

_EVERY_ROLE: Final = ("producer", "consumer", "share-consumer", "admin", "streams")


class JavaMetrics(NamedTuple):
    """Metrics of one group that have the same tags.

    Attributes:
        roles: clients that have them.
        group: Kafka's group, JMX's `type`.
        tags: of a data point; the same metric may also exist without them, as a total.
        names: Kafka's names, separated by spaces.
    """

    roles: tuple[str, ...]
    group: str
    tags: tuple[str, ...]
    names: str


_NETWORK: Final = (
    "connection-close-rate connection-close-total connection-count connection-creation-rate "
    "connection-creation-total failed-authentication-rate failed-authentication-total failed-reauthentication-rate "
    "failed-reauthentication-total incoming-byte-rate incoming-byte-total io-ratio io-time-ns-avg io-time-ns-total "
    "io-wait-ratio io-wait-time-ns-avg io-wait-time-ns-total network-io-rate network-io-total outgoing-byte-rate "
    "outgoing-byte-total reauthentication-latency-avg reauthentication-latency-max request-rate request-size-avg "
    "request-size-max request-total response-rate response-total select-rate select-total "
    "successful-authentication-no-reauth-total successful-authentication-rate successful-authentication-total "
    "successful-reauthentication-rate successful-reauthentication-total"
)
"""Metrics of the network layer, which the producer, the consumers and the admin client have."""

_NODE: Final = (
    "incoming-byte-rate incoming-byte-total outgoing-byte-rate outgoing-byte-total request-latency-avg "
    "request-latency-max request-rate request-size-avg request-size-max request-total response-rate response-total"
)
"""The same metrics for each broker."""

_EVENTS: Final = (
    "application-event-queue-processing-time-avg application-event-queue-processing-time-max "
    "application-event-queue-size application-event-queue-time-avg application-event-queue-time-max "
    "application-events-expired-count background-event-queue-processing-time-avg "
    "background-event-queue-processing-time-max background-event-queue-size background-event-queue-time-avg "
    "background-event-queue-time-max last-poll-seconds-ago poll-idle-ratio-avg time-between-network-thread-poll-avg "
    "time-between-network-thread-poll-max time-between-poll-avg time-between-poll-max unsent-requests-queue-size "
    "unsent-requests-queue-time-avg unsent-requests-queue-time-max"
)
"""Metrics of the queues between the application and the network thread of a consumer or share consumer."""

_NAMES: Final[Mapping[tuple[str, ...], Mapping[tuple[str, ...], str]]] = {
    ("producer",): {
        ("producer-metrics",): f"{_NETWORK} batch-size-avg batch-size-max batch-split-rate batch-split-total "
        "buffer-available-bytes buffer-exhausted-rate buffer-exhausted-total buffer-total-bytes "
        "bufferpool-wait-ratio bufferpool-wait-time-ns-total compression-rate-avg flush-time-ns-total metadata-age "
        "metadata-wait-time-ns-total produce-throttle-time-avg produce-throttle-time-max record-error-rate "
        "record-error-total record-queue-time-avg record-queue-time-max record-retry-rate record-retry-total "
        "record-send-rate record-send-total record-size-avg record-size-max records-per-request-avg "
        "request-latency-avg request-latency-max requests-in-flight txn-abort-time-ns-total txn-begin-time-ns-total "
        "txn-commit-time-ns-total txn-init-time-ns-total txn-prepare-time-ns-total txn-send-offsets-time-ns-total "
        "waiting-threads",
        ("producer-node-metrics", "node-id"): _NODE,
        ("producer-topic-metrics", "topic"): "byte-rate byte-total compression-rate record-error-rate "
        "record-error-total record-retry-rate record-retry-total record-send-rate record-send-total",
    },
    _EVERY_ROLE: {
        ("app-info",): "start-time-ms",
        ("kafka-metrics-count",): "count",
    },
    ("consumer",): {
        ("consumer-coordinator-metrics",): "assigned-partitions commit-latency-avg commit-latency-max commit-rate "
        "commit-total failed-rebalance-rate-per-hour failed-rebalance-total heartbeat-rate "
        "heartbeat-response-time-max heartbeat-total join-rate join-time-avg join-time-max join-total "
        "last-heartbeat-seconds-ago last-rebalance-seconds-ago partition-assigned-latency-avg "
        "partition-assigned-latency-max partition-lost-latency-avg partition-lost-latency-max "
        "partition-revoked-latency-avg partition-revoked-latency-max rebalance-latency-avg rebalance-latency-max "
        "rebalance-latency-total rebalance-rate-per-hour rebalance-total sync-rate sync-time-avg sync-time-max "
        "sync-total",
        ("consumer-fetch-manager-metrics",): "fetch-latency-avg fetch-latency-max fetch-rate fetch-throttle-time-avg "
        "fetch-throttle-time-max fetch-total",
        ("consumer-fetch-manager-metrics", "topic"): "bytes-consumed-rate bytes-consumed-total fetch-size-avg "
        "fetch-size-max records-consumed-rate records-consumed-total records-per-request-avg",
        ("consumer-fetch-manager-metrics", "topic", "partition"): "preferred-read-replica records-lag "
        "records-lag-avg records-lag-max records-lead records-lead-avg records-lead-min",
        ("consumer-metrics",): f"{_EVENTS} commit-sync-time-ns-total committed-time-ns-total",
    },
    ("consumer", "share-consumer"): {
        ("consumer-metrics",): _NETWORK,
        ("consumer-node-metrics", "node-id"): _NODE,
    },
    ("share-consumer",): {
        ("consumer-share-coordinator-metrics",): "heartbeat-rate heartbeat-response-time-max heartbeat-total "
        "last-heartbeat-seconds-ago rebalance-rate-per-hour rebalance-total",
        ("consumer-share-fetch-manager-metrics",): "acknowledgements-error-rate acknowledgements-error-total "
        "acknowledgements-send-rate acknowledgements-send-total bytes-consumed-rate bytes-consumed-total "
        "fetch-latency-avg fetch-latency-max fetch-rate fetch-size-avg fetch-size-max fetch-throttle-time-avg "
        "fetch-throttle-time-max fetch-total records-consumed-rate records-consumed-total records-per-request-avg "
        "records-per-request-max",
        ("consumer-share-metrics",): _EVENTS,
    },
    ("admin",): {
        ("admin-client-metrics",): _NETWORK,
        ("admin-client-node-metrics", "node-id"): _NODE,
    },
    ("streams",): {
        ("stream-metrics",): "alive-stream-threads failed-stream-threads",
        ("stream-metrics", "application-id", "process-id"): "client-state",
        ("stream-metrics", "process-id"): "recording-level",
        ("stream-processor-node-metrics", "thread-id", "task-id", "processor-node-id"): "process-rate process-total "
        "record-e2e-latency-avg record-e2e-latency-max record-e2e-latency-min suppression-emit-rate "
        "suppression-emit-total window-aggregate-final-emit-latency-avg window-aggregate-final-emit-latency-max "
        "window-aggregate-final-emit-rate window-aggregate-final-emit-total",
        ("stream-record-cache-metrics", "thread-id", "task-id", "record-cache-id"): "hit-ratio-avg hit-ratio-max "
        "hit-ratio-min",
        ("stream-state-metrics", "thread-id", "task-id", "in-memory-suppression-state-id"): " "
        "suppression-buffer-count-avg suppression-buffer-count-max suppression-buffer-size-avg "
        "suppression-buffer-size-max",
        ("stream-state-metrics", "thread-id", "task-id", "rocksdb-state-id"): "all-latency-avg all-latency-max "
        "all-rate delete-latency-avg delete-latency-max delete-rate get-latency-avg get-latency-max get-rate "
        "prefix-scan-latency-avg prefix-scan-latency-max prefix-scan-rate put-all-latency-avg put-all-latency-max "
        "put-all-rate put-if-absent-latency-avg put-if-absent-latency-max put-if-absent-rate range-latency-avg "
        "range-latency-max range-rate",
        ("stream-state-metrics", "thread-id", "task-id", "rocksdb-state-id", "rocksdb-window-state-id"): " "
        "background-errors block-cache-capacity block-cache-data-hit-ratio block-cache-filter-hit-ratio "
        "block-cache-index-hit-ratio block-cache-pinned-usage block-cache-usage bytes-read-compaction-rate "
        "bytes-read-rate bytes-read-total bytes-written-compaction-rate bytes-written-rate bytes-written-total "
        "commit-latency-avg commit-latency-max commit-rate compaction-pending compaction-time-avg "
        "compaction-time-max compaction-time-min cur-size-active-mem-table cur-size-all-mem-tables estimate-num-keys "
        "estimate-pending-compaction-bytes estimate-table-readers-mem flush-latency-avg flush-latency-max flush-rate "
        "iterator-duration-avg iterator-duration-max live-sst-files-size mem-table-flush-pending "
        "memtable-bytes-flushed-rate memtable-bytes-flushed-total memtable-flush-time-avg memtable-flush-time-max "
        "memtable-flush-time-min memtable-hit-ratio num-deletes-active-mem-table num-deletes-imm-mem-tables "
        "num-entries-active-mem-table num-entries-imm-mem-tables num-immutable-mem-table num-live-versions "
        "num-open-iterators num-running-compactions num-running-flushes number-file-errors-total number-open-files "
        "oldest-iterator-open-since-ms put-latency-avg put-latency-max put-rate record-e2e-latency-avg "
        "record-e2e-latency-max record-e2e-latency-min restore-latency-avg restore-latency-max restore-rate "
        "size-all-mem-tables total-sst-files-size write-stall-duration-avg write-stall-duration-total",
        ("stream-state-metrics", "thread-id", "task-id", "rocksdb-window-state-id"): "fetch-latency-avg "
        "fetch-latency-max fetch-rate",
        ("stream-state-updater-metrics", "thread-id"): "active-paused-tasks active-restore-ratio "
        "active-restoring-tasks checkpoint-ratio idle-ratio restore-call-rate restore-records-rate "
        "standby-paused-tasks standby-update-ratio standby-updating-tasks",
        ("stream-task-metrics", "thread-id", "task-id"): "active-buffer-count active-process-ratio "
        "cache-size-bytes-total dropped-records-rate dropped-records-total enforced-processing-rate "
        "enforced-processing-total process-latency-avg process-latency-max process-rate process-total "
        "punctuate-latency-avg punctuate-latency-max punctuate-rate punctuate-total record-lateness-avg "
        "record-lateness-max restore-rate restore-remaining-records-total restore-total",
        ("stream-thread-metrics", "process-id", "thread-id"): "thread-state",
        ("stream-thread-metrics", "thread-id"): "blocked-time-ns-total commit-latency-avg commit-latency-max "
        "commit-rate commit-ratio commit-total poll-latency-avg poll-latency-max poll-rate poll-ratio "
        "poll-records-avg poll-records-max poll-total process-latency-avg process-latency-max process-rate "
        "process-ratio process-records-avg process-records-max process-total punctuate-latency-avg "
        "punctuate-latency-max punctuate-rate punctuate-ratio punctuate-total task-closed-rate task-closed-total "
        "task-created-rate task-created-total thread-start-time",
        ("stream-topic-metrics", "topic", "thread-id", "task-id", "processor-node-id"): "bytes-consumed-total "
        "bytes-produced-total records-consumed-total records-produced-total",
    },
}
"""Names, separated by spaces: by roles, then by group and tags."""

JAVA_METRICS: Final = tuple(
    JavaMetrics(roles, group, tuple(tags), " ".join(sorted(names.split())))
    for roles, by_group in _NAMES.items()
    for (group, *tags), names in by_group.items()
)
