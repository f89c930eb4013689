"""`fleetgauge gateway` as its own process before a real broker."""

import json
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, Producer
from support.brokers.kafka_broker import KafkaBroker
from support.clients.java_clients import java_program
from support.ports import free_ports
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for

SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "1000"\n'


class GatewayBefore(Node):
    """A gateway before one broker, to which it maps every node; for a cluster of one broker.

    Attributes:
        bootstrap: where clients find it.
    """

    def __init__(
        self,
        directory: Path,
        broker_port: int,
        *overrides: str,
        nodes: str = "",
        port: int = 0,
        has_admin_listener: bool = False,
        config: str = "",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._own_port = port or free_ports(1)[0]
        if has_admin_listener:
            listeners = f"listeners=PLAINTEXT://127.0.0.1:{self._own_port},ADMIN://127.0.0.1:0"
            protocols = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT"
            overrides = (*overrides, listeners, protocols, "admin.listeners=ADMIN")
        self.bootstrap = f"127.0.0.1:{self._own_port}"
        super().__init__(
            directory,
            f"gateway.broker=127.0.0.1:{broker_port}",
            f"gateway.nodes={nodes or f'*={self.bootstrap}'}",
            *overrides,
            config=SUBSCRIPTION + config,
            command="gateway",
        )

    def start(self, port: int = 0) -> None:
        """Starts it on its port, each time the same."""
        super().start(port or self._own_port)

    def principals(self) -> set[str]:
        """The principals of the clients that have pushed."""
        printed = run_cli("clients", "--log-dirs", str(self.data), "--format", "json").stdout
        return {json.loads(line)["principal"] for line in printed.splitlines()}


def make_topic(broker: KafkaBroker, bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Makes a topic through the gateway, with Kafka's own tool."""
    broker.tool(
        *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap),
        *("--create", "--topic", topic, "--partitions", str(partitions)),
    )


def consumed(topic: str, records: int, **settings: Any) -> list[bytes | None]:
    """Values that a librdkafka consumer in a group of its own reads from the beginning of a topic.

    Args:
        topic: to read.
        records: how many values to wait for.
        settings: of the consumer, `bootstrap.servers` among them.
    """
    consumer = Consumer({"log_level": 0, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    got: list[bytes | None] = []

    def count() -> int:
        got.extend(message.value() for message in consumer.consume(500, 0.5) if message.error() is None)
        return len(got)

    try:
        wait_for(count, f"{records} records of {topic}", until=lambda number: number >= records)
    finally:
        consumer.close()
    return got


def rdkafka_round_trip(topic: str, **settings: Any) -> Producer:
    """Has librdkafka write records and read them back; the producer, which pushes its metrics as long as it is kept.

    Args:
        topic: an empty one of one partition.
        settings: of both clients, `bootstrap.servers` among them. Their client ids are rd-producer and rd-consumer.
    """
    producer = Producer({"log_level": 3, **settings, "client.id": "rd-producer", "enable.idempotence": True})
    expected = [f"record-{number}".encode() for number in range(3_000)]
    for value in expected:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    assert consumed(topic, len(expected), **settings, **{"client.id": "rd-consumer"}) == expected
    return producer


class ShareGroup:
    """`tests/kafka/ShareGroup.java`, which reads a topic until it has had so many values."""

    def __init__(self, bootstrap: str, topic: str, values: int) -> None:
        self._process = subprocess.Popen(
            [*java_program("4.4.0", "ShareGroup"), bootstrap, topic, str(values)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_until_joined(self) -> None:
        """Returns when it has had its first records."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "joined\n"

    def wait(self) -> str:
        """The last line that it prints."""
        printed, errors = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0, errors[-4000:]
        return printed.splitlines()[-1]


def round_trip(
    version: str, bootstrap: str, topic: str, records: int, *protocols: str, options: Sequence[str] = ()
) -> list[str]:
    """What `tests/kafka/RoundTrip.java` prints: a line for each group protocol. `options` are of its JVM."""
    java, *words = java_program(version, "RoundTrip")
    done = subprocess.run(
        [java, *options, *words, bootstrap, topic, str(records), *protocols],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()
