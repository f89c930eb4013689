"""The status of a process as Prometheus metrics.

Our own names are in base units with `_total`; those of Kafka's group `client-metrics` are as Prometheus' JMX exporter
names Kafka's beans (`kafka.server:type=client-metrics` -> `kafka_server_client_metrics_...`), in Kafka's units.
The values of labels are bounded by the configuration and the protocol, except for those of quotas, which name the 100
entities nearest to their limits; series of single clients exist only with `telemetry.client.instance.metrics.max`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Any, Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UntypedMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from fleetgauge.node.status.node_socket import Status
from fleetgauge.telemetry.instances.client_metrics import INSTANCE_METRICS, INSTANCE_TAG, TOTAL_METRICS

_PREFIX: Final = "fleetgauge_"
_KAFKA_PREFIX: Final = "kafka_server_client_metrics_"

OwnMetrics = Sequence[tuple[Any, ...]]
"""One row per instance with metrics of its own: the id, then the values in the order of `INSTANCE_METRICS`."""


class Count(NamedTuple):
    """The metric for one number of the status. A name that ends in `_total` is a counter's."""

    name: str
    text: str
    scale: float = 1.0


_US: Final = 1e-6
_MS: Final = 1e-3

TELEMETRY: Final[Mapping[str, Count]] = {
    "instances": Count("client_instances", "Client instances in the node's cache."),
    "instances_evicted": Count("client_instances_evicted_total", "Instances evicted because the cache was full."),
    "instances_expired": Count("client_instances_expired_total", "Instances forgotten because they sent nothing."),
    "instances_vanished": Count(
        "client_instances_vanished", "Instances that ended without a terminating push in the last day."
    ),
    "instances_ended": Count(
        "client_instances_ended", "Instances whose terminating push was accepted in the last hour."
    ),
    "instance_id_clashes": Count(
        "client_instance_id_clashes_total", "Instances created under an id that another sender used."
    ),
    "labels_truncated": Count("labels_truncated_total", "Label values of clients that were truncated."),
    "instances_with_metrics": Count("client_instances_with_metrics", "Instances that have metrics of their own."),
    "instances_without_metrics": Count(
        "client_instances_without_metrics_total",
        "Instances beyond telemetry.client.instance.metrics.max.",
    ),
    "instances_slowed": Count(
        "client_instances_slowed", "Instances with a longer push interval for a telemetry quota."
    ),
    "interval_changes": Count("push_interval_changes_total", "Push intervals changed for a telemetry quota."),
}
QUOTAS: Final[Mapping[str, Count]] = {
    "channels_held": Count("quota_held_connections", "Connections that are muted for a quota."),
    "requests_throttled": Count("quota_throttled_requests_total", "Requests after which a connection was muted."),
    "requests_of_others": Count(
        "quota_shared_requests_total", "Requests of client ids beyond those with quotas of their own."
    ),
    "exempt_request_time": Count(
        "quota_exempt_request_time_ratio", "Share of the loop's time that is exempt from quotas.", 0.01
    ),
    "usage_left_out": Count("quota_series_left_out", "Quotas beyond the limit of usage series."),
}
QUOTA_LABELS: Final = ("quota_type", "user", "client_id", "ip", "listener", "tags")
PUSH_LOG: Final[Mapping[str, Count]] = {
    "logged": Count("push_log_logged_total", "Pushes written to the log."),
    "logged_late": Count("push_log_logged_late_total", "Pushes written to the log after they were answered."),
    "commits": Count("push_log_commits_total", "Commits of the log."),
    "failed": Count("push_log_failed_total", "Pushes that could not be written to the log."),
    "timed_out": Count("push_log_timed_out_total", "Pushes that were not written to the log in time."),
    "refused_full": Count("push_log_refused_full_total", "Pushes refused while too many waited."),
    "refused_away": Count("push_log_refused_away_total", "Pushes refused while the topic was unreachable."),
    "pending": Count("push_log_pending_pushes", "Pushes that wait for the log."),
    "pending_bytes": Count("push_log_pending_bytes", "Payload bytes of the pushes that wait for the log."),
    "records": Count("push_log_pushes", "Pushes that the log holds."),
    "segments": Count("push_log_segments", "Segments of the log."),
    "disk_bytes": Count("push_log_disk_bytes", "Size of the log on disk."),
    "metrics_bytes": Count("push_log_metrics_bytes", "Size of the metrics in the log, decompressed."),
    "damaged_segments": Count("push_log_damaged_segments", "Segments that were set aside, or cannot be read."),
    "oldest_received_at": Count("push_log_oldest_timestamp_seconds", "Receive time of the log's oldest push.", _US),
    "newest_received_at": Count("push_log_newest_timestamp_seconds", "Receive time of the log's newest push.", _US),
}
STATE: Final[Mapping[str, Count]] = {
    "topic_lost": Count("state_topic_lost", "Listener processes that cannot read the topic of state.store=kafka."),
}
AUDIT_LOG: Final[Mapping[str, Count]] = {
    "recorded": Count("audit_log_lines_total", "Lines written to the audit log by the listener processes."),
    "left_out": Count("audit_log_left_out_total", "Occurrences without a line of their own: repeated, or too many."),
    "failed": Count("audit_log_failed_total", "Lines of the audit log that could not be written."),
}
CONNECTIONS: Final[Mapping[str, Count]] = {
    "open": Count("connections", "Open connections."),
    "accepted": Count("connections_accepted_total", "Connections accepted."),
    "accept_errors": Count("accept_errors_total", "Accepts that failed for lack of descriptors or memory."),
    "accept_waits": Count("accept_waits_total", "Connections that waited for a limit of connections."),
    "frames": Count("received_frames_total", "Whole frames received."),
    "bytes_received": Count("received_bytes_total", "Bytes received."),
    "bytes_sent": Count("sent_bytes_total", "Bytes sent."),
    "unfinished_handshakes": Count("unfinished_handshakes", "Connections whose handshake is not complete."),
    "unfinished_request_bytes": Count("unfinished_request_bytes", "Bytes of incomplete and waiting requests."),
    "unread_response_bytes": Count("unread_response_bytes", "Bytes of responses that peers have not read."),
    "successful_authentications": Count("successful_authentications_total", "Connections that authenticated."),
    "failed_authentications": Count("failed_authentications_total", "Connections that failed to authenticate."),
    "successful_reauthentications": Count("successful_reauthentications_total", "Sessions that were renewed."),
    "failed_reauthentications": Count("failed_reauthentications_total", "Sessions that failed to renew."),
}
EXPORTERS: Final[Mapping[str, Count]] = {
    "delivered_records": Count("exporter_delivered_pushes_total", "Pushes delivered to the destination."),
    "delivered_bytes": Count("exporter_delivered_bytes_total", "Their metrics, decompressed."),
    "delivered_batches": Count("exporter_delivered_batches_total", "Successful exports."),
    "rejected_points": Count("exporter_rejected_points_total", "Data points that the destination discarded."),
    "passed_on_records": Count("exporter_passed_on_pushes_total", "Pushes that moved to another process."),
    "assigned_partitions": Count(
        "exporter_assigned_partitions", "Partitions that the exporter's consumer group assigned here."
    ),
    "rebalances": Count("exporter_rebalances_total", "Assignments and revocations of partitions."),
    "splits": Count("exporter_splits_total", "Batches split in halves."),
    "letters": Count("exporter_dead_letters", "Rejected pushes in the dead-letter store."),
    "letter_bytes": Count("exporter_dead_letter_bytes", "Their metrics, decompressed."),
    "oldest_letter_at": Count(
        "exporter_oldest_dead_letter_timestamp_seconds", "When the oldest of them was rejected.", _US
    ),
    "replayed_records": Count("exporter_replayed_pushes_total", "Rejected pushes that were delivered by a replay."),
    "letters_dropped": Count("exporter_dropped_dead_letters_total", "Rejected pushes that an operator dropped."),
    "retired_files": Count("exporter_retired_files_total", "Files of a landing zone removed by age."),
    "retired_bytes": Count("exporter_retired_bytes_total", "Size of the removed files."),
    "lag_records": Count("exporter_lag_pushes", "Pushes in the log that the exporter has not delivered."),
    "lag_bytes": Count("exporter_lag_bytes", "Their metrics, decompressed."),
    "lag_ms": Count("exporter_lag_seconds", "Age of the oldest undelivered push; 0 without any.", _MS),
    "oldest_received_at": Count(
        "exporter_oldest_undelivered_timestamp_seconds", "Receive time of the oldest undelivered push.", _US
    ),
    "last_delivered_at": Count("exporter_last_delivered_timestamp_seconds", "Time of the latest delivery.", _US),
    "last_error_at": Count("exporter_last_error_timestamp_seconds", "Time of the latest failure.", _US),
    "last_error_over_at": Count(
        "exporter_last_error_over_timestamp_seconds", "Time at which that failure ended; absent while it lasts.", _US
    ),
    "call_ms": Count("exporter_call_seconds", "Time since the exporter's current call began.", _MS),
    "last_export_ms": Count("exporter_last_export_seconds", "Duration of its latest successful export.", _MS),
}
WORKERS: Final[Mapping[str, Count]] = {
    "serves": Count("worker_up", "1 while the worker runs and answers."),
    "restarts": Count("worker_restarts_total", "Restarts of the worker."),
    "connections": Count("worker_connections", "Open connections of the worker."),
    "instances": Count("worker_client_instances", "Client instances in the worker's cache."),
    "logged": Count("worker_push_log_logged_total", "Pushes that the worker wrote to its log."),
}
"""One series per worker, where there are several; they show how evenly the workers share the clients."""
EXPORTER_PROCESS: Final[Mapping[str, Count]] = {
    "restarts": Count("exporter_process_restarts_total", "Restarts of the exporter process."),
    "hangs": Count("exporter_process_hangs_total", "Kills of the exporter process because it hung."),
    "status_age_ms": Count("exporter_status_age_seconds", "Age of the exporter process's latest status.", _MS),
}
BY_REASON: Final[Mapping[str, Count]] = {
    "retried": Count("exporter_retries_total", "Failed attempts."),
    "refused": Count("exporter_refused_pushes_total", "Pushes that were rejected permanently."),
    "bad_records": Count("exporter_bad_records_total", "Records of the topic that are not pushes."),
    "lost": Count("exporter_lost_pushes_total", "Pushes that the log lost before they were delivered."),
    "letters_lost": Count("exporter_lost_dead_letters_total", "Rejected pushes that are not stored."),
}
HISTOGRAMS: Final[Mapping[str, Count]] = {
    "export_s": Count("exporter_export_duration_seconds", "Duration of successful exports."),
    "freshness_s": Count("exporter_freshness_seconds", "Time from the receipt of a push to its delivery."),
}
"""One histogram per exporter; values in seconds."""
TRAFFIC: Final[Mapping[str, Count]] = {
    "requests": Count("gateway_requests_total", "Requests that passed, or that the gateway answered."),
    "request_bytes": Count("gateway_request_bytes_total", "Their size."),
    "response_bytes": Count("gateway_response_bytes_total", "Size of their responses."),
    "gateway_ms": Count("gateway_loop_seconds_total", "Time that they took on the gateway's loop.", _MS),
    "broker_ms": Count("gateway_broker_seconds_total", "Time from requests to the beginning of their responses.", _MS),
    "throttled": Count("gateway_throttled_requests_total", "Requests after which the gateway throttled the client."),
    "throttle_ms": Count("gateway_throttle_seconds_total", "Throttle times of these requests.", _MS),
    "joins": Count("gateway_group_joins_total", "Members that joined a consumer group."),
    "batches": Count("gateway_record_batches_total", "Record batches of Produce requests."),
    "records": Count("gateway_records_total", "Records in these batches."),
}
"""One series per client and API."""
TRAFFIC_LABELS: Final = ("user", "client_id", "api")
GATEWAY: Final[Mapping[str, Count]] = {
    "broker_connections": Count("gateway_broker_connections", "Open connections to the broker."),
    "broker_connect_failures": Count(
        "gateway_broker_connect_failures_total", "Clients without a connection to the broker."
    ),
}
STATES: Final = ("starting", "running", "retrying", "stopped", "revoked")


class HttpStatus(NamedTuple):
    """Figures of the HTTP process itself.

    Attributes:
        failures: failed log-ins by reason.
        certificate_expires_at: when the certificate in use expires [s since the epoch]; None without TLS.
    """

    failures: Mapping[str, int]
    certificate_expires_at: int | None


def exposition(status: Status, own: OwnMetrics, accept: str, http: HttpStatus | None = None) -> tuple[bytes, str]:
    """The metrics in the form that `accept` prefers, and its content type.

    Args:
        status: the status of the process.
        own: metrics of single instances.
        accept: the header of that name; empty gets Prometheus' text form.
        http: of the process that serves it; None without.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Collector(status, own, http)), content_type


def families(status: Status, own: OwnMetrics, http: HttpStatus | None = None) -> Iterator[Metric]:
    """The metrics of a status; fewer for `fleetgauge export`."""
    yield from _certificates(status, http)
    if http is not None:
        text = "Log-ins at the HTTP port that failed."
        yield _counted("http_failed_authentications_total", text, "reason", http.failures)
    yield from _process(head_of(status))
    if "node" in status:
        yield from _of_node(status)
    else:
        yield from _scalars(TELEMETRY, [({}, status["clients"])])
    yield from _scalars(PUSH_LOG, [({}, status["push_log"])])
    yield from _exporter_process(status["exporter_process"])
    yield from _exporters(status["exporter_process"]["exporters"])
    if "telemetry" in status:
        yield from _kafka(status["telemetry"]["client_metrics"], own)


def head_of(status: Status) -> Mapping[str, Any]:
    """The part of a status about the process itself: readiness, start time, ids."""
    head: Mapping[str, Any] = status["node"] if "node" in status else status["export"]
    return head


def _of_node(status: Status) -> Iterator[Metric]:
    """Metrics of a node with listeners."""
    yield from _scalars(WORKERS, [({"worker": str(each["worker"])}, each) for each in status.get("workers", ())])
    yield from _scalars(CONNECTIONS, [({"listener": each["listener"]}, each) for each in status["connections"]])
    yield from _listeners(status["connections"])
    yield from _scalars(QUOTAS, [({}, status["quotas"])])
    yield from _quota_usage(status["quotas"]["usage"])
    yield from _telemetry(status["telemetry"])
    yield from _authorization(status)
    yield from _scalars(STATE, [({}, status["state"])] if "state" in status else [])
    if "gateway" in status:
        yield from _gateway(status["gateway"])


def _gateway(gateway: Mapping[str, Any]) -> Iterator[Metric]:
    yield from _scalars(GATEWAY, [({}, gateway)])
    traffic = gateway["traffic"]
    clients = list(traffic["by_client"].values())
    sources = [(dict(zip(TRAFFIC_LABELS, _client_of(each), strict=True)), each) for each in clients]
    yield from _scalars(TRAFFIC, sources)
    errors = [((*_client_of(each), code), n) for each in clients for code, n in each["errors"].items()]
    labels = (*TRAFFIC_LABELS, "error_code")
    yield _labelled("gateway_errors_total", "Error codes in the broker's responses.", labels, errors)
    throttled = "Throttled requests, by quota."
    yield _counted("gateway_quota_violations_total", throttled, "quota_type", traffic["throttled"])
    yield _single("gateway_series_left_out", "Clients and APIs beyond the limit of series.", traffic["left_out"])
    others = "Requests of clients beyond those that are counted by name."
    yield _single("gateway_shared_requests_total", others, traffic["requests_of_others"])


def _client_of(counts: Mapping[str, Any]) -> tuple[str, str, str]:
    return counts["principal"], counts["client_id"], counts["api"]


class _Collector(Collector):
    def __init__(self, status: Status, own: OwnMetrics, http: HttpStatus | None) -> None:
        self._status = status
        self._own = own
        self._http = http

    def collect(self) -> Iterator[Metric]:
        return families(self._status, self._own, self._http)


def _family(count: Count, labels: Iterable[str]) -> Any:
    name = _PREFIX + count.name
    if count.name.endswith("_total"):
        return CounterMetricFamily(name.removesuffix("_total"), count.text, labels=list(labels))
    return GaugeMetricFamily(name, count.text, labels=list(labels))


def _scalars(
    table: Mapping[str, Count], sources: Sequence[tuple[dict[str, str], Mapping[str, Any]]]
) -> Iterator[Metric]:
    """A family for each number of the table that any source has."""
    for key, count in table.items():
        samples = [(labels, source[key]) for labels, source in sources if source.get(key) is not None]
        if samples:
            family = _family(count, samples[0][0])
            for labels, value in samples:
                family.add_metric(list(labels.values()), value * count.scale)
            yield family


def _labelled(name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A family of values by the values of their labels."""
    family = _family(Count(name, text), labels)
    for label_values, value in values:
        family.add_metric(list(label_values), value)
    return family  # type: ignore[no-any-return]  # of two classes with the same constructor


def _counted(name: str, text: str, label: str, counts: Mapping[str, float]) -> Metric:
    """A family of counts by the values of one label."""
    return _labelled(name, text, (label,), [((value,), n) for value, n in counts.items()])


def _single(name: str, text: str, value: float) -> Metric:
    return _labelled(name, text, (), [((), value)])


def _process(head: Mapping[str, Any]) -> Iterator[Metric]:
    """Metrics of the process; for `fleetgauge export` the labels of a node are empty, which Prometheus treats as
    absent.
    """
    values = [version("fleetgauge"), str(head.get("node_id", "")), head.get("cluster_id", "")]
    labels = ("version", "node_id", "cluster_id")
    yield _labelled("build_info", "1; version and ids are in the labels.", labels, [(values, 1)])
    yield _single("start_time_seconds", "When the process started.", head["started_at_ms"] * _MS)
    yield _single("ready", "1 while /readyz answers 200.", float(not head["not_ready"]))


def _certificates(status: Status, http: HttpStatus | None) -> Iterator[Metric]:
    """Certificates in use: of listeners, of the HTTP port, and client certificates of exporters."""
    expiries = [
        (("listener", each["listener"]), each.get("certificate_expires_at")) for each in status.get("connections", ())
    ]
    if http is not None:
        expiries.append((("http", ""), http.certificate_expires_at))
    exporters = status["exporter_process"]["exporters"].items()
    expiries.extend((("exporter", name), each.get("certificate_expires_at")) for name, each in exporters)
    known = [(labels, at) for labels, at in expiries if at is not None]
    text = "When the first certificate of a chain in use expires."
    yield _labelled("certificate_expiry_timestamp_seconds", text, ("use", "name"), known)


def _listeners(listeners: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    reasons = [((each["listener"], reason), n) for each in listeners for reason, n in each["closed"].items()]
    yield _labelled("connections_closed_total", "Ended connections.", ("listener", "reason"), reasons)
    apis = [((each["listener"], api.lower()), n) for each in listeners for api, n in each["requests"].items()]
    yield _labelled("requests_total", "Requests that were served.", ("listener", "api"), apis)


def _quota_usage(by_kind: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[Metric]:
    usage = [(_quota_labels(kind, each["tags"]), each) for kind, usages in by_kind.items() for each in usages.values()]
    if usage:
        ratios = [(labels, each["used"] / each["limit"]) for labels, each in usage]
        yield _labelled("quota_utilization_ratio", "Usage of a quota; 1 is its limit.", QUOTA_LABELS, ratios)
        text = "A quota's limit, in Kafka's unit: bytes, pushes or connections a second, or percent."
        yield _labelled("quota_limit", text, QUOTA_LABELS, [(labels, each["limit"]) for labels, each in usage])


def _quota_labels(kind: str, tags: Mapping[str, str]) -> tuple[str, ...]:
    own = dict(tags)
    known = [own.pop(tag, "") for tag in ("user", "client-id", "ip", "listener")]
    return (kind, *known, ",".join(f"{tag}={value}" for tag, value in sorted(own.items())))


def _authorization(status: Status) -> Iterator[Metric]:
    denials = [(what.lower().partition(": ")[::2], n) for what, n in status["authorization"]["denials"].items()]
    text = "Requests denied by ACLs or client.id.patterns; reason: the missing operation, or client_id."
    yield _labelled("authorization_denials_total", text, ("api", "reason"), denials)
    yield from _scalars(AUDIT_LOG, [({}, status["audit_log"])])


def _telemetry(telemetry: Mapping[str, Any]) -> Iterator[Metric]:
    yield from _scalars(TELEMETRY, [({}, telemetry["counters"])])
    subscriptions = len(telemetry["subscriptions"])
    yield _single("client_metrics_subscriptions", "Client-metrics resources in force.", subscriptions)
    text = "GetTelemetrySubscriptions requests answered."
    yield _counted("get_answers_total", text, "error_code", telemetry["get_answers"])
    pushes = [(answer.partition(": ")[::2], n) for answer, n in telemetry["push_answers"].items()]
    text = "PushTelemetry requests answered; cause: of an internal failure."
    yield _labelled("push_answers_total", text, ("error_code", "cause"), pushes)
    reasons = [((code, why), n) for code, whys in telemetry["refusals"].items() for why, n in whys.items()]
    text = "Telemetry requests answered with an error."
    yield _labelled("refusals_total", text, ("error_code", "reason"), reasons)
    text = "Pushes accepted although their payload is not well-formed OTLP."
    yield _counted("malformed_pushes_total", text, "reason", telemetry["malformed"])
    text = "Failed exports of metric reporters."
    yield _counted("reporter_errors_total", text, "reporter", telemetry["plugin_errors"])
    text = "Awaitables of metric reporters that were cancelled after their timeout."
    yield _single("reporter_timeouts_total", text, telemetry["plugin_timeouts"])


def _exporter_process(process: Mapping[str, Any]) -> Iterator[Metric]:
    if process["wanted"]:
        is_up = float(process["pid"] is not None)
        yield _single("exporter_process_up", "1 while the exporter process runs.", is_up)
        yield from _scalars(EXPORTER_PROCESS, [({}, process)])


def _exporters(exporters: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    yield from _scalars(EXPORTERS, [({"exporter": name}, state) for name, state in exporters.items()])
    for key, count in BY_REASON.items():
        reasons = [((name, why), n) for name, each in exporters.items() for why, n in (each.get(key) or {}).items()]
        yield _labelled(count.name, count.text, ("exporter", "reason"), reasons)
    for key, count in HISTOGRAMS.items():
        histograms = [(name, each[key]) for name, each in exporters.items() if key in each]
        if histograms:
            yield _histogram(count, histograms)
    current = [((name, each["type"], s), float(each["state"] == s)) for name, each in exporters.items() for s in STATES]
    text = "1 for the state in which the exporter is."
    yield _labelled("exporter_state", text, ("exporter", "type", "state"), current)


def _histogram(count: Count, histograms: Sequence[tuple[str, Mapping[str, Any]]]) -> Metric:
    family = HistogramMetricFamily(_PREFIX + count.name, count.text, labels=["exporter"])
    for name, each in histograms:
        ends = [*map(floatToGoString, each["bounds"]), "+Inf"]
        buckets = list(zip(ends, accumulate(each["counts"]), strict=True))
        family.add_metric([name], buckets, each["sum"])
    return family


def _kafka(totals: Mapping[str, float | None], own: OwnMetrics) -> Iterator[Metric]:
    """Kafka's own metrics, untyped like those of the JMX exporter: some names end as other types' names do."""
    columns = {metric.name: column for column, metric in enumerate(INSTANCE_METRICS, 1)}  # the id comes first
    for metric in TOTAL_METRICS:
        value = totals.get(metric.name)
        name = kafka_name(metric.name)
        family = UntypedMetricFamily(name, metric.description, labels=[])
        family.add_metric([], math.nan if value is None else value)
        if own and metric.name in columns:
            for row in own:
                family.add_sample(name, {INSTANCE_TAG: row[0]}, float(row[columns[metric.name]]))
        yield family


def kafka_name(name: str) -> str:
    """A metric of the group `client-metrics` as the JMX exporter names it.

    >>> kafka_name("plugin-export-time-avg")
    'kafka_server_client_metrics_plugin_export_time_avg'
    """
    return _KAFKA_PREFIX + name.replace("-", "_")
