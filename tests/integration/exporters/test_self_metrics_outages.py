"""A node's own metrics to a receiver that goes, comes back, or refuses them."""

from collections.abc import Iterable, Iterator

import grpc
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from prometheus_client.core import CounterMetricFamily
from support.ports import free_port
from support.receivers.otlp_receivers import GrpcReceiver
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.delivery.stats import PipelineState
from fleetgauge.exporters.self_metrics import SelfMetricsExporter, self_metrics_settings

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
PATIENCE_MS = round(PATIENCE_S * 1_000)


class Things:
    """A node's one counter."""

    def __init__(self) -> None:
        self.total = 0.0

    def __call__(self) -> Iterable[CounterMetricFamily]:
        return [CounterMetricFamily("things", "Things.", self.total)]


@pytest.fixture
def receiver() -> Iterator[GrpcReceiver]:
    found = GrpcReceiver()
    yield found
    found.stop()


def told(receiver: GrpcReceiver) -> list[float]:
    """The counter, as it came each time."""
    return [
        point.as_double
        for request in receiver.requests
        for resource in MetricsData.FromString(request).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.sum.data_points
    ]


def exporter_to(port: int, things: Things, interval_ms: int) -> SelfMetricsExporter:
    keys = {"endpoint": f"http://127.0.0.1:{port}", "interval.ms": interval_ms, "timeout.ms": 2_000}
    return SelfMetricsExporter("own", self_metrics_settings("own", keys, {}), things, time=SystemTime())


def test_what_was_counted_since_the_last_interval_is_sent_at_the_end(receiver: GrpcReceiver) -> None:
    things = Things()
    exporter = exporter_to(receiver.port, things, HOUR_MS)
    exporter.start()
    wait_for(lambda: told(receiver), "the counter at its start", until=lambda values: values == [0])
    things.total = 7.0
    exporter.request_stop(PATIENCE_MS)
    assert exporter.join()
    assert told(receiver) == [0, 7]
    assert exporter.stats().state is PipelineState.STOPPED


def test_an_end_does_not_wait_for_a_receiver_that_is_away_or_for_one_without_time(
    receiver: GrpcReceiver,
) -> None:
    port = free_port()
    away, late = exporter_to(port, Things(), HOUR_MS), exporter_to(receiver.port, Things(), HOUR_MS)
    for exporter in (away, late):
        exporter.close_grace_s = PATIENCE_S  # a thread that was told to end may take its time on a busy machine
        exporter.start()
    wait_for(lambda: away.stats().retried, "a receiver that is away")
    wait_for(lambda: told(receiver), "the counter at its start")
    away.request_stop(5_000)
    late.request_stop(0)
    assert away.join()
    assert late.join()
    assert told(receiver) == [0]


def test_a_receiver_that_goes_and_comes_back_gets_the_counters_as_they_are_then() -> None:
    things, first = Things(), GrpcReceiver(free_port())
    exporter = exporter_to(first.port, things, 100)
    exporter.start()
    wait_for(lambda: told(first), "the counter at the first receiver")
    first.stop()
    things.total = 3.0
    wait_for(
        exporter.stats,
        "a receiver that is away",
        until=lambda stats: stats.retried.get("unavailable") and stats.state is PipelineState.RETRYING,
    )
    second = GrpcReceiver(first.port)
    wait_for(lambda: told(second), "the counter at the second receiver")
    wait_for(exporter.stats, "an exporter at work", until=lambda stats: stats.state is PipelineState.RUNNING)
    exporter.request_stop(PATIENCE_MS)
    assert exporter.join()
    second.stop()
    assert set(told(second)) == {3}


def test_metrics_that_are_refused_are_counted_so_and_the_next_interval_is_tried_all_the_same(
    receiver: GrpcReceiver,
) -> None:
    accepts = receiver.answer

    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such tenant")

    receiver.answer = refuse
    exporter = exporter_to(receiver.port, Things(), 100)
    exporter.start()
    wait_for(exporter.stats, "two intervals refused", until=lambda stats: stats.retried.get("invalid_argument", 0) > 1)
    assert "no such tenant" in (exporter.stats().last_error or "")
    receiver.answer = accepts
    wait_for(lambda: told(receiver), "the counter once it is accepted")
    exporter.request_stop(PATIENCE_MS)
    assert exporter.join()
