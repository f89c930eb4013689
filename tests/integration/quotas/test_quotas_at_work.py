"""Quotas on a running node, at which real clients push: who is over them is slowed, and nobody's telemetry goes off."""

import json
import logging
import operator
import signal
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.certificates import Authority, Certificate
from support.clients.raw_client import RawClient
from support.clients.telemetry_clients import Client, LibrdkafkaProcess
from support.fleet.delta_sums import DeltaSums
from support.fleet.landing import landed
from support.programs.node import Node
from support.waiting import wait_for

pytestmark = pytest.mark.integration

INTERVAL_MS = 100
CREATED = "org.apache.kafka.producer.connection.creation.total"


class Quoted:
    """A node whose quotas change, with a landing zone."""

    def __init__(self, directory: Path) -> None:
        self.landing = directory / "landing"
        self.base = (
            f'[client-metrics.all]\nmetrics = "*"\ninterval.ms = {INTERVAL_MS}\n'
            f'[exporters.landing]\ntype = "landing"\npath = "{self.landing}"\nlinger.ms = 300\n'
        )
        self.node = Node(directory, config=self.base)

    def limit(self, quotas: str) -> None:
        """Has the node take these quotas instead of those before."""
        self.node.reread(self.base + quotas)

    def usage(self, kind: str, entity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.node.status()["quotas"]["usage"][kind][entity]
        return found

    def expect_landed(self, clients: tuple[Client, ...]) -> None:
        """Every push that a client saw acknowledged lands, and none of them says that its telemetry is off."""
        acknowledged = {client.instance_id(): client.acknowledged() for client in clients}

        def missing() -> dict[str, tuple[int, int]]:
            there = Counter(record["client_instance_id"] for record in landed(self.landing))
            return {i: (there[i], count) for i, count in acknowledged.items() if there[i] < count}

        wait_for(missing, "acknowledged pushes in the landing zone (there, acknowledged)", until=operator.not_)
        assert not any(client.says_off() for client in clients)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quoted]:
    quoted = Quoted(tmp_path_factory.mktemp("node"))
    with quoted.node:
        yield quoted


@pytest.fixture
def quoted(shared: Quoted) -> Quoted:
    """The node without a quota, whatever the test before set."""
    shared.limit("")
    return shared


@pytest.fixture
def clients(quoted: Quoted, tmp_path: Path) -> Iterator[tuple[Client, ...]]:
    """A producer and a consumer of librdkafka that were acknowledged."""
    process = LibrdkafkaProcess(LibrdkafkaProcess.NEWEST, f"127.0.0.1:{quoted.node.port}", tmp_path)
    try:
        expect_pushes(process.clients, {})
        yield process.clients
    finally:
        process.kill()


def expect_pushes(clients: tuple[Client, ...], before: dict[str, int], number: int = 2) -> None:
    """Waits until each saw so many more pushes acknowledged."""
    wait_for(
        lambda: [c.name for c in clients if c.acknowledged() < before.get(c.name, 0) + number],
        "pushes of each client",
        until=operator.not_,
    )


def acknowledged(clients: tuple[Client, ...]) -> dict[str, int]:
    return {client.name: client.acknowledged() for client in clients}


def test_a_client_over_its_request_quota_is_held_and_others_are_not(quoted: Quoted) -> None:
    quoted.limit('[quotas."users/ANONYMOUS/clients/slow"]\nrequest_percentage = 0.00001\n')
    before = quoted.node.status()["quotas"]["requests_throttled"]
    with RawClient(quoted.node.port, client_id="slow") as slow, RawClient(quoted.node.port) as other:
        subscription = slow.get()
        answers = [slow.push(subscription, b"") for _ in range(2)]
        assert other.get().throttle_time_ms == 0
    status = quoted.node.wait_for(lambda s: not s["quotas"]["channels_held"], what="the last throttle to end")
    assert subscription.throttle_time_ms == 1_000
    assert [(each.error_code, each.throttle_time_ms) for each in answers] == [(0, 1_000)] * 2
    assert status["quotas"]["requests_throttled"] - before == 3
    assert quoted.usage("Request", "user=ANONYMOUS,client-id=slow")["limit"] == 0.00001


def test_real_clients_under_a_request_quota_keep_their_telemetry_on(
    quoted: Quoted, clients: tuple[Client, ...]
) -> None:
    before = quoted.node.status()["quotas"]["requests_throttled"]
    quoted.limit('[quotas."users/ANONYMOUS"]\nrequest_percentage = 0.00001\n')
    seen = acknowledged(clients)
    expect_pushes(clients, seen, 3)
    status = quoted.node.status()["quotas"]
    assert status["requests_throttled"] >= before + 3 * len(clients)
    quoted.expect_landed(clients)


def test_real_clients_over_a_telemetry_quota_push_less_often_and_lose_nothing(
    quoted: Quoted, clients: tuple[Client, ...]
) -> None:
    """Two clients with ten pushes a second each, of which five are allowed: each is given four times its interval."""
    ids = {client.instance_id() for client in clients}
    refused = quoted.node.status()["telemetry"]["refusals"]
    quoted.limit('[quotas."users/ANONYMOUS"]\ntelemetry_push_rate = 5\n')

    def not_slowed() -> set[str]:
        return ids - {
            r["client_instance_id"] for r in landed(quoted.landing) if r["push_interval_ms"] == 4 * INTERVAL_MS
        }

    wait_for(not_slowed, "a push of each at the longer interval", until=operator.not_)
    used = quoted.usage("TelemetryPush", "user=ANONYMOUS")
    assert used["throttled_clients"] == len(ids)
    quoted.limit('[quotas."users/ANONYMOUS"]\ntelemetry_push_rate = 1000\n')
    raised = quoted.usage("TelemetryPush", "user=ANONYMOUS")
    assert (used["limit"], raised["limit"]) == (5, 1_000)
    assert raised["used"] > used["used"] / 2, "what was used is kept"
    quoted.node.wait_for(lambda s: s["telemetry"]["counters"]["instances_slowed"] == 0, what="the return of both")
    assert quoted.usage("TelemetryPush", "user=ANONYMOUS")["throttled_clients"] == 0
    after = quoted.node.status()["telemetry"]["refusals"]
    assert after.keys() - refused.keys() <= {"UNKNOWN_SUBSCRIPTION_ID"}, "nobody is refused for the quota"
    quoted.expect_landed(clients)


def test_under_a_longer_interval_the_deltas_add_up_to_what_the_client_counted(
    quoted: Quoted, caplog: pytest.LogCaptureFixture
) -> None:
    """The client closes its connection before each of its pushes, 1.6 seconds apart, and so makes one for each."""
    quoted.limit('[quotas."clients/<default>"]\ntelemetry_push_rate = 0.625\n')
    connects = [0]

    def count(statistics: str) -> None:
        connects.append(sum(broker["connects"] for broker in json.loads(statistics)["brokers"].values()))

    settings = {
        "bootstrap.servers": f"127.0.0.1:{quoted.node.port}",
        "client.id": "counted",
        "connections.max.idle.ms": 1_000,
        "statistics.interval.ms": 50,
        "stats_cb": count,
        "debug": "telemetry",
    }
    caplog.set_level(logging.DEBUG)
    producer = Producer(settings, logger=logging.getLogger("counted"))
    sums = DeltaSums(CREATED, longer_ms=16 * INTERVAL_MS)

    def not_agreed() -> dict[int, int] | None:
        producer.poll(0.1)
        mine = [record for record in landed(quoted.landing) if record["client_id"] == "counted"]
        acknowledged = caplog.text.count("PushTelemetryRequest succeeded")
        failed = caplog.text.count("PushTelemetryRequest failed")
        missing = sums.missing(mine, connects[-1], acknowledged=acknowledged, failed=failed)
        return missing or ({} if connects[-1] > 3 else {0: connects[-1]})

    wait_for(
        not_agreed,
        "the deltas of the pushes to add up to the connections that the client counted",
        until=operator.not_,
    )
    producer.close()


def test_the_name_of_a_certificate_is_under_its_own_quota(tmp_path: Path) -> None:
    """Names with blanks, commas and equals signs are encoded in tags; the quota is set for the name as it is."""
    authority = Authority(tmp_path / "authority")
    server = authority.issue("server", "/CN=localhost")
    config = f"""
listener.security.protocol.map = "TLS:SSL"
ssl.keystore.type = "PEM"
ssl.keystore.location = "{server.keystore}"
ssl.truststore.location = "{authority.certificate}"
ssl.client.auth = "required"
[quotas."users/CN=x,O=My Team"]
request_percentage = 0.00001
"""
    with Node(tmp_path, "listeners=TLS://127.0.0.1:0", config=config) as node:

        def throttle_time_ms(certificate: Certificate) -> int:
            context = ssl.create_default_context(cafile=str(authority.certificate))
            context.load_cert_chain(certificate.certificate, certificate.key)
            with RawClient(node.port) as client:
                client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
                return client.get().throttle_time_ms

        assert throttle_time_ms(authority.issue("limited", "/O=My Team/CN=x")) == 1_000
        assert throttle_time_ms(authority.issue("other", "/O=My Team/CN=y")) == 0
        usage = node.status()["quotas"]["usage"]["Request"]
        assert usage["user=CN%3Dx%2CO%3DMy%20Team"]["limit"] == 0.00001


def test_a_listener_that_started_without_connections_takes_a_limit_and_does_not_give_it_up(tmp_path: Path) -> None:
    """As Kafka's dynamic configuration has it: 0 stays until it is changed, and nothing is changed to 0."""
    key = "listener.name.plaintext.max.connections"
    with Node(tmp_path, config=f"{key} = 0\n") as node:
        node.reread(f'{key} = 0\n[client-metrics.more]\nmetrics = "*"\n')
        with RawClient(node.port) as waiting:
            node.reread(f"{key} = 1\n")
            assert waiting.get().error_code == 0
        node.config_file.write_text(f"{key} = 0\n")
        assert node.process is not None
        node.process.send_signal(signal.SIGHUP)
        node.wait_for(
            lambda _: "listener.name.plaintext: Invalid max.connections 0" in node.output(), what="the refusal"
        )
        with RawClient(node.port) as next_one:
            assert next_one.get().error_code == 0
