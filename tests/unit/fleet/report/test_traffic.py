"""`fleet traffic`: the rows of a landing zone summed by client, and what they show."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.exporters.traffic.schema import record_batch
from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.report.traffic import summed
from fleetgauge.verdicts.rules import default_rules

MINUTE_US = 60_000_000
START_US = 1_790_000_040_000_000
HOSTILE = ["</script>", "\x1b[2J", "a\nb", "\x1f", "\u202ertl", "x" * 10_000, ""]


def row(minute: int = 0, **values: Any) -> dict[str, Any]:
    return {
        "window_start": START_US + minute * MINUTE_US, "window_ms": 60_000, "cluster_id": "c", "node_id": 1,
        "principal": "alice", "client_id": "orders", "group_id": None, "api_key": 0, "api": "Produce",
        "api_version": 9, "requests": 60, "request_bytes": 60_000, "response_bytes": 6_000, "gateway_time_ms": 1.0,
        "broker_time_ms": 120.0, "broker_time_max_ms": 9.0, "throttled_requests": 0, "throttle_time_ms": 0,
        "group_joins": 0, "batches": 60, "records": 600, "record_bytes": 54_000, "compressions": [("zstd", 60)],
        "errors": [], **values,
    }  # fmt: skip


def answer(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    table = pa.Table.from_batches([record_batch(rows)])
    return sorted(summed(table, default_rules()).to_pylist(), key=lambda each: (each["client_id"], each["api"]))


def zone(path: Path, *rows: dict[str, Any], name: str = "traffic-1.parquet") -> Path:
    folder = path / "traffic" / "date=2026-09-21" / "hour=14"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches([record_batch(rows)]), folder / name)
    return path


def test_rates_are_of_the_time_with_requests() -> None:
    (found,) = answer(row(), row(5))
    assert (found["requests"], found["active_s"], found["requests_per_s"]) == (120, 120.0, 1.0)
    assert (found["request_bytes_per_s"], found["records_per_request"], found["broker_avg_ms"]) == (1_000.0, 10.0, 2.0)
    assert (found["broker_max_ms"], found["compressions"], found["seen"]) == (9.0, [("zstd", 120)], [])
    assert (found["last_at"] - found["first_at"]).total_seconds() == 360


def test_intervals_of_several_gateways_count_once_where_they_overlap() -> None:
    (found,) = answer(row(), row(node_id=2, window_start=START_US + MINUTE_US // 2), row(node_id=3))
    assert (found["active_s"], found["requests_per_s"]) == (90.0, 2.0)


def test_clients_apis_groups_and_clusters_are_rows_of_their_own() -> None:
    others: list[dict[str, Any]] = [
        {"client_id": "b"},
        {"principal": "bob"},
        {"api": "Fetch"},
        {"group_id": "g"},
        {"cluster_id": "d"},
    ]
    found = answer(row(), *(row(**each) for each in others))
    assert len(found) == 6
    assert {each["requests"] for each in found} == {60}


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ({"requests": 3_000, "batches": 3_000, "records": 3_000, "request_bytes": 6_000_000}, ["small requests"]),
        ({"requests": 3_000, "batches": 3_000, "records": 30_000, "request_bytes": 3_000_000}, ["small requests"]),
        ({"requests": 3_000, "batches": 3_000, "records": 30_000, "request_bytes": 6_000_000}, []),
        ({"requests": 2_999, "batches": 2_999, "records": 2_999}, []),
        ({"record_bytes": 60_000_001, "compressions": [("none", 60)]}, ["no compression"]),
        ({"record_bytes": 60_000_000, "compressions": [("none", 60)]}, []),
        ({"record_bytes": 90_000_000, "compressions": [("lz4", 1), ("none", 59)]}, []),
        ({"api": "Fetch", "requests": 3_000, "response_bytes": 3_000_000, "batches": 0}, ["small responses"]),
        ({"api": "Fetch", "requests": 3_000, "response_bytes": 3_100_000, "batches": 0}, []),
        ({"throttled_requests": 3, "throttle_time_ms": 6_001}, ["throttled"]),
        ({"throttled_requests": 3, "throttle_time_ms": 6_000}, []),
        ({"errors": [(6, 4)]}, ["errors"]),
        ({"errors": [(6, 3)]}, []),
        ({"errors": [(27, 30), (79, 30), (89, 30)]}, []),
    ],
)
def test_what_is_conspicuous_is_named(values: dict[str, Any], seen: list[str]) -> None:
    (found,) = answer(row(**values))
    assert found["seen"] == seen


@pytest.mark.parametrize(("joins", "minutes", "seen"), [(3, 3, ["joins"]), (2, 3, []), (9, 2, []), (1, 60, ["joins"])])
def test_joins_have_to_last(joins: int, minutes: int, seen: list[str]) -> None:
    rows = [row(minute, api="JoinGroup", group_id="g", group_joins=joins, batches=0) for minute in range(minutes)]
    (found,) = answer(*rows)
    assert found["seen"] == seen


def test_errors_have_names() -> None:
    (found,) = answer(row(errors=[(6, 1), (9_999, 2)]), row(1, errors=[(6, 1)]))
    assert found["errors"] == [("9999", 2), ("NOT_LEADER_OR_FOLLOWER", 2)]


def test_no_rows_are_an_empty_answer() -> None:
    empty: Table = pa.Table.from_batches([record_batch([row()])]).slice(0, 0)
    assert summed(empty, default_rules()).num_rows == 0


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["traffic", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_selects_by_client_group_and_time(tmp_path: Path) -> None:
    zone(tmp_path, row(), row(client_id="billing", group_id="g", throttle_time_ms=30_000), row(90))
    zone(tmp_path, row(client_id="unfinished"), name="_traffic-2.parquet")

    def clients(*options: str) -> list[tuple[str, int]]:
        printed = run("--source", tmp_path, "--format", "json", *options).splitlines()
        return sorted((each["client_id"], each["requests"]) for each in map(json.loads, printed))

    assert clients() == [("billing", 60), ("orders", 120)]
    assert clients("--client-id", "orders") == [("orders", 120)]
    assert clients("--group", "g") == clients("--seen") == [("billing", 60)]
    assert clients("--since", "2026-09-21T15:00") == [("orders", 60)]
    assert clients("--until", "2026-09-21") == []


def test_client_ids_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    zone(tmp_path, *(row(client_id=each, group_id=each, principal=each) for each in HOSTILE))
    printed = run("--source", tmp_path)
    assert "orders" not in printed
    assert not set("\x1b\x1f\u202e") & set(printed)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "no rows of traffic"),
        (lambda path: zone(path, row()).joinpath("traffic/a.parquet").write_bytes(b"x"), "cannot be read"),
        (lambda path: pq.write_table(pa.table({"a": [1]}), zone(path, row()) / "traffic/a.parquet"), "no column"),
        (lambda path: (path / "meta.properties").touch(), "data directory"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, make: Any, problem: str) -> None:
    make(tmp_path)
    printed = run("--source", tmp_path, code=1)
    assert problem in " ".join(printed.split())
    assert "Traceback" not in printed


def test_a_zone_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    assert "Error" in run("--source", tmp_path / "nowhere", code=1)
    assert "Error" in run("--source", "s3a://lake/landing", code=1)
