"""The pipeline through a real broker: clients -> broker with the plugin -> topic -> `fleetgauge export` -> outputs.

Used by the end-to-end test and by `make demo-broker` (`python tests/demo_broker.py`).
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.brokers.kafka_broker import CLUSTER_ID, NODE_ID, KafkaBroker
from support.brokers.kafka_jars import bridge_jar
from support.clients.java_clients import JavaClients
from support.clients.push_watch import PARTITIONS, PushWatch
from support.fleet.landing import landed
from support.http import get_url
from support.programs.export import Export
from support.programs.node import run_cli
from support.receivers.receiver import OtlpReceiver
from support.waiting import PATIENCE_S, wait_for

JAVA_VERSIONS = ("3.7.2", "3.9.2", "4.4.0")
DATA_TOPIC = "orders.events"
PUSH_TOPIC = "fleetgauge-pushes"
PACKAGE = "io.github.fleetgauge.bridge"
REPORTERS = {"4.3.1": "FleetgaugeExporterReporter", "3.9.2": "FleetgaugeReporter"}
PUSHES_EACH = 3

Say = Callable[[str], None]


@dataclass
class Outcome:
    """What came out at the pipeline's ends."""

    instance_ids: dict[str, str] = field(default_factory=dict)
    """Client id to the instance id that the client itself reported; empty text where its library tells none."""
    received: dict[str, dict[str, Any]] = field(default_factory=dict)
    """At the OTLP server: labels and points by client instance id."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """In the landing zone."""
    plugin: dict[str, int] = field(default_factory=dict)
    """The plugin's own counts."""
    clients: list[dict[str, Any]] = field(default_factory=list)
    """On the HTTP port of the export, once all have closed."""
    shown: dict[str, str] = field(default_factory=dict)
    """Command, or address on that port, to what it showed."""


def broker_with_plugin(directory: Path, version: str) -> KafkaBroker:
    """A broker as an operator would set it up: the jar beside Kafka's, two lines in server.properties."""
    reporters = f"org.apache.kafka.common.metrics.JmxReporter,{PACKAGE}.{REPORTERS[version]}"
    properties = {"metric.reporters": reporters, "fleetgauge.topic.partitions": str(PARTITIONS)}
    return KafkaBroker(directory, version, jars=[bridge_jar()], properties=properties)


def export_config(broker: KafkaBroker, directory: Path, otlp_port: int) -> Path:
    """The configuration of `fleetgauge export` over the broker's topic, to an OTLP server and a landing zone."""
    config = directory / "export.toml"
    config.write_text(
        f"""
push.log.type = "kafka"
push.log.kafka.bootstrap.servers = "{broker.bootstrap}"
push.log.kafka.topic.name = "{PUSH_TOPIC}"
http.listeners = "http://127.0.0.1:0"

[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{otlp_port}"

[exporters.landing]
type = "landing"
path = "{directory / "landing"}"
linger.ms = 1000
"""
    )
    return config


def wait_until_landed(export: Export, landing: Path, number: int) -> list[dict[str, Any]]:
    """The landing zone's records once there are `number` of them."""

    def count() -> int:
        assert export.process.poll() is None, f"the export ended: {export.output()[-4000:]}"
        return len(landed(landing))

    wait_for(count, f"{number} pushes in the landing zone", until=lambda found: found >= number)
    return landed(landing)


def run_pipeline(version: str, directory: Path, say: Say, java_versions: tuple[str, ...] = JAVA_VERSIONS) -> Outcome:
    """Drives real clients through a broker of `version`, and returns what came out."""
    outcome = Outcome()
    receiver = OtlpReceiver()
    with broker_with_plugin(directory / "kafka", version) as broker:
        say(f"Apache Kafka {version} with the plugin {REPORTERS[version]} listens on {broker.bootstrap}")
        broker.subscribe(name="everything", metrics="*", interval_ms=1000)
        say("kafka-client-metrics made a subscription: every metric, every second")
        create_topic(broker.bootstrap)
        with Export(directory, export_config(broker, directory, receiver.port)) as export:
            outcome.instance_ids = run_clients(broker, directory, java_versions, say)
            outcome.plugin = settled(broker)
            say(f"the plugin's counts: {outcome.plugin}")
            outcome.records = wait_until_landed(export, directory / "landing", outcome.plugin["DeliveredTotal"])
            outcome.clients = ended_clients(export, len(outcome.instance_ids))
            outcome.shown = shown(export)
            assert export.stop() == 0, export.output()[-4000:]
        say(f"fleetgauge export delivered {len(outcome.records)} pushes to the landing zone")
    outcome.received = receiver.finish()
    say(f"the OTLP server saw {len(outcome.received)} client instances")
    return outcome


def create_topic(bootstrap: str) -> None:
    """The topic that the clients work on; its dotted name is one that Java consumers report twice."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "enable.metrics.push": False})
    admin.create_topics([NewTopic(DATA_TOPIC, num_partitions=2, replication_factor=1)])[DATA_TOPIC].result(PATIENCE_S)


def run_clients(broker: KafkaBroker, directory: Path, java_versions: tuple[str, ...], say: Say) -> dict[str, str]:
    """Java clients of every version and librdkafka's, for some pushes each; then all are closed."""
    java = [JavaClients(each, broker.bootstrap, DATA_TOPIC, directory) for each in java_versions]
    common: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "log_level": 3}
    producer = Producer({**common, "client.id": "rdkafka-producer"})
    consumer = Consumer(
        {**common, "client.id": "rdkafka-consumer", "group.id": "rdkafka", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([DATA_TOPIC])
        ids = {"rdkafka-producer": "", "rdkafka-consumer": ""}
        for clients in java:
            ids |= clients.instance_ids()
        say(f"clients: {', '.join(sorted(ids))}")

        def work() -> Counter[str]:
            for _ in range(20):
                producer.produce(DATA_TOPIC, b"value")
                producer.poll(0)
                consumer.poll(0.05)
            return Counter(str(record["client_id"]) for record in landed(directory / "landing"))

        wait_for(
            work,
            f"{PUSHES_EACH} pushes of each client in the landing zone",
            until=lambda pushes: all(pushes[client_id] >= PUSHES_EACH for client_id in ids),
        )
        for clients in java:
            clients.close()
        with PushWatch(broker.bootstrap, PUSH_TOPIC) as watch:
            watch.close_after_a_push("rdkafka-producer", producer)
            watch.close_after_a_push("rdkafka-consumer", consumer)
    finally:
        for clients in java:
            clients.kill()
    say("closed them all")
    return ids


def settled(broker: KafkaBroker) -> dict[str, int]:
    """The plugin's counts once everything that it received is on the topic."""

    def counts() -> dict[str, int]:
        attributes = broker.mbean(f"fleetgauge:type=bridge,node-id={NODE_ID}")
        return {name: int(value) for name, value in attributes.items() if value.isdigit()}

    found = wait_for(counts, "the plugin's empty buffer", until=lambda seen: seen["BufferedPushes"] == 0)
    return {name: count for name, count in found.items() if count}


def ended_clients(export: Export, number: int) -> list[dict[str, Any]]:
    """The clients that the export knows, once so many of them have ended."""

    def clients() -> list[dict[str, Any]]:
        return list(get_url(url_of(export), "/clients", limit="1000").json().get("clients", []))

    def have_ended(found: list[dict[str, Any]]) -> bool:
        return len([client for client in found if client["state"] == "ended"]) >= number

    return wait_for(clients, f"{number} clients that have ended", until=have_ended, ignoring=(ValueError,))


def shown(export: Export) -> dict[str, str]:
    """What an operator looks at: the clients, and some of the metrics."""
    clients = run_cli("clients", "--log-dirs", str(export.data)).stdout
    metrics = get_url(url_of(export), "/metrics").body.decode().splitlines()
    told = (
        "fleetgauge_ready",
        "fleetgauge_client_instances",
        "fleetgauge_exporter_delivered_pushes",
        "fleetgauge_exporter_lag_p",
    )
    return {
        "fleetgauge clients": clients,
        f"{url_of(export)}/metrics (some of it)": "\n".join(line for line in metrics if line.startswith(told)),
    }


def url_of(export: Export) -> str:
    """Where the export says that it serves HTTP."""
    return str(export.status()["http"]["listeners"][0])


def missing(outcome: Outcome) -> list[str]:
    """What did not come through, in words; nothing is the good answer."""
    problems = []
    push_ids = [record["push_id"] for record in outcome.records]
    if len(set(push_ids)) != outcome.plugin["DeliveredTotal"]:
        problems.append(f"{outcome.plugin['DeliveredTotal']} pushes on the topic, {len(set(push_ids))} landed")
    for client_id, instance_id in sorted(outcome.instance_ids.items()):
        problems += _missing_of(client_id, instance_id, outcome)
    unknown = {str(record["client_id"]) for record in outcome.records} - set(outcome.instance_ids)
    if unknown:
        problems.append(f"pushes of clients that are our own: {unknown}")
    return problems


def _missing_of(client_id: str, instance_id: str, outcome: Outcome) -> Iterator[str]:
    known = [(row["client_instance_id"], row["state"]) for row in outcome.clients if row["client_id"] == client_id]
    if [state for _, state in known] != ["ended"] or (instance_id and known[0][0] != instance_id):
        yield f"{client_id} is {known or 'not there'} on /clients of the export"
    records = [record for record in outcome.records if record["client_id"] == client_id]
    if len(records) < PUSHES_EACH:
        yield f"{client_id} has {len(records)} pushes in the landing zone"
        return
    ids = {str(record["client_instance_id"]) for record in records}
    if len(ids) != 1 or (instance_id and ids != {instance_id}):
        yield f"{client_id} calls itself {instance_id}, and is {ids} in the landing zone"
    last = max(records, key=lambda record: str(record["push_id"]))
    if not last["terminating"]:
        yield f"{client_id} is without its terminating push"
    labels = outcome.received.get(ids.pop(), {}).get("labels", {})
    expected = {
        "client_id": client_id,
        "client_software_name": "confluent-kafka-python" if client_id.startswith("rdkafka") else "apache-kafka-java",
        "client_source_address": "127.0.0.1",
        "principal": "User:ANONYMOUS",
        "node_id": str(NODE_ID),
        "cluster_id": CLUSTER_ID,
    }
    wrong = {label: labels.get(label) for label, value in expected.items() if labels.get(label) != value}
    if wrong:
        yield f"{client_id} has the labels {wrong} at the OTLP server, not {expected}"
    for label in ("client_software_version", "client_source_port"):
        if not labels.get(label):
            yield f"{client_id} has no label {label} at the OTLP server"


def fleet(question: str, source: Path, *options: str) -> str:
    """What `fleetgauge fleet` answers over a landing zone."""
    command = [sys.executable, "-m", "fleetgauge", "fleet", "show", question, "--source", str(source), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def inventory(source: Path) -> list[dict[str, Any]]:
    """The rows of the fleet's inventory."""
    return [json.loads(line) for line in fleet("inventory", source, "--format", "json").splitlines()]
