"""From real clients through a node to a real Prometheus, while the node and its exporters are stopped and killed."""

import contextlib
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from support.brokers.admin_client import AdminClient
from support.clients.client_fleet import ALL_EACH_SECOND
from support.clients.raw_client import RawClient, Subscription
from support.clients.telemetry_clients import LibrdkafkaProcess
from support.payloads.client_series import DELTA, LATENCY_ON_PAGE, REQUESTS_ON_PAGE, Samples, counter, gauge, payload
from support.ports import free_port
from support.programs.node import Node
from support.receivers.prometheus_server import MISSING, PrometheusServer
from support.waiting import PATIENCE_S, pause, wait_for

from fleetgauge.exporters.prometheus.page import TEXT

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


class Pushing:
    """A client outside our code that pushes deltas one after the other, and adds up those that were acknowledged."""

    def __init__(self) -> None:
        self.instance_id = uuid.uuid4()
        self.acknowledged = 0

    def push(self, port: int, deltas: int, *, terminating: bool = False) -> None:
        """Pushes 1, 2, 3, ... and waits for the acknowledgement of each."""
        with RawClient(port, client_id="pushing", timeout_s=PATIENCE_S) as client:
            subscription = client.get(self.instance_id)
            for delta in range(1, deltas + 1):
                pause(subscription.push_interval_ms / 1000, "a push before its interval would be throttled")
                self._push(client, subscription, delta, terminating=terminating and delta == deltas)

    def _push(self, client: RawClient, subscription: Subscription, delta: int, *, terminating: bool) -> None:
        latency = Metric(name="app.latency", unit="ms", description="how long it takes")
        latency.histogram.aggregation_temporality = DELTA
        latency.histogram.data_points.add(count=3, sum=33, bucket_counts=[1, 2, 0], explicit_bounds=[10, 20])
        metrics = payload(counter(delta, node__id=1), gauge(delta, node__id=1), latency, group_id="billing")
        answer = client.push(subscription, metrics, instance_id=self.instance_id, terminating=terminating)
        assert answer.error_code == 0
        self.acknowledged += delta


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, str]]:
    """A node that serves, and where its page of client series is."""
    port = free_port()
    config = (
        f'[client-metrics.fast]\nmetrics = "*"\ninterval.ms = 100\nmatch = "client_id=pushing"\n'
        f'[exporters.page]\ntype = "prometheus"\nlisten = "127.0.0.1:{port}"\nlinger.ms = 50\n'
    )
    with Node(tmp_path_factory.mktemp("page"), config=ALL_EACH_SECOND + config) as node:
        yield node, f"127.0.0.1:{port}"


def samples(target: str) -> Samples:
    """What a scrape says; nothing while the page is away."""
    with contextlib.suppress(OSError), urlopen(f"http://{target}/metrics", timeout=PATIENCE_S) as response:
        return Samples(response.read().decode(), TEXT)
    return Samples("", TEXT)


def series(target: str, name: str, client_id: str) -> list[tuple[dict[str, str], float]]:
    """A client's series of that name."""
    return samples(target).all(name, client_id=client_id)


def test_counters_are_exact_in_prometheus_through_stops_and_kills(page: tuple[Node, str], tmp_path: Path) -> None:
    """What clients pushed is on the page, once, whatever ended in between; Prometheus saw no counter fall."""
    node, target = page
    pushing = Pushing()
    mine = f'{REQUESTS_ON_PAGE}{{client_id="pushing"}}'
    with PrometheusServer(tmp_path, target) as prometheus:
        pushing.push(node.port, 5)
        prometheus.wait_for(mine, pushing.acknowledged)
        for kill in (node.kill_exporter, node.kill, node.stop, node.kill_exporter):
            pushing.push(node.port, 5)
            kill()
            if node.process is not None and node.process.poll() is not None:
                node.start()
        pushing.push(node.port, 2)
        [(labels, _)] = prometheus.wait_for(mine, pushing.acknowledged)
        assert labels["node_id"] == "1"
        prometheus.wait_for(f"resets({mine}[10m])", 0)  # it never falls again
        assert prometheus.wait_for(f'{LATENCY_ON_PAGE}{{client_id="pushing",node_id="1"}}', 2)
        joined = prometheus.wait_for(f"{mine} * on (client_instance_id) group_left (group_id) fleetgauge_client_info")
        assert joined[0][0]["group_id"] == "billing"
        assert prometheus.wait_for("histogram_quantile(0.5, app_latency_milliseconds_bucket)", 12.5)
        prometheus.wait_for("up", 1)

        pushing.push(node.port, 1, terminating=True)
        prometheus.wait_for(mine, pushing.acknowledged)


def test_real_clients_are_on_the_page_with_their_links_read_as_one(page: tuple[Node, str], tmp_path: Path) -> None:
    node, target = page
    clients = LibrdkafkaProcess(LibrdkafkaProcess.NEWEST, f"127.0.0.1:{node.port}", tmp_path)
    created = "org_apache_kafka_{}_connection_creation_total"
    try:
        for role in ("producer", "consumer"):
            name, client_id = created.format(role), f"{clients.prefix}-{role}"
            wait_for(partial(series, target, name, client_id), f"the {role}'s series")
        latency = "org_apache_kafka_producer_node_request_latency_avg"
        links = wait_for(partial(series, target, latency, f"{clients.prefix}-producer"), "the producer's links")
        nodes = [labels["node_id"] for labels, _ in links]
        assert len(nodes) == len(set(nodes)), "links to no known broker are one"
        assert all(node_id.lstrip("-").isdigit() for node_id in nodes)
        clients.ask_to_close()
        clients.wait()
    finally:
        clients.kill()


def test_a_client_whose_interval_is_raised_stays_on_the_page_while_it_may_wait(tmp_path: Path) -> None:
    target = f"127.0.0.1:{free_port()}"
    config = f'[exporters.page]\ntype = "prometheus"\nlisten = "{target}"\nlinger.ms = 50\nseries.linger.ms = 0\n'
    stays, goes = uuid.uuid4(), uuid.uuid4()
    with Node(tmp_path, config=config) as node, AdminClient(node.port) as admin:
        admin.set("both", metrics="*", interval_ms="5000")
        for client_id, instance_id in (("stays", stays), ("goes", goes)):
            with RawClient(node.port, client_id=client_id, timeout_s=PATIENCE_S) as client:
                metrics = payload(counter(1))
                assert client.push(client.get(instance_id), metrics, instance_id=instance_id).error_code == 0
        admin.set("both", interval_ms="3600000", match="client_id=stays")
        admin.set("rest", metrics="*", interval_ms="5000", match="client_id=goes")
        wait_for(partial(series, target, REQUESTS_ON_PAGE, "goes"), "the series of both")
        wait_for(lambda: not series(target, REQUESTS_ON_PAGE, "goes"), "the end of the series whose client is gone")
        assert series(target, REQUESTS_ON_PAGE, "stays")
