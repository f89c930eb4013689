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
from support.killed_runs import QUICK_SPARK
from typer.testing import CliRunner, Result

from fleet.cli import app
from fleet.tables.lock import only_run
from tests.spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),  # five starts of a query before the first test, on a machine that may be busy
]

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
            *("--since", SINCE, "--late", "11s", "--format", "json", *QUICK_SPARK, *more),
        ],
    )


@dataclass(slots=True)
class Scenario:
    """Four starts of one watch; the webhook refuses what the second one sends."""

    root: Path
    zone: LandingZone
    receiver: AlertReceiver
    starts: list[Result] = field(default_factory=list)

    def start(self, exit_code: int = 0) -> None:
        receivers = ("--alerts", str(self.root / "alerts"), "--webhook", self.receiver.url)
        result = once(self.zone, self.root / "checkpoint", "--max-files", "1", *receivers)
        assert result.exit_code == exit_code, result.output
        self.starts.append(result)

    def said(self, number: int) -> list[tuple[str, str, str | None]]:
        alerts = [json.loads(line) for line in self.starts[number].stdout.splitlines()]
        return [(alert["rule"], alert["state"], alert["clear_reason"]) for alert in alerts]

    @property
    def table(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(str(self.root / "alerts")).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row["opened_at"])


@pytest.fixture(scope="module")
def scenario(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    root = tmp_path_factory.mktemp("watch")
    repeated = slow(180, 7_000)
    silent = other(
        190,
        client_instance_id=SILENT_INSTANCE,
        client_id="rd",
        client_software_name="librdkafka",
        client_software_version="2.16.0",
    )
    with listening(404, 503, 204) as receiver:
        found = Scenario(root, LandingZone(root / "landing"), receiver)
        too_old = slow(-60, 9_000)
        fine_elsewhere = slow(150, 100, cluster_id="d")  # the same ids: were they one client, nothing would be slow
        found.zone.write(
            [too_old, slow(0, 6_000), slow(120, 6_000), slow(60, 6_000), fine_elsewhere, repeated, other(1), silent]
        )
        found.start()
        found.zone.write([repeated, slow(181, 8_000), other(200), push(dialect.MALFORMED)], name="part-1")
        found.start(exit_code=1)
        found.start()
        found.zone.write([slow(240, 100), other(400, client_source_port=5), other(10)], name="part-2")
        found.zone.write([other(460, terminating=True), slow(480, 100)], name="part-3")
        found.start()
        yield found


def test_an_alert_opens_once_and_clears_once_over_restarts(scenario: Scenario) -> None:
    assert scenario.said(0) == []
    assert scenario.said(2) == [("slow-requests", "open", None)]
    assert scenario.said(3) == [("slow-requests", "cleared", "recovered"), ("silent-client", "open", None)]


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


def test_alerts_beside_the_standing_tables_are_shown_like_them(scenario: Scenario) -> None:
    shown = CliRunner().invoke(
        app,
        [
            *("show", "alerts", "--tables", str(scenario.root), "--client-id", "rd", "--format", "json"),
            *("--since", SINCE),
        ],
    )
    assert shown.exit_code == 0, shown.output
    (alert,) = map(json.loads, shown.stdout.splitlines())
    assert (alert["rule"], alert["state"], alert["client_id"]) == ("silent-client", "open", "rd")


@pytest.mark.soak
def test_a_webhook_that_refuses_stops_the_watch_and_gets_the_same_alert_after_the_next_start(
    scenario: Scenario,
) -> None:
    (sentence,) = [line for line in scenario.starts[1].stderr.splitlines() if line.startswith("Error")]
    assert "refuses alerts: it answers 404 Not Found; they are sent again after the next start" in sentence
    refused, failed, taken, *more = scenario.receiver.alerts
    assert refused == failed == taken == json.loads(scenario.starts[2].stdout)
    assert [(alert["rule"], alert["state"]) for alert in more] == [
        ("slow-requests", "cleared"),
        ("silent-client", "open"),
    ]
    assert (taken["alert_id"], taken["began_at"]) == (more[0]["alert_id"], "2026-03-01T12:00:00.000000Z")


def test_what_does_not_count_is_counted(scenario: Scenario) -> None:
    first, _, second, third = (start.stderr for start in scenario.starts)
    assert "batch 0: 7 pushes; 0 alerts opened, 0 cleared; 4 clients remembered" in first
    assert "3 pushes; 1 alerts opened, 0 cleared; 1 set aside; 1 passed over; 4 clients remembered" in second
    assert "1 too late" in third


def test_a_client_that_ended_is_no_longer_remembered(scenario: Scenario) -> None:
    assert "; 3 clients remembered" in scenario.starts[-1].stderr.splitlines()[-1]


def test_a_damaged_file_is_named_and_the_watch_goes_on_once_it_is_taken_away(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    zone.write([slow(0, 6_000), slow(120, 6_000)])
    damaged = zone.write([slow(150, 6_000)], name="part-1")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    refused = once(zone, tmp_path / "checkpoint")
    assert (refused.exit_code, refused.stdout) == (1, "")
    (sentence,) = [line for line in refused.stderr.splitlines() if line.startswith("Error")]
    assert f"{damaged} cannot be read: take it out of the landing zone" in sentence
    damaged.unlink()
    zone.write([slow(181, 6_000)], name="part-2")
    again = once(zone, tmp_path / "checkpoint")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["state"] == "open"


def test_a_checkpoint_of_an_earlier_release_is_refused_in_a_sentence(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    zone.write([slow(0, 6_000)])
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "watched_since").write_text("2026-03-01T12:00:00+00:00")
    refused = once(zone, checkpoint)
    assert (refused.exit_code, refused.stdout) == (1, "")
    (sentence,) = [line for line in refused.stderr.splitlines() if line.startswith("Error")]
    assert "is of an earlier release, which did not keep clusters apart: remove it" in sentence


def test_a_second_watch_on_the_same_checkpoint_is_refused_in_a_sentence(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    with only_run(str(tmp_path / "checkpoint")):
        result = once(zone, tmp_path / "checkpoint")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"Error: another watch keeps its checkpoint in file:{tmp_path}/checkpoint: let it end first"
    ]
