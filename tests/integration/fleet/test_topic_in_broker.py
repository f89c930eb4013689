"""Fleet's answers from a topic in a real Kafka broker: those that a landing zone with the same pushes gives."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from integration.fleet.fleet_commands import FleetCommands
from spark.landing_zone import OTHER_INSTANCE, push
from support.brokers.kafka_broker import KafkaBroker
from support.fleet.spark_versions import NEWEST, OLDEST, spark_python
from support.fleet.standing_tables import rows
from support.ports import free_ports
from support.waiting import PATIENCE_S
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.exporters.landing.parquet import encode
from fleetgauge.fleet.errors import JarError, JavaError
from fleetgauge.fleet.source.topic.connector import connector_for, connector_jars
from fleetgauge.fleet.spark.session import check_java
from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.telemetry.push_record import PushIds, PushRecord

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.timeout(1_000),  # a dozen answers of Spark, on a busy machine too
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka"),
]

VERSION = "4.3.1"
TOPIC = "fleetgauge-pushes"
STANDING = "standing"
LARGEST = 16 * 1024 * 1024
ROOM = LARGEST + 1024 * 1024
ANSWERS_S = 6 * PATIENCE_S
"""How long a session may take for a dozen answers [s]."""
ids = PushIds(writer=9)
NOW = datetime.now(UTC)


def pushed(metrics: bytes, *, minutes_ago: int = 0, **fields: Any) -> PushRecord:
    """A push as the sink would have received it some minutes ago."""
    received_at = int((NOW - timedelta(minutes=minutes_ago)).timestamp() * 1_000_000)
    record = PushRecord(**push() | {"push_id": ids.next_id(received_at), "received_at": received_at} | fields)
    return record._replace(metrics=metrics, payload_bytes=len(metrics))


def largest_push() -> bytes:
    """As large as a decompressed push may be: one field that no reader knows."""
    body = bytes(LARGEST - 5)
    length = bytes([(len(body) >> shift) & 0x7F | 0x80 for shift in (0, 7, 14)]) + bytes([len(body) >> 21])
    return b"\x7a" + length + body


JAVA = pushed(dialect.java_consumer(["orders.events"]), client_id="billing", minutes_ago=1)
FRANZ = pushed(dialect.franz_go({1: 2.5}), client_id="caf\u00e9", client_instance_id=OTHER_INSTANCE, minutes_ago=180)
PUSHES = [
    JAVA,
    FRANZ,
    pushed(b"", client_id="billing", terminating=True),
    JAVA,  # delivered twice
    pushed(b"\xff", client_id="broken"),
    pushed(dialect.java_producer({"node-1": 3.5}), push_interval_ms=None, client_source_port=None, minutes_ago=300),
]
READ = 2
"""The partition of three that the keys of most pushes fall into."""

DELAYED = pushed(b"", client_id="delayed", minutes_ago=300)
"""Comes to the topic hours after it was received."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    try:
        check_java()
        connector_jars()
    except (JavaError, JarError) as error:
        pytest.skip(str(error))
    with KafkaBroker(tmp_path_factory.mktemp("broker"), VERSION) as started:
        fill(started.bootstrap)
        yield started


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landing")
    for number, record in enumerate([*PUSHES, DELAYED]):
        (root / f"pushes-{number}.parquet").write_bytes(encode([record]))
    return root


def fill(bootstrap: str) -> None:
    """The pushes, and what else a topic may have on it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"max.message.bytes": str(ROOM)}
    topics = [NewTopic(TOPIC, 3, 1, config=settings), NewTopic("empty", 2, 1), NewTopic("large", 1, 1, config=settings)]
    for created in admin.create_topics(topics).values():
        created.result(PATIENCE_S)
    client = {"bootstrap.servers": bootstrap, "enable.metrics.push": False, "message.max.bytes": ROOM}
    producer = Producer(client)
    long_ago = int((NOW - timedelta(days=1)).timestamp() * 1_000)
    producer.produce(TOPIC, key=b"long ago", value=b"what retention has taken", partition=0, timestamp=long_ago)
    flush(producer)  # until the partitions are known, what is produced for no certain one comes later than the rest
    for record in sorted(PUSHES, key=lambda record: record.received_at):
        produce(producer, TOPIC, record)
    produce(producer, "large", pushed(largest_push(), client_id="large"))
    flush(producer)
    produce(producer, TOPIC, DELAYED, delay_ms=300 * 60_000)
    key, value, headers = encode_record(JAVA)
    producer.produce(TOPIC, key=key, value=None, headers=headers, partition=1)
    producer.produce(TOPIC, key=b"billing", value=value, headers=headers, partition=1)
    producer.produce(TOPIC, key=key, value=value, headers=[*headers, ("schema_version", b"2")], partition=1)
    flush(producer)
    admin.delete_records([TopicPartition(TOPIC, 0, 1)])[TopicPartition(TOPIC, 0, 1)].result(PATIENCE_S)
    somebody_else(Producer(client | {"transactional.id": "somebody-else"}))


def produce(producer: Producer, topic: str, record: PushRecord, *, delay_ms: int = 0) -> None:
    key, value, headers = encode_record(record)
    timestamp = record.received_at // 1000 + delay_ms
    producer.produce(topic, key=key, value=value, headers=headers, timestamp=timestamp)


def flush(producer: Producer) -> None:
    assert producer.flush(PATIENCE_S) == 0


def somebody_else(producer: Producer) -> None:
    """A transaction: its marker is an offset without a record, the last one of the partition."""
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, key=None, value=b"{}", partition=2)
    producer.commit_transaction(PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Requests:
    """Questions that one session answers."""

    asked: dict[str, dict[str, Any]]

    def answers(self) -> dict[str, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "tests/integration/fleet/fleet_answers.py"],
            input=json.dumps(list(self.asked.values())),
            capture_output=True,
            text=True,
            timeout=ANSWERS_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return dict(zip(self.asked, json.loads(done.stdout), strict=True))


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.soak
def test_a_topic_answers_as_a_landing_zone_does_and_names_what_is_wrong(broker: KafkaBroker, landing: Path) -> None:
    topic = f"kafka://{broker.bootstrap}/{TOPIC}"
    recent = {"since": (NOW - timedelta(minutes=90)).isoformat(), "until": (NOW + timedelta(minutes=1)).isoformat()}
    early = {"until": (NOW - timedelta(minutes=90)).isoformat()}
    (nobody,) = free_ports(1)
    asked: dict[str, dict[str, Any]] = {
        f"{job} of {where}": {"job": job, "source": where}
        for where in (topic, str(landing))
        for job in ("inventory", "points")
    }
    asked |= {
        "rejects": {"job": "rejects", "source": topic},
        "recent": {"job": "inventory", "source": topic} | recent,
        "early": {"job": "inventory", "source": topic} | early,
        "large": {"job": "inventory", "source": f"kafka://{broker.bootstrap}/large"},
        "no topic": {"job": "inventory", "source": f"kafka://{broker.bootstrap}/nosuch"},
        "empty": {"job": "inventory", "source": f"kafka://{broker.bootstrap}/empty"},
        "no broker": {
            "job": "inventory",
            "source": f"kafka://127.0.0.1:{nobody}/{TOPIC}",
            "options": ["default.api.timeout.ms=1500", "request.timeout.ms=1000"],
        },
        "no login": {"job": "inventory", "source": topic, "options": ["security.protocol=SASL_PLAINTEXT"]},
    }
    answers = Requests(asked).answers()
    errors = {name: answer["error"] for name, answer in answers.items() if "error" in answer}
    assert set(errors) == {"no topic", "empty", "no broker", "no login"}, errors
    for job in ("inventory", "points"):
        rows = answers[f"{job} of {topic}"]["rows"]
        assert rows
        assert ordered(rows) == ordered(answers[f"{job} of {landing}"]["rows"]), job
    assert pushes_of(answers["recent"]) == [("billing", 2)]
    assert pushes_of(answers["early"]) == [("app-1", 1), ("caf\u00e9", 1)], "what lies beyond is not even read"
    assert pushes_of(answers["large"]) == [("large", 1)]
    check_rejects(answers["rejects"])
    assert f"there is no topic nosuch on {broker.bootstrap}" in errors["no topic"]
    assert errors["empty"] == f"the topic empty on {broker.bootstrap} has no pushes yet"
    assert f"no Kafka broker responds as expected at 127.0.0.1:{nobody}" in errors["no broker"]
    assert f"cannot read {TOPIC} on {broker.bootstrap}: Failed to create admin client" in errors["no login"]
    assert "No provider for SASL mechanism GSSAPI" in errors["no login"]
    assert all("\n" not in error for error in errors.values())


def pushes_of(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return sorted((row["client_id"], row["pushes"]) for row in answer["rows"])


def check_rejects(answer: dict[str, Any]) -> None:
    assert answer["repeats"] == 1
    assert answer["rejects"] == len(answer["rows"]) == 5
    found = sorted(row["reason"] for row in answer["rows"])
    assert found[1:] == [
        "schema_version 2 is newer than 1",
        "the key is 'billing', expected a client instance id of 22 characters",
        "the record has no value (a heartbeat's is empty)",
        "there is no header schema_version",
    ]
    somebody = next(row for row in answer["rows"] if row["reason"] == found[-1])
    assert (somebody["source_file"], somebody["client_id"]) == (f"{TOPIC}-2", None)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_command_reads_a_topic_with_jars_and_settings_of_ones_own(
    version: str, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Without Maven Central: the jars were copied, and the settings are a file as for Kafka's own tools."""
    jars, python = tmp_path / "jars", spark_python(version)
    jars.mkdir()
    for jar in connector_jars(connector=connector_for(version)):
        shutil.copy(jar, jars)
    (tmp_path / "client.properties").write_text(
        "# ours\nclient.id = fleet-\\\n    reader\nsecurity.protocol=PLAINTEXT\n"
    )
    done = subprocess.run(
        [
            *(python.executable, "-m", "fleetgauge", "fleet", "inventory", "--format", "json", "--master", "local[2]"),
            *("--source", f"kafka://{broker.bootstrap}/{TOPIC}", "--kafka-jars", str(jars)),
            *("--kafka-config", str(tmp_path / "client.properties"), "--kafka-option", "fetch.max.wait.ms=100"),
            *("--client-id", "caf\u00e9"),
        ],
        capture_output=True,
        text=True,
        timeout=ANSWERS_S,
        check=False,
        env=python.environment,
    )
    assert done.returncode == 0, done.stderr
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (row["client_instance_id"], row["pushes"]) == (OTHER_INSTANCE, 1)


@pytest.mark.soak
def test_standing_tables_take_what_is_new_on_a_topic_and_say_what_retention_took(
    broker: KafkaBroker, landing: Path, tmp_path: Path
) -> None:
    topic, tables = f"kafka://{broker.bootstrap}/{STANDING}", tmp_path / "of topic"
    common = ("--tables", tables, "--format", "json")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(STANDING, 3, 1)])[STANDING].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.metrics.push": False})
    for record in [*PUSHES, DELAYED]:
        produce(producer, STANDING, record)
    producer.produce(STANDING, key=b"somebody", value=b"{}")
    flush(producer)
    with FleetCommands() as fleet:
        first = fleet.ask("run", "--source", topic, "--max-records", "5", *common)
        assert first["exit_code"] == 0, first
        said = json.loads(first["stdout"])
        assert (said["pushes"], said["repeats"], sum(said["rejects"].values()), said["lost"]) == (5, 1, 2, 0)
        assert said["batches"] > 1
        of_landing = fleet.ask("run", "--source", landing, "--tables", tmp_path / "of landing", "--format", "json")
        assert of_landing["exit_code"] == 0, of_landing
        for name in ("pushes", "points", "inventory"):
            found, expected = (rows_as_text(tmp_path / root, name) for root in ("of topic", "of landing"))
            assert found
            assert found == expected, name
        assert fleet.ask("run", "--source", topic, "--tables", tables)["stdout"] == f"nothing new in {topic}\n"
        check_watch(fleet, admin, broker.bootstrap, tmp_path)
        take_one_of_two(admin, producer)
        later = fleet.ask("run", "--source", topic, *common)
        said = json.loads(later["stdout"])
        assert (said["pushes"], said["lost"]) == (1, 1), later
        nowhere = fleet.ask("run", "--source", f"kafka://{broker.bootstrap}/nosuch", *common)
    assert nowhere["exit_code"] == 1
    assert f"there is no topic nosuch on {broker.bootstrap}" in nowhere["stderr"]


def check_watch(fleet: FleetCommands, admin: AdminClient, bootstrap: str, directory: Path) -> None:
    """A watch of the same topic, whose verdicts go to another one."""
    admin.create_topics([NewTopic("verdicts", 1, 1)])["verdicts"].result(PATIENCE_S)
    rules = directory / "rules.toml"
    rules.write_text(f'[rules.lag]\nmetric = "{dialect.LAG}"\nabove = 20\nmatch = {{ group_id = "billing" }}\n')
    source, sink = (f"kafka://{bootstrap}/{topic}" for topic in (STANDING, "verdicts"))
    command = (
        *("watch", "--once", "--source", source, "--topic", sink, "--rules", rules, "--since", "1d"),
        *("--tables", directory / "watched", "--window", "60s", "--late", "0s", "--format", "json"),
    )
    answer = fleet.ask(*command)
    assert answer["exit_code"] == 0, answer
    assert "; 2 set aside; " in answer["stderr"]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "verdicts", "enable.metrics.push": False})
    consumer.assign([TopicPartition("verdicts", 0, 0)])
    changes = [json.loads(line) for line in answer["stdout"].splitlines()]
    records = consumer.consume(len(changes), timeout=PATIENCE_S)
    assert [(record.key(), json.loads(record.value() or b"")) for record in records] == [
        (change["id"].encode(), change) for change in changes
    ]
    (change,) = [change for change in changes if change["verdict"] == "lag"]
    assert (change["change"], change["client_id"], change["evidence"][0]["observed"]) == ("opened", "billing", 30)
    again = fleet.ask(*command)
    assert (again["exit_code"], again["stdout"], again["stderr"]) == (0, "", ""), "nothing is new"
    assert consumer.get_watermark_offsets(TopicPartition("verdicts", 0), timeout=PATIENCE_S) == (0, len(changes)), (
        "each once"
    )
    consumer.close()


def rows_as_text(tables: Path, name: str) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in rows(tables, name))


def take_one_of_two(admin: AdminClient, producer: Producer) -> None:
    """Two more pushes in one partition, the first of which retention takes before it is read."""
    offsets: list[int | None] = []
    for client_id in ("taken", "left"):
        key, value, headers = encode_record(pushed(b"", client_id=client_id))
        producer.produce(
            *(STANDING, value, key),
            headers=headers,
            partition=READ,
            on_delivery=lambda _, sent: offsets.append(sent.offset()),
        )
        flush(producer)
    assert offsets[1] is not None
    until = TopicPartition(STANDING, READ, offsets[1])
    admin.delete_records([until])[until].result(PATIENCE_S)
