"""`fleet watch` on a landing zone that grows, started anew each time: what an operator and the receivers are told."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from support.alert_receiver import AlertReceiver, listening
from typer.testing import CliRunner, Result

from fleet.cli import app
from fleet.tables.lock import only_run
from tests.spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect

S = 1_000_000
SILENT_INSTANCE = "AAAAAAAAAAAAAAAAAAAAAg"
SINCE = "2026-03-01T12:00"


def slow(at_s: int, latency_max: float, **more: Any) -> dict[str, Any]:
    """A push of the client that is watched for its latency; `java_producer` doubles averages into maxima."""
    payload = dialect.java_producer({"node-1": latency_max / 2, "node-2": 1.0})
    return push(payload, received_at=NOON_US + at_s * S, push_interval_ms=60_000, **more)


def other(at_s: int, **more: Any) -> dict[str, Any]:
    return push(
        received_at=NOON_US + at_s * S, push_interval_ms=60_000, **{"client_instance_id": OTHER_INSTANCE} | more
    )


def once(zone: LandingZone, checkpoint: Path, *more: str) -> Result:
    return CliRunner().invoke(
        app,
        [
            *("watch", "--once", "--source", str(zone.root), "--checkpoint", str(checkpoint)),
            *("--since", SINCE, "--late", "10s", "--format", "json", *more),
        ],
    )


@dataclass(slots=True)
class Scenario:
    root: Path
    zone: LandingZone
    receiver: AlertReceiver
    steps: list[Result] = field(default_factory=list)

    def step(self) -> None:
        result = once(
            self.zone, self.root / "checkpoint", "--alerts", str(self.root / "alerts"), "--webhook", self.receiver.url
        )
        assert result.exit_code == 0, result.output
        self.steps.append(result)

    def said(self, number: int) -> list[tuple[str, str, str | None]]:
        alerts = [json.loads(line) for line in self.steps[number].stdout.splitlines()]
        return [(alert["rule"], alert["state"], alert["clear_reason"]) for alert in alerts]

    @property
    def table(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(str(self.root / "alerts")).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row["opened_at"])


@pytest.fixture(scope="module")
def scenario(delta_lake: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    root = tmp_path_factory.mktemp("watch")
    repeated = slow(180, 7_000)
    silent = other(
        190,
        client_instance_id=SILENT_INSTANCE,
        client_id="rd",
        client_software_name="librdkafka",
        client_software_version="2.16.0",
    )
    with listening(503, 204) as receiver:
        found = Scenario(root, LandingZone(root / "landing"), receiver)
        before = slow(-60, 9_000)
        found.zone.write([before, slow(0, 6_000), slow(120, 6_000), slow(60, 6_000), repeated, other(1), silent])
        found.step()
        found.zone.write([repeated, slow(181, 8_000), other(200), push(dialect.MALFORMED)], name="part-1")
        found.step()
        found.step()
        found.zone.write([slow(240, 100), other(400, client_source_port=5), other(10)], name="part-2")
        found.step()
        found.zone.write([other(460, terminating=True)], name="part-3")
        found.step()
        yield found


def test_an_alert_opens_once_and_clears_once_over_restarts(scenario: Scenario) -> None:
    assert scenario.said(0) == []
    assert scenario.said(1) == [("slow-requests", "open", None)]
    assert scenario.said(2) == []
    assert scenario.said(3)[0] == ("slow-requests", "cleared", "recovered")


def test_a_silent_client_is_told_when_the_others_have_moved_on(scenario: Scenario) -> None:
    assert scenario.said(3)[1:] + scenario.said(4) == [("silent-client", "open", None)]


def test_the_table_has_one_row_an_alert_with_the_client_and_its_end(scenario: Scenario) -> None:
    first, second = scenario.table
    assert (first["rule"], first["state"], first["clear_reason"]) == ("slow-requests", "cleared", "recovered")
    assert (first["value"], first["furthest"], first["threshold"], first["node_id"]) == (8_000, 8_000, 5_000, 1)
    assert [first[name].timestamp() - NOON_US / S for name in ("began_at", "opened_at", "cleared_at")] == [0, 181, 240]
    assert (first["client_id"], first["principal"], first["client_software_version"]) == (
        "app-1",
        "User:ANONYMOUS",
        "4.4.0",
    )
    assert first["connections"] == [
        {"client_source_address": "10.0.0.1", "client_source_port": 40001, "receiver_node_id": 1}
    ]
    assert (second["rule"], second["state"], second["client_id"]) == ("silent-client", "open", "rd")
    assert second["opened_at"].timestamp() - NOON_US / S == 370


def test_the_webhook_gets_every_alert_although_it_refused_the_first_time(scenario: Scenario) -> None:
    states = [(alert["rule"], alert["state"]) for alert in scenario.receiver.alerts]
    assert states == [
        ("slow-requests", "open"),
        ("slow-requests", "open"),
        ("slow-requests", "cleared"),
        ("silent-client", "open"),
    ]
    assert len({alert["alert_id"] for alert in scenario.receiver.alerts}) == 2
    assert scenario.receiver.alerts[0] == json.loads(scenario.steps[1].stdout)


def test_what_does_not_count_is_counted(scenario: Scenario) -> None:
    first, second, _, third, _ = (step.stderr for step in scenario.steps)
    assert "batch 0: 6 pushes; 0 alerts opened, 0 cleared; 3 clients remembered" in first
    assert "3 pushes; 1 alerts opened, 0 cleared; 1 set aside; 1 passed over; 3 clients remembered" in second
    assert "1 too late" in third


def test_a_client_that_ended_is_no_longer_remembered(scenario: Scenario) -> None:
    assert "; 2 clients remembered" in scenario.steps[-1].stderr.splitlines()[-1]


def test_a_webhook_that_refuses_stops_the_watch_and_gets_the_alert_after_the_next_start(
    delta_lake: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    zone.write([slow(0, 6_000), slow(120, 6_000), slow(181, 6_000)])
    with listening(404, 200) as receiver:
        refused = once(zone, tmp_path / "checkpoint", "--webhook", receiver.url, "--alerts", str(tmp_path / "alerts"))
        assert refused.exit_code == 1
        assert "refuses alerts: it answers 404" in refused.stderr.splitlines()[-1]
        again = once(zone, tmp_path / "checkpoint", "--webhook", receiver.url, "--alerts", str(tmp_path / "alerts"))
    assert again.exit_code == 0, again.output
    first, second = receiver.alerts
    assert first == second
    assert DeltaTable(str(tmp_path / "alerts")).to_pyarrow_table().num_rows == 1


def test_a_second_watch_on_the_same_checkpoint_is_refused_in_a_sentence(
    delta_lake: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    with only_run(str(tmp_path / "checkpoint")):
        result = once(zone, tmp_path / "checkpoint")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"Error: another watch keeps its checkpoint in file:{tmp_path}/checkpoint: let it end first"
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rules", "nosuch.toml"], "cannot read the rules in nosuch.toml: No such file or directory"),
        (["--late", "soon"], "--late is 'soon': give a duration above zero and up to 1d, such as 10s, 5m or 1h"),
        (["--trigger", "0s"], "--trigger is '0s': give a duration above zero"),
        (["--webhook", "ftp://a"], "the webhook is no URL: give one that begins with http:// or https://"),
        (["--topic", "alerts"], "alerts is no topic: give --topic kafka://host:port[,host:port]/topic"),
        (["--format", "csv"], "give --format table or --format json"),
    ],
)
def test_a_wrong_option_is_one_sentence_before_spark_starts(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["watch", *arguments])
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert sentence in line
