"""Real parts that all trips share: one broker with the plugin, one export behind it with its clients, one browser."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser
from support import chromium
from support.brokers.broker_pipeline import DATA_TOPIC, broker_with_plugin, create_topic, export_config
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.clients.java_clients import JavaClients
from support.fleet.landing import landed
from support.ports import free_port
from support.programs.export import Export
from support.receivers.otlp_receivers import GrpcReceiver
from support.waiting import wait_for

VERSION = "4.3.1"
JAVA = "4.4.0"
PUSHES_EACH = 2


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with the plugin, where every client is asked for every metric each second."""
    if MISSING:
        pytest.skip(MISSING)
    with broker_with_plugin(tmp_path_factory.mktemp("broker"), VERSION) as started:
        started.subscribe(interval_ms=1_000)
        create_topic(started.bootstrap)
        yield started


@dataclass(frozen=True)
class Exported:
    """A running `fleetgauge export`, whose clients push on.

    Attributes:
        client_ids: of a producer and a consumer, each of Java and of librdkafka.
        receiver: what it sends OTLP to.
        landing: its landing zone.
        page: the address of its page for Prometheus, host and port.
    """

    export: Export
    client_ids: frozenset[str]
    receiver: GrpcReceiver
    landing: Path
    page: str


@pytest.fixture(scope="package")
def exported(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """Clients that have pushed through the broker, and everything that they pushed so far has been delivered."""
    directory = tmp_path_factory.mktemp("export")
    receiver, page = GrpcReceiver(), f"127.0.0.1:{free_port()}"
    config = export_config(broker, directory, receiver.port)
    with config.open("a") as file:
        file.write(f'\n[exporters.page]\ntype = "prometheus"\nlisten = "{page}"\n')
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 3}
    java = JavaClients(JAVA, broker.bootstrap, DATA_TOPIC, directory)
    producer = Producer({**settings, "client.id": "rdkafka-producer"})
    consumer = Consumer({**settings, "client.id": "rdkafka-consumer", "group.id": "rdkafka"})
    consumer.subscribe([DATA_TOPIC])
    try:
        with Export(directory, config) as export:
            client_ids = frozenset({"rdkafka-producer", "rdkafka-consumer", *java.instance_ids()})

            def pushes() -> dict[str, int]:
                producer.produce(DATA_TOPIC, b"value")
                consumer.poll(0.05)
                assert export.process.poll() is None, export.output()
                arrived = [str(record["client_id"]) for record in landed(directory / "landing")]
                return {client_id: arrived.count(client_id) for client_id in client_ids}

            wait_for(pushes, "pushes of every client", until=lambda counts: min(counts.values()) >= PUSHES_EACH)
            yield Exported(export, client_ids, receiver, directory / "landing", page)
            java.close()
            assert export.stop() == 0, export.output()
    finally:
        receiver.stop()
        consumer.close()
        java.kill()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if chromium.MISSING:
        pytest.skip(chromium.MISSING)
    with chromium.chromium() as found:
        yield found


@pytest.fixture
def zone(exported: Exported, tmp_path: Path) -> Path:
    """A copy of the landing zone, to which nothing is added any more."""
    return Path(shutil.copytree(exported.landing, tmp_path / "landing", ignore=shutil.ignore_patterns("_*", ".*")))
