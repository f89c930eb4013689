"""A restart of `fleetgauge export`: the console goes on from the fleet tables that `console.tables` names."""

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.plugin_records import Brokers
from support.fleet.landing import landed
from support.http import get_url
from support.programs.export import Export
from support.waiting import wait_for
from typer.testing import CliRunner
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.cli.fleet.app import app
from fleetgauge.push_log.kafka_topic.clients import make_admin
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic

pytestmark = pytest.mark.integration

HOURS_AGO_S = 3 * 3_600
"""Before the hour that a console reads back."""
RULES = """
[rules.slow]
metric = "org.apache.kafka.producer.node.request.latency.max"
above = 5000
severity = "critical"
text = "{client_id} waits {value} ms for broker {node_id}"
"""


@pytest.fixture
def topic(broker: KafkaBroker) -> KafkaTopicSettings:
    name = f"pushes-of-a-restart-{uuid.uuid4().hex[:12]}"
    settings = KafkaTopicSettings(bootstrap_servers=broker.bootstrap, topic=name, partitions=3, group_prefix=name)
    ensure_topic(make_admin(settings), settings)
    return settings


def config_of(tmp_path: Path, topic: KafkaTopicSettings) -> Path:
    path = tmp_path / "export.toml"
    path.write_text(
        f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{topic.bootstrap_servers}"\n'
        f'push.log.kafka.topic.name = "{topic.topic}"\npush.log.kafka.group.prefix = "{topic.group_prefix}"\n'
        "push.log.kafka.client.session.timeout.ms = 6000\n"
        f'[exporters.landing]\ntype = "landing"\npath = "{tmp_path / "landing"}"\n"linger.ms" = 200\n'
    )
    return path


def fleet(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def wait_for_client(export: Export, pushes: int) -> dict[str, Any]:
    """The row of the only client, once it has so many pushes."""

    def read() -> list[dict[str, Any]]:
        url = export.status()["http"]["listeners"][0]
        found: list[dict[str, Any]] = get_url(url, "/api/clients").json().get("clients", [])
        return found

    (row,) = wait_for(
        read,
        f"a client with {pushes} pushes",
        until=lambda rows: [row["pushes"] for row in rows] == [pushes],
        ignoring=(ValueError, IndexError, OSError),
    )
    return dict(row)


def wait_for_opened_at(export: Export) -> int:
    """When the verdict of the rule opened, as the console shows it [us]."""

    def read() -> list[dict[str, Any]]:
        url = export.status()["http"]["listeners"][0]
        rows: list[dict[str, Any]] = get_url(url, "/api/verdicts", state="open").json().get("verdicts", [])
        return [row for row in rows if row["verdict"] == "slow"]

    (row,) = wait_for(read, "an open verdict", ignoring=(ValueError, OSError))
    return int(row["opened_at"])


def test_first_push_count_and_open_verdicts_of_the_tables_outlast_a_killed_export(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    config, tables, rules = config_of(tmp_path, topic), tmp_path / "tables", tmp_path / "rules.toml"
    rules.write_text(RULES)
    keys = ("http.listeners=http://127.0.0.1:0", f"console.tables={tables}")
    brokers = Brokers(topic)
    slow = dialect.java_producer({"node-1": 3_000})

    def push(ago_s: float = 0.0, instance: str = "") -> str:
        return brokers.push("orders", instance=instance, ago_s=ago_s, metrics=slow, push_interval_ms=60_000)

    instance = push(HOURS_AGO_S)
    for minute in range(1, 5):
        push(HOURS_AGO_S - 60 * minute, instance)
    push(30.0, instance)
    with Export(tmp_path, config, *keys) as export:
        wait_for(lambda: landed(tmp_path / "landing"), "all pushes", until=lambda rows: len(rows) == 6)
        row = wait_for_client(export, pushes=1)  # of the hour that was read back
        export.kill()
    zone = tmp_path / "landing"
    fleet("run", "--source", str(zone), "--tables", str(tables), "--window", "60s", "--rules", str(rules))
    (verdict,) = [row for row in fleet("verdicts", "--tables", str(tables)) if row["verdict"] == "slow"]
    opened_us = round(datetime.fromisoformat(verdict["opened_at"]).timestamp() * 1e6)
    first_us = min(round(row["received_at"].timestamp() * 1e6) for row in landed(zone))
    assert opened_us < first_us + 60_000_000
    for number in (1, 2):
        with Export(tmp_path, config, *keys) as export:
            row = wait_for_client(export, pushes=5 + number)
            assert row["first_push_at"] == first_us
            assert row["push_bytes"] is None
            assert wait_for_opened_at(export) == opened_us
            push(instance=instance)
            assert wait_for_client(export, pushes=6 + number)["first_push_at"] == first_us
            export.kill()
