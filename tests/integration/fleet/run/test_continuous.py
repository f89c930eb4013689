"""`fleet run --continuous` over a topic in a real broker: a streaming query, killed and started again."""

import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from spark.landing_zone import push
from support.brokers.kafka_broker import KafkaBroker
from support.fleet.killed_runs import ON_SPARK, QUICK_JVM, RUN_S, start_run
from support.fleet.spark_cluster import connect_server
from support.fleet.standing_tables import contents, rows
from support.waiting import PATIENCE_S, follow, unfollow, wait_for
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.errors import JarError, JavaError
from fleetgauge.fleet.source.topic.connector import connector_jars
from fleetgauge.fleet.spark.session import check_java
from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.telemetry.push_record import PushIds, PushRecord

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka"),
]

VERSION = "4.3.1"
TOPIC = "fleetgauge-pushes"
JUDGED = ("verdicts", "group_trends")
"""Tables of windows that are over, which a slow machine may reach before the last round."""
ids = PushIds(writer=11)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    try:
        check_java()
        connector_jars()
    except (JavaError, JarError) as error:
        pytest.skip(str(error))
    with KafkaBroker(tmp_path / "broker", VERSION) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(PATIENCE_S)
        yield started


def instance_id(number: int) -> str:
    return urlsafe_b64encode(UUID(int=number << 64 | 1).bytes).decode().rstrip("=")


def produce(bootstrap: str, number: int) -> None:
    """Some pushes of some clients."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.metrics.push": False})
    for client in range(number):
        received_at = int(datetime.now(UTC).timestamp() * 1_000_000)
        metrics = dialect.java_producer({f"node-{client % 3}": float(client)})
        fields: dict[str, Any] = {"push_id": ids.next_id(received_at), "received_at": received_at}
        record = PushRecord(**push() | fields | {"client_instance_id": instance_id(client)})
        key, value, headers = encode_record(record._replace(metrics=metrics, payload_bytes=len(metrics)))
        producer.produce(TOPIC, key=key, value=value, headers=headers)
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def running(source: str, tables: Path, log: Path, *more: str) -> Iterator["subprocess.Popen[bytes]"]:
    options = ("--continuous", "--trigger", "1s", "--max-records", "20", "--source", source, "--tables", str(tables))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "fleetgauge", "fleet", "run", *options, *more],
            env={**os.environ, **QUICK_JVM},
            stdout=output,
            stderr=output,
        )
    follow(log)
    try:
        yield process
    finally:
        unfollow(log)
        process.kill()
        process.wait(PATIENCE_S)


def run(source: str, tables: Path) -> str:
    """A run that ends; what it says as JSON."""
    process = start_run(source, tables, "--window", "60s", "--format", "json", *ON_SPARK)  # as --continuous has them
    out, err = process.communicate(timeout=RUN_S)
    assert process.returncode == 0, err
    return out


def test_a_streaming_query_that_is_killed_counts_every_push_once(broker: KafkaBroker, tmp_path: Path) -> None:
    source, tables, log = f"kafka://{broker.bootstrap}/{TOPIC}", tmp_path / "streamed", tmp_path / "run.log"
    produce(broker.bootstrap, 30)
    with running(source, tables, log, *ON_SPARK):
        wait_for(lambda: len(rows(tables, "pushes")), "the first pushes", until=lambda count: count >= 20)
    produce(broker.bootstrap, 30)
    with running(source, tables, log, *ON_SPARK) as process:
        wait_for(lambda: len(rows(tables, "pushes")), "all pushes", until=lambda count: count == 60)
        produce(broker.bootstrap, 10)
        wait_for(lambda: len(rows(tables, "pushes")), "the latest pushes", until=lambda count: count == 70)
        process.send_signal(signal.SIGTERM)
        assert process.wait(RUN_S) == 0, log.read_text()
    again = json.loads(run(source, tables))
    assert (again["pushes"], again["repeats"], again["lost"]) == (0, 0, 0), "the ledger has what the query read"
    run(source, tmp_path / "at once")
    assert contents(tables, without=JUDGED) == contents(tmp_path / "at once", without=JUDGED)


def test_a_topic_that_was_made_anew_is_read_from_its_begin_once_the_ledger_was_removed(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    """Its offsets begin anew, and the query that reads it is another one, with a checkpoint of its own."""
    source, tables, log = f"kafka://{broker.bootstrap}/{TOPIC}", tmp_path / "streamed", tmp_path / "run.log"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def read_until(pushes: int) -> None:
        with running(source, tables, log, *ON_SPARK) as process:
            wait_for(lambda: len(rows(tables, "pushes")), "all pushes", until=lambda count: count == pushes)
            process.send_signal(signal.SIGTERM)
            assert process.wait(RUN_S) == 0, log.read_text()

    def topics() -> Collection[str]:
        return admin.list_topics(timeout=PATIENCE_S).topics

    produce(broker.bootstrap, 30)
    read_until(30)
    admin.delete_topics([TOPIC])[TOPIC].result(PATIENCE_S)
    wait_for(topics, "the removal of the topic", until=lambda found: TOPIC not in found)
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(PATIENCE_S)
    shutil.rmtree(tables / "state" / "ledger")
    produce(broker.bootstrap, 20)
    read_until(50)
    assert len({row["push_id"] for row in rows(tables, "pushes")}) == 50
    assert len(list((tables / "state" / "_checkpoints").iterdir())) == 2


def test_rounds_on_a_spark_connect_server_read_what_is_new(broker: KafkaBroker, tmp_path: Path) -> None:
    source, tables, log = f"kafka://{broker.bootstrap}/{TOPIC}", tmp_path / "streamed", tmp_path / "run.log"
    produce(broker.bootstrap, 30)
    with (
        connect_server(tmp_path, "--jars", ",".join(connector_jars())) as server,
        running(source, tables, log, "--remote", server) as process,
    ):
        wait_for(lambda: len(rows(tables, "pushes")), "the first pushes", until=lambda count: count == 30)
        produce(broker.bootstrap, 10)
        wait_for(lambda: len(rows(tables, "pushes")), "the latest pushes", until=lambda count: count == 40)
        process.send_signal(signal.SIGTERM)
        assert process.wait(RUN_S) == 0, log.read_text()
    run(source, tmp_path / "at once")
    assert contents(tables, without=JUDGED) == contents(tmp_path / "at once", without=JUDGED)
