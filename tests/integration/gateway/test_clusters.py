"""Gateways before clusters of their own: brokers that lack KIP-714, three brokers, brokers with SASL, restarts."""

import json
import os
import struct
import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.brokers.zookeeper_kafka import ZooKeeperKafka
from support.certificates import Authority
from support.clients import rdkafka_round_trip
from support.clients.raw_client import RawClient
from support.gateway.gateway import GatewayBefore, ShareGroup, consumed, round_trip
from support.gateway.gateway_cluster import ClusterBroker, create_topic
from support.gateway.gateway_traffic import request
from support.ports import free_ports
from support.preload import preload
from support.programs.node import run_cli
from support.waiting import PATIENCE_S, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "-"),
]


def produced(bootstrap: str, topic: str, records: int, **settings: str) -> list[bytes]:
    """Values of records that were all acknowledged, by an idempotent producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True, **settings})
    values = [f"{uuid.uuid4().hex}-{number}".encode() for number in range(records)]
    for value in values:
        producer.produce(topic, value)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return values


def test_clients_of_kafka_2_8_push_through_the_gateway(tmp_path: Path) -> None:
    with ZooKeeperKafka(tmp_path / "kafka") as broker, GatewayBefore(tmp_path / "gateway", broker.port) as gateway:
        create_topic(gateway.bootstrap, "old-broker")
        printed = round_trip("4.4.0", gateway.bootstrap, "old-broker", 1_000, "classic")
        assert printed == ["classic all 1500"]
        values = produced(gateway.bootstrap, "old-broker", 1_000)
        assert (
            consumed(
                "old-broker", 2_500, **{"bootstrap.servers": gateway.bootstrap, "isolation.level": "read_committed"}
            )[-1_000:]
            == values
        )
        status = gateway.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) > 1, what="pushes")
        assert status["telemetry"]["push_answers"].keys() == {"NONE"}
        assert set(status["connections"][0]["closed"]) <= {"client_closed", "connection_reset"}


def test_three_gateways_before_three_brokers_with_rolling_restarts_of_both(
    cluster: tuple[list[ClusterBroker], list[GatewayBefore]],
) -> None:
    brokers, gateways = cluster
    bootstrap = ",".join(gateway.bootstrap for gateway in gateways)
    create_topic(bootstrap, "rolling", 1, 3)
    assert round_trip("4.4.0", bootstrap, "rolling", 1_000, "classic", "consumer") == [
        "classic all 1500",
        "consumer all 1500",
    ]
    create_topic(bootstrap, "restarts", 1, 3)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    expected: list[bytes] = []

    def send(records: int) -> None:
        for _ in range(records):
            expected.append(str(len(expected)).encode())
            producer.produce("restarts", expected[-1])
            producer.poll(0)

    for gateway in gateways:
        send(2_000)
        assert gateway.stop() == 0
        send(2_000)
        gateway.start()
    for broker in brokers[1:]:  # the first one is the only controller
        send(2_000)
        broker.stop()
        send(2_000)
        broker.start()
    assert producer.flush(PATIENCE_S) == 0
    assert consumed("restarts", len(expected), **{"bootstrap.servers": bootstrap}) == expected
    create_topic(bootstrap, "spread", 3, 3)  # a leader at each broker: else clients may need one gateway alone
    for partition in range(3):
        producer.produce("spread", partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    assert all(gateway.status()["gateway"]["requests"]["Produce"] for gateway in gateways)


def test_one_gateway_before_three_brokers_that_clients_tell_apart_by_server_name(
    brokers: list[ClusterBroker], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    server = authority.issue("server", "/CN=gateway", names="DNS:*.kafka.test")
    (port,) = free_ports(1)
    overrides = [
        f"listeners=SSL://127.0.0.1:{port}",
        f"advertised.listeners=SSL://any.kafka.test:{port}",
        f"ssl.keystore.location={server.keystore}",
        f"gateway.brokers={','.join(f'{node}=127.0.0.1:{broker.port}' for node, broker in enumerate(brokers, 1))}",
    ]
    nodes = f"*=broker-{{id}}.kafka.test:{port}"
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}.kafka.test\n" for name in ("any", "broker-1", "broker-2", "broker-3")))
    java = [f"-Djdk.net.hosts.file={hosts}", "-Dclient.security.protocol=SSL", "-Dclient.ssl.truststore.type=PEM"]
    java.append(f"-Dclient.ssl.truststore.location={authority.certificate}")
    for topic in ("librdkafka", "any", "broker-2"):
        create_topic(brokers[0].bootstrap, topic, 3)
    with GatewayBefore(tmp_path / "gateway", brokers[0].port, *overrides, nodes=nodes, port=port) as gateway:
        program = [sys.executable, rdkafka_round_trip.__file__, f"any.kafka.test:{port}", "librdkafka"]
        librdkafka = subprocess.run(
            [*program, str(authority.certificate), "3000"],
            env={**os.environ, **preload("host_names", HOSTS_HERE=".kafka.test")},
            stdout=subprocess.PIPE,
            check=True,
            timeout=PATIENCE_S,
        )
        assert json.loads(librdkafka.stdout) == {
            "left": 0,
            "got": {"0": 1000, "1": 1000, "2": 1000},
            "leaders": [1, 2, 3],
            "hosts": {str(node): f"broker-{node}.kafka.test:{port}" for node in (1, 2, 3)},
        }
        for name in ("any", "broker-2"):
            bootstrap = f"{name}.kafka.test:{port}"
            printed = round_trip("4.4.0", bootstrap, name, 1_000, "classic", "consumer", options=java)
            assert printed == ["classic all 1500", "consumer all 1500"]
        status = gateway.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) > 0, what="a push")
        assert set(status["connections"][0]["closed"]) <= {"client_closed", "connection_reset"}
        assert "; those of gateway.brokers by server name" in run_cli("status", "--log-dirs", str(gateway.data)).stdout


def move_leader(broker: KafkaBroker, bootstrap: str, topic: str, order: list[int]) -> None:
    """Has the first of these replicas lead the topic's partition, by Kafka's own tools."""
    plan = broker.directory / "plan.json"
    partitions = [{"topic": topic, "partition": 0, "replicas": order}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    servers = ("--bootstrap-server", bootstrap)
    reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    broker.tool(reassign, *servers, "--reassignment-json-file", str(plan), "--execute")
    elect = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    broker.tool("org.apache.kafka.tools.LeaderElectionCommand", *servers, *elect)


def fetched_of_an_old_leader(port: int, topic_id: bytes) -> bytes:
    """The response to a Fetch 18 of partition 0 with the leader epoch 0, behind the correlation id."""
    partition = struct.pack(">iiqiqi", 0, 0, 0, -1, -1, 1_000) + b"\0"
    topic = topic_id + b"\2" + partition + b"\0"
    body = struct.pack(">iiibii", 0, 0, 1_000, 0, 0, -1) + b"\2" + topic + b"\1" + b"\1" + b"\0"
    with RawClient(port) as client:
        client.send(request(1, 18, 7, body))
        return client.receive_frame()[4:]


def test_leaders_that_move_are_followed_and_no_brokers_address_passes(
    cluster: tuple[list[ClusterBroker], list[GatewayBefore]],
) -> None:
    brokers, gateways = cluster
    bootstrap = ",".join(gateway.bootstrap for gateway in gateways)
    create_topic(bootstrap, "moves", 1, 3)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_topics(TopicCollection(["moves"]))["moves"].result(PATIENCE_S).topic_id
    topic_id = struct.pack(">qq", found.get_most_significant_bits(), found.get_least_significant_bits())
    expected = produced(bootstrap, "moves", 1_000)
    with ShareGroup(bootstrap, "moves", 4_000) as group:
        group.wait_until_joined()
        for order in ([2, 3, 1], [3, 1, 2], [1, 2, 3]):
            move_leader(brokers[0], bootstrap, "moves", order)
            expected += produced(bootstrap, "moves", 1_000)
        assert group.wait() == "share 4000"
    assert consumed("moves", 4_000, **{"bootstrap.servers": bootstrap}) == expected
    for broker, gateway in zip(brokers, gateways, strict=True):
        direct = wait_for(
            partial(fetched_of_an_old_leader, broker.port, topic_id),
            "the leader's address",
            until=lambda fetched: b"127.0.0.1" in fetched,
        )
        through = fetched_of_an_old_leader(gateway.port, topic_id)
        assert b"127.0.0.1" not in through
        assert len(direct) == len(through)
        assert direct[:-40] == through[:-40]


SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "alice-secret",
}


def test_a_user_of_the_brokers_sasl_is_the_principal_of_telemetry(tmp_path: Path) -> None:
    class Secured(KafkaBroker):
        def _defaults(self) -> dict[str, str]:
            found = super()._defaults()
            return {
                **found,
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.plaintext.plain.sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    'username="admin" password="admin-secret" '
                    'user_admin="admin-secret" user_alice="alice-secret";'
                ),
            }

    with (
        Secured(tmp_path / "kafka", "4.3.1", heap="256m") as broker,
        GatewayBefore(tmp_path / "gateway", broker.port, "gateway.security.protocol=SASL_PLAINTEXT") as gateway,
    ):
        create_topic(gateway.bootstrap, "secured", **SASL)
        values = produced(gateway.bootstrap, "secured", 1_000, **SASL)
        assert consumed("secured", 1_000, **{"bootstrap.servers": gateway.bootstrap, **SASL}) == values
        gateway.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) > 0, what="a push")
        reported: list[int] = []
        wrong = Producer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "log_level": 0,
                **SASL,
                "sasl.password": "wrong",
                "error_cb": lambda error: reported.append(error.code()),
            }
        )
        wrong.produce("secured", b"never")
        wait_for(
            lambda: wrong.poll(0.1) >= 0 and reported,
            "the refusal of a wrong password",
            until=lambda codes: codes and KafkaError._AUTHENTICATION in codes,
        )
        assert len(wrong) == 1
        wrong.purge()
        assert gateway.principals() == {"User:alice"}
