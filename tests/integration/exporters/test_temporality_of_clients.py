"""What clients of three libraries counted, at a Collector in each temporality, equals the growth in the tables.

Real brokers' subscription asks clients for deltas, so `delta` passes them on and `cumulative` adds them up.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics
from support.brokers.broker_pipeline import DATA_TOPIC, broker_with_plugin, create_topic, export_config, settled
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.clients.working_clients import JAVA_3, JAVA_4, LIBRDKAFKA, WorkingClients
from support.fleet.landing import landed
from support.fleet.standing_tables import rows
from support.programs.export import Export
from support.programs.node import run_cli
from support.receivers.otel_collector import OtelCollector, missing_tools
from support.waiting import wait_for

from fleetgauge.telemetry.catalogue.dialects import text_of
from fleetgauge.telemetry.otlp.series import CUMULATIVE, DELTA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900, func_only=True)]

TEMPORALITIES = {"cumulative": CUMULATIVE, "delta": DELTA}
INTERVAL_MS = 1_000
PUSHES = 3
"""By each client before the export is killed, and again afterwards."""

Totals = dict[tuple[str, str, tuple[tuple[str, str | None], ...]], float]
"""By client, metric and attributes."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    if MISSING or missing_tools():
        pytest.skip(MISSING or missing_tools())
    with broker_with_plugin(tmp_path / "broker", "4.3.1") as started:
        create_topic(started.bootstrap)
        yield started


def totals(received: Iterable[ResourceMetrics], temporality: int) -> Totals:
    """What the sums of a temporality add up to: of counts the last of each start, of deltas all.

    What was under way when the export was killed arrives twice, with the same bytes: deltas of it count once here.
    """
    by_start: dict[tuple[tuple[str, str, tuple[tuple[str, str | None], ...]], int], float] = defaultdict(float)
    for resource_metrics in {each.SerializeToString(): each for each in received}.values():
        labels = {each.key: text_of(each.value) for each in resource_metrics.resource.attributes}
        for metric in (metric for scope in resource_metrics.scope_metrics for metric in scope.metrics):
            if not metric.HasField("sum"):
                continue
            assert metric.sum.aggregation_temporality == temporality, metric.name
            for point in metric.sum.data_points:
                attributes = tuple(sorted((each.key, text_of(each.value)) for each in point.attributes))
                series = (labels["client_instance_id"] or "", metric.name, attributes)
                value = point.as_int if point.HasField("as_int") else point.as_double
                if temporality == DELTA:
                    by_start[series, 0] += value
                else:
                    by_start[series, point.start_time_unix_nano] = value
    found: Totals = defaultdict(float)
    for (series, _), value in by_start.items():
        found[series] += value
    return dict(found)


def growth(tables: Path) -> Totals:
    """What the tables say that sums grew by."""
    found: Totals = defaultdict(float)
    for row in rows(tables, "points"):
        if row["metric_type"] == "sum" and row["delta"] is not None:
            found[row["client_instance_id"], row["metric_name"], tuple(sorted(row["attributes"]))] += row["delta"]
    return dict(found)


def test_sums_at_a_collector_equal_the_tables_whatever_is_killed(broker: KafkaBroker, tmp_path: Path) -> None:
    compare_with_the_tables(broker, tmp_path, interval_ms=INTERVAL_MS)


def compare_with_the_tables(broker: KafkaBroker, directory: Path, *, interval_ms: int) -> None:
    """Clients at work push, the export is killed and started again, the clients close."""
    broker.subscribe(interval_ms=interval_ms)
    with ExitStack() as stack:
        collectors = {each: stack.enter_context(OtelCollector(directory / each)) for each in TEMPORALITIES}
        config = export_config(broker, directory, collectors["cumulative"].grpc_port)
        more = "".join(
            f'\n[exporters.to_{name}]\ntype = "otlp"\nendpoint = "http://127.0.0.1:{collector.grpc_port}"\n'
            f'temporality = "{name}"\n'
            for name, collector in collectors.items()
        )
        before, landing = config.read_text().split("[exporters.collector]")[0], directory / "landing"
        config.write_text(
            f'{before}{more}\n[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 500\n'
        )
        for collector in collectors.values():
            collector.start()
        clients = []
        for library in (JAVA_3, JAVA_4, LIBRDKAFKA):
            name = library.replace(" ", "-")
            each = WorkingClients(library, broker.bootstrap, directory / f"{name}.log")
            stack.callback(each.kill)
            clients.append(each.producer(f"{name}-producer", DATA_TOPIC).consumer(f"{name}-consumer", DATA_TOPIC))

        def pushes() -> int:
            """By the client that has pushed the least."""
            arrived = [record["client_id"] for record in landed(landing)]
            return min(arrived.count(client_id) for each in clients for client_id in each.client_ids)

        with Export(directory, config) as export:
            wait_for(pushes, "pushes of every client", until=lambda count: count >= PUSHES)
            export.kill()
        with Export(directory, config) as export:
            wait_for(pushes, "pushes after the kill", until=lambda count: count >= 2 * PUSHES)
            for each in clients:
                each.close()
            delivered = settled(broker)["DeliveredTotal"]
            wait_for(lambda: len(landed(landing)), "all pushes", until=lambda count: count == delivered)
            for name in TEMPORALITIES:
                export.wait_for(f"to_{name}", lambda state: state["lag_records"] == 0, "everything is delivered")
            assert export.stop() == 0, export.output()
        run_cli("fleet", "run", "--source", str(landing), "--tables", str(directory / "fleet"))
        expected = growth(directory / "fleet")
        assert len({client for client, _, _ in expected}) == 2 * len(clients)
        assert sum(value for (_, name, _), value in expected.items() if "record.send.total" in name) > 0
        for name, temporality in TEMPORALITIES.items():
            found = totals(collectors[name].received(), temporality)
            assert found == pytest.approx(expected), name
