"""The standalone form: `fleetgauge serve` as README starts it, with a real librdkafka client."""

from pathlib import Path

from confluent_kafka import Producer
from support.fleet.landing import landed
from support.programs.node import Node


def test_every_acknowledged_push_is_in_the_landing_zone_once(tmp_path: Path) -> None:
    config = f"""
[client-metrics.everything]
metrics = "*"
interval.ms = 1000
[exporters.landing]
type = "landing"
path = "{tmp_path / "landing"}"
"""
    with Node(tmp_path, config=config) as node:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": "orders", "log_level": 3})
        node.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) >= 2, what="two pushes")
        producer.close()
        answers = node.status()["telemetry"]["push_answers"]
        assert node.stop() == 0, node.output()
    assert set(answers) == {"NONE"}
    records = landed(tmp_path / "landing")
    assert len({record["push_id"] for record in records}) == len(records) == answers["NONE"]
    assert {record["client_id"] for record in records} == {"orders"}
