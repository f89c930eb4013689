"""A node's own metrics at a real OpenTelemetry Collector, beside what its clients pushed."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from support.programs.node import Node
from support.receivers.otel_collector import OtelCollector, missing_tools
from support.receivers.otlp_receivers import GrpcReceiver
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.delivery.stats import PipelineState
from fleetgauge.exporters.self_metrics import SelfMetricsExporter, self_metrics_settings
from fleetgauge.node.status.exposition import families

# The first time the collector is built, which takes minutes: only the tests themselves are timed.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900, func_only=True)]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterable[OtelCollector]:
    if missing_tools():
        pytest.skip(missing_tools())
    with OtelCollector(tmp_path_factory.mktemp("collector")) as started:
        started.start()
        yield started


def service_of(found: ResourceMetrics) -> str:
    return {each.key: each.value.string_value for each in found.resource.attributes}.get("service.name", "")


def metrics_of(collector: OtelCollector) -> dict[str, Metric]:
    """The own metrics that came last, by name."""
    return {
        metric.name: metric
        for found in collector.received()
        if service_of(found) == "fleetgauge"
        for scope in found.scope_metrics
        for metric in scope.metrics
    }


def states_of(collector: OtelCollector) -> list[object]:
    """A point for each exporter and each state that one may have."""
    state = metrics_of(collector).get("fleetgauge_exporter_state", Metric())
    return list(state.gauge.data_points)


def test_every_metric_of_a_running_node_arrives_as_it_is_on_metrics_and_a_last_time_when_it_stops(
    collector: OtelCollector, tmp_path: Path
) -> None:
    seldom = GrpcReceiver()
    config = f"""
[exporters.own]
type = "self_metrics"
protocol = "http/protobuf"
endpoint = "http://127.0.0.1:{collector.http_port}"
"interval.ms" = 200

[exporters.seldom]
type = "self_metrics"
endpoint = "http://127.0.0.1:{seldom.port}"
"interval.ms" = 3600000

[exporters.look]
type = "console"
"""
    with Node(tmp_path, config=config) as node:
        wait_for(
            lambda: metrics_of(collector),
            "the metrics of exporters at the collector",
            until=lambda metrics: "fleetgauge_exporter_delivered_batches" in metrics,
        )
        status = node.status()
        told = {family.name: family for family in families(status, ()) if family.samples}
        expected = {
            sample.name if family.type == "histogram" else family.name
            for family in told.values()
            for sample in family.samples
            if sample.value == sample.value
        }
        missing = wait_for(
            lambda: expected - set(metrics_of(collector)), "no metric that is missing", until=lambda names: not names
        )
        assert not missing
        wait_for(
            lambda: len(states_of(collector)),
            "a state of each exporter",
            until=lambda count: count == 3 * len(PipelineState),
        )
        found = metrics_of(collector)
        wait_for(lambda: len(seldom.requests), "the first request of the exporter that seldom sends")
        assert len(seldom.requests) == 1
        node.stop()
    assert len(seldom.requests) == 2
    seldom.stop()
    assert found["fleetgauge_push_log_logged"].sum.is_monotonic
    assert found["fleetgauge_push_log_logged"].description == told["fleetgauge_push_log_logged"].documentation
    [build] = found["fleetgauge_build_info"].gauge.data_points
    assert {each.key for each in build.attributes} == {"version", "node_id", "cluster_id"}


def test_a_collector_that_comes_late_gets_the_counters_as_they_are_then(
    collector: OtelCollector, tmp_path: Path
) -> None:
    late = OtelCollector(tmp_path)
    total = [0.0]

    def source() -> Sequence[CounterMetricFamily | GaugeMetricFamily]:
        total[0] += 1
        if total[0] == 2:
            raise ValueError("not now")
        things = CounterMetricFamily("things", "Things.", labels=["kind"])
        things.add_metric(["a"], total[0])
        things.add_metric(["b"], 1.0)
        return [things, GaugeMetricFamily("level", "A level.", float("nan"))]

    keys = {"endpoint": f"http://127.0.0.1:{late.grpc_port}", "interval.ms": 100, "timeout.ms": 2_000}
    exporter = SelfMetricsExporter("own", self_metrics_settings("own", keys, {}), source, time=SystemTime())
    with late:
        exporter.start()
        wait_for(
            lambda: exporter.stats().retried,
            "a reading that failed, and a collector that is away",
            until=lambda retried: retried.keys() >= {"error", "unavailable"},
        )
        late.start()
        wait_for(lambda: metrics_of(late), "metrics at the late collector")
        exporter.request_stop(round(PATIENCE_S * 1_000))
        assert exporter.join()
        found = metrics_of(late)
    assert exporter.stats().state is PipelineState.STOPPED
    assert set(found) == {"things"}  # no value is no point
    points = {point.attributes[0].value.string_value: point.as_double for point in found["things"].sum.data_points}
    assert points["b"] == 1
    assert points["a"] > 2
