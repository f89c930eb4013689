"""Pushes for the Prometheus destination, and its page read back as samples."""

from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families
from support.programs.push_log import push_record

from fleetgauge.base.clock import MockTime, Time
from fleetgauge.exporters.exporter import Outcome
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.page import OPENMETRICS
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

SECOND_NANO = 1_000_000_000
REQUESTS = "org.apache.kafka.producer.request.total"
LATENCY = "org.apache.kafka.producer.node.request.latency.max"
REQUESTS_ON_PAGE = "org_apache_kafka_producer_request_total"
LATENCY_ON_PAGE = "org_apache_kafka_producer_node_request_latency_max"
DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def attributes(point: Any, values: dict[str, Any]) -> Any:
    """Gives a data point these attributes; a key's `__` is a dot."""
    for key, value in values.items():
        kind = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}[type(value)]
        setattr(point.attributes.add(key=key.replace("__", ".")).value, kind, value)
    return point


def counter(
    value: float,
    *,
    name: str = REQUESTS,
    temporality: AggregationTemporality.ValueType = DELTA,
    start: float = 0,
    at: float = 0,
    **labels: Any,
) -> Metric:
    """A monotonic sum of one data point; times in seconds."""
    metric = Metric(name=name)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = temporality
    times = {"start_time_unix_nano": int(start * SECOND_NANO), "time_unix_nano": int(at * SECOND_NANO)}
    attributes(metric.sum.data_points.add(as_double=value, **times), labels)
    return metric


def gauge(value: float, *, name: str = LATENCY, at: float = 0, **labels: Any) -> Metric:
    """A gauge of one data point."""
    metric = Metric(name=name)
    attributes(metric.gauge.data_points.add(as_double=value, time_unix_nano=int(at * SECOND_NANO)), labels)
    return metric


def payload(*metrics: Metric, **resource: str) -> bytes:
    """A push's metrics, each in a ResourceMetrics of its own as Java sends them."""
    data = MetricsData()
    for metric in metrics:
        found = data.resource_metrics.add()
        for key, value in resource.items():
            found.resource.attributes.add(key=key).value.string_value = value
        found.scope_metrics.add().metrics.append(metric)
    return data.SerializeToString()


def push(number: int, *metrics: Metric, resource: dict[str, str] | None = None, **fields: Any) -> PushRecord:
    """The push with that number, a second of it after the one before; by default of one client, and not its last."""
    chosen = {"client_id": "orders", "terminating": False, "push_interval_ms": 60_000, **fields}
    received_at = push_record(0).received_at + number * 1_000_000
    return push_record(number, payload(*metrics, **(resource or {})), **{"received_at": received_at, **chosen})


def batch_of(*records: PushRecord) -> Batch:
    """These records as a batch of the log."""
    size = sum(len(record.metrics) for record in records)
    return Batch(exporter="page", records=records, first_position="1", last_position="2", size_bytes=size)


def export(exporter: PrometheusExporter, *records: PushRecord) -> Outcome:
    """Gives the exporter one batch."""
    return exporter.export(batch_of(*records))


def clock_at(number: int) -> MockTime:
    """The clocks when the push with that number was received."""
    return MockTime(wall_ms=push_record(0).received_at // 1_000 + number * 1_000)


def page_of(exporter: PrometheusExporter, accept: str = "application/openmetrics-text") -> str:
    """The page as text."""
    return "".join(exporter._page(accept).pieces)


class Samples:
    """A page's samples, by name and labels.

    Attributes:
        families: type by the name of the family.
    """

    def __init__(self, text: str, content_type: str = OPENMETRICS) -> None:
        parse = openmetrics_families if content_type.startswith("application/openmetrics-text") else text_families
        self.families: dict[str, str] = {}
        lines = [line.rpartition(" ")[0] for line in text.split("\n") if not line.startswith("#")]
        assert len(lines) == len(set(lines)), "a line is there twice"
        self._found: list[tuple[str, dict[str, str], float]] = []
        for family in parse(text):
            assert family.name not in self.families, f"{family.name} is there twice"
            self.families[family.name] = family.type
            self._found += [(sample.name, sample.labels, sample.value) for sample in family.samples]
        identities = [(name, *sorted(labels.items())) for name, labels, _ in self._found]
        assert len(identities) == len(set(identities)), "a series is there twice"

    def all(self, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        """Every sample with that name and, among others, these labels."""
        wanted = labels.items()
        return [(found, value) for each, found, value in self._found if each == name and wanted <= found.items()]

    def one(self, name: str, **labels: str) -> float:
        """The value of the one sample with that name and, among others, these labels."""
        found = self.all(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found or 'none'}"
        return found[0][1]

    def names(self) -> set[str]:
        """Names of the samples that are not the exporter's own."""
        return {name for name, _, _ in self._found if not name.startswith("fleetgauge_")}


def samples_of(exporter: PrometheusExporter, accept: str = "application/openmetrics-text") -> Samples:
    """What a scrape of the page says."""
    page = exporter._page(accept)
    return Samples("".join(page.pieces), page.content_type)


def started(settings: Any, time: Time) -> PrometheusExporter:
    """An exporter that takes batches and serves its page."""
    exporter = PrometheusExporter("page", settings, time=time)
    exporter.start()
    return exporter
