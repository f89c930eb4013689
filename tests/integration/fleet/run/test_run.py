"""`fleet run` on a landing zone that grows, without Spark, and what an operator sees of the tables."""

import json
import runpy
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, MetricsData
from spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from support.fleet.standing_tables import OF_SIDE_ROWS, assert_equal, contents, for_every_table, rows
from typer.testing import CliRunner, Result
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet import schemas
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.lock import only_run
from fleetgauge.fleet.tables.store import Store

SECOND_US = 1_000_000
EXAMPLES = Path(__file__).parents[4] / "examples"
FIRST = push(
    dialect.java_consumer(["a.b"]),
    client_id="billing-1",
    client_instance_id=OTHER_INSTANCE,
    client_software_version="2.8.0",  # two majors behind the others: a verdict
)


@pytest.fixture(autouse=True, scope="module")
def no_spark() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleetgauge.fleet.pipeline.run._started", lambda _: pytest.fail("Spark was started"))
        yield


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")


def fleet(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def summary(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@dataclass(frozen=True, slots=True)
class Scenario:
    """A zone that was run twice, grew, and was run again; and what each run said."""

    zone: LandingZone
    tables: Path
    damaged: Path
    first: Result
    again: Result
    grown: Result


def run(zone: LandingZone, tables: Path, *more: str) -> Result:
    return fleet("run", "--source", str(zone.root), "--tables", str(tables), *more)


@pytest.fixture(scope="module")
def scenario(no_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    root = tmp_path_factory.mktemp("scenario")
    zone, tables = LandingZone(root / "landing"), root / "tables"
    zone.write([FIRST, FIRST, push(dialect.MALFORMED), push(for_every_table(5.0), client_id="t")])
    damaged = zone.write([push()], name="part-1 damaged")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    zone.write([push(dialect.librdkafka_producer([(3, 2.5)]), client_id="rd"), FIRST], name="part-2")
    first = run(zone, tables, "--max-files", "2", "--format", "json")
    again = run(zone, tables)
    late = {"received_at": NOON_US + 60 * SECOND_US}
    zone.write(
        [push(dialect.java_producer({"node-1": 3.5}), client_id="p", **late), push(dialect.MALFORMED, **late)],
        name="part-3",
    )
    zone.write([push(client_id="p", terminating=True, received_at=NOON_US + 61 * SECOND_US)], name="part-4", hour="13")
    grown = run(zone, tables, "--format", "json", "--fail-on-rejects")
    return Scenario(zone, tables, damaged, first, again, grown)


def test_a_run_says_what_it_read_and_what_it_set_aside(scenario: Scenario) -> None:
    said = summary(scenario.first)
    assert {name: said[name] for name in ("batches", "files", "pushes", "repeats", "lost", "days")} == {
        "batches": 2,
        "files": 3,
        "pushes": 3,
        "repeats": 2,
        "lost": 0,
        "days": 1,
    }
    assert said["points"] == len(
        [row for row in rows(scenario.tables, "points") if row["received_at"].timestamp() * SECOND_US == NOON_US]
    )
    assert sorted(said["rejects"].values()) == [1, 1]
    assert "the file cannot be read: it is damaged, or gone" in said["rejects"]
    assert said["sizes"]["pushes"]["rows_written"] == 3
    assert said["sizes"]["points"]["bytes"] > 0


def test_a_run_with_nothing_new_says_so_and_is_no_failure(scenario: Scenario) -> None:
    assert scenario.again.exit_code == 0, scenario.again.output
    assert scenario.again.stdout == f"nothing new in {scenario.zone.root}\n"


def test_a_run_reads_what_is_new_and_fails_on_rejects_when_told_to(scenario: Scenario) -> None:
    assert scenario.grown.exit_code == 3, scenario.grown.output
    said = json.loads(scenario.grown.stdout)
    assert (said["files"], said["pushes"], said["repeats"], sum(said["rejects"].values())) == (2, 2, 0, 1)


def test_a_damaged_file_is_named_among_the_rejects_and_the_rest_is_read(scenario: Scenario) -> None:
    found = rows(scenario.tables, "rejects")
    (of_file,) = [row for row in found if row["source_row"] is None]
    assert of_file["source_file"] == str(scenario.damaged)
    assert of_file["date"].isoformat() == "2026-03-01", "the day of its directory, whenever it was changed"
    assert [row["payload"] for row in found if row["source_row"] is not None] == [dialect.MALFORMED] * 2


def test_every_push_is_there_once_with_its_points(scenario: Scenario) -> None:
    pushes = rows(scenario.tables, "pushes")
    assert sorted(row["client_id"] for row in pushes) == ["billing-1", "p", "p", "rd", "t"]
    points = rows(scenario.tables, "points")
    assert (
        len({(row["push_id"], row["point_index"]) for row in points})
        == len(points)
        == sum(row["points"] for row in pushes)
    )
    assert {row["date"].isoformat() for row in points} == {"2026-03-01"}


def test_points_are_written_once(scenario: Scenario) -> None:
    """A frame that Spark computes anew would write its files anew, and waste what they took."""
    table = scenario.tables / "silver" / "points"
    counted = [Path(uri).name for uri in DeltaTable(str(table)).file_uris()]
    assert sorted(path.name for path in table.rglob("part-*.parquet")) == sorted(counted)


def test_the_gold_tables_answer_for_all_runs(scenario: Scenario) -> None:
    states = {row["client_id"]: row["state"] for row in rows(scenario.tables, "inventory")}
    assert states == {"billing-1": "silent", "p": "ended"}
    latencies = {(row["client_id"], row["node_id"], row["latency_avg_ms"]) for row in rows(scenario.tables, "latency")}
    assert {("p", 3, 2.5), ("p", 1, 3.5)} <= latencies, "an instance is named as by its latest push in the window"


def test_tables_of_many_runs_equal_those_of_one(scenario: Scenario, tmp_path: Path) -> None:
    at_once = run(scenario.zone, tmp_path / "tables", "--format", "json")
    assert summary(at_once)["batches"] == 1
    assert_equal(contents(scenario.tables), contents(tmp_path / "tables"))


def test_a_file_that_changed_after_it_was_read_is_named(scenario: Scenario) -> None:
    path = scenario.zone.root / "date=2026-03-01" / "hour=13" / "part-4.parquet"
    before = path.read_bytes()
    path.write_bytes(before + b"more")
    try:
        again = run(scenario.zone, scenario.tables)
    finally:
        path.write_bytes(before)
    assert again.exit_code == 0, again.output
    assert again.stdout.splitlines()[1].startswith(f"1 files changed after they were read, for example {path}")


def test_a_lost_ledger_has_everything_read_again_and_counted_once(scenario: Scenario, tmp_path: Path) -> None:
    tables = tmp_path / "copy"
    shutil.copytree(scenario.tables, tables)
    shutil.rmtree(tables / "state" / "ledger")
    said = summary(run(scenario.zone, tables, "--format", "json"))
    assert (said["files"], said["pushes"], said["repeats"]) == (5, 0, 7)
    assert_equal(contents(tables), contents(scenario.tables))


def test_lost_tables_are_not_passed_over_in_silence(scenario: Scenario, tmp_path: Path) -> None:
    tables = tmp_path / "copy"
    shutil.copytree(scenario.tables / "state", tables / "state")
    result = run(scenario.zone, tables)
    sentence = said_in_a_sentence(result)
    assert "lists pushes that are not in the tables in" in sentence
    assert "remove the ledger too; the next run reads everything again" in sentence


def test_a_second_run_on_the_same_tables_is_refused_in_a_sentence(scenario: Scenario) -> None:
    with only_run(str(scenario.tables)):
        result = run(scenario.zone, scenario.tables)
    assert said_in_a_sentence(result) == (
        f"Error: another run is using the tables in file:{scenario.tables}: wait until it ends"
    )


def test_a_newer_schema_stops_the_run_before_anything_is_written(zone: LandingZone, tmp_path: Path) -> None:
    zone.write([push(), push(schema_version=2)])
    result = run(zone, tmp_path / "tables")
    assert "has pushes of schema_version 2, and this release reads up to 1: upgrade" in said_in_a_sentence(result)
    assert rows(tmp_path / "tables", "rejects") == rows(tmp_path / "tables", "pushes") == []


def test_an_empty_zone_has_nothing_new(zone: LandingZone, tmp_path: Path) -> None:
    zone.root.mkdir()
    result = run(zone, tmp_path / "tables")
    assert (result.exit_code, result.stdout) == (0, f"nothing new in {zone.root}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "--source", "nosuch/landing"], "there is no landing zone at nosuch/landing"),
        (["maintain"], "there is no table pushes in /"),
    ],
)
def test_what_is_not_there_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in said_in_a_sentence(fleet(*arguments, "--tables", str(tmp_path / "tables")))


def said_in_a_sentence(result: Result, code: int = 1) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (sentence,) = result.stderr.strip().splitlines()
    return sentence


def test_a_table_of_somebody_else_is_left_alone(zone: LandingZone, tmp_path: Path) -> None:
    zone.write([push()])
    path = tmp_path / "tables" / "silver" / "pushes"
    write_deltalake(path, pa.table({"id": [1]}))
    result = run(zone, tmp_path / "tables")
    assert "has columns that this release does not know (id)" in said_in_a_sentence(result)


def test_tables_of_an_earlier_release_are_refused_and_left_alone(zone: LandingZone, tmp_path: Path) -> None:
    """Rows of clusters that their keys do not name cannot be told apart any more."""
    zone.write([FIRST])
    tables = tmp_path / "tables"
    earlier = [field for field in schemas.POINTS if field.name != "cluster_id"]
    points = pa.schema([*earlier, pa.field("dropped_since", pa.bool_())]).empty_table()
    write_deltalake(tables / "silver" / "points", points, partition_by=["date"])
    for result in (
        run(zone, tables),
        fleet("show", "points", "--tables", str(tables)),
    ):
        sentence = said_in_a_sentence(result)
        assert "silver/points was written by an earlier release, whose rows have no cluster id" in sentence
        assert "remove the directory given with --tables" in sentence
    assert [path.name for path in tables.glob("*/*") if path.is_dir()] == ["points"]
    assert DeltaTable(str(tables / "silver" / "points")).version() == 0


def test_two_clusters_with_the_same_ids_nodes_and_groups_stay_apart_in_every_table(
    zone: LandingZone, tmp_path: Path
) -> None:
    """Both send the same, so that every table says the same of both unless it takes them together."""
    tables = tmp_path / "tables"
    for minute in range(2):
        at_us = NOON_US + 60 * minute * SECOND_US
        payloads = [
            dialect.java_consumer(["a.b"]),
            for_every_table(5.0 + minute),
            dialect.java_producer({"node-1": 3.5 + minute}),
            totals(10.0 + minute),
            dialect.MALFORMED,
        ]
        pushes = [
            push(payload, received_at=at_us + place, cluster_id=cluster_id)
            for place, payload in enumerate(payloads)
            for cluster_id in ("a", None)
        ]
        outdated = {"client_software_name": "librdkafka", "client_software_version": "2.9.0"}  # a verdict
        payload = dialect.librdkafka_producer([(1, 2.5)])
        pushes += [
            push(payload, received_at=at_us, cluster_id=each, client_instance_id=OTHER_INSTANCE, **outdated)
            for each in ("a", None)
        ]
        zone.write(pushes, name=f"part-{minute}")
        assert run(zone, tables).exit_code == 0
    for name, table in catalog.TABLES.items():
        if "cluster_id" not in table.schema.names:
            assert name in ("metrics", "ledger", "folders", "batches", "runs", "judged", "delivered")
            continue
        found = rows(tables, name)
        one, other = ([_without_ids(row) for row in found if row["cluster_id"] == each] for each in ("a", ""))
        assert one or name in OF_SIDE_ROWS
        assert sorted(one) == sorted(other), name
        assert len(one) + len(other) == len(found)
    deltas = [row["delta"] for row in rows(tables, "points") if row["metric_name"] == "connections.total"]
    assert sorted(deltas) == [1.0, 1.0, 10.0, 10.0]


def _without_ids(row: dict[str, Any]) -> str:
    ids = ("push_id", "last_push_id", "sender_push_id", "seen_push_id", "lag_push_id")
    others = ("cluster_id", "source_row", *ids)
    return json.dumps({name: value for name, value in row.items() if name not in others}, default=repr)


def totals(value: float) -> bytes:
    """A payload with one cumulative sum."""
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="connections.total")
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    metric.sum.data_points.add(as_double=value)
    return data.SerializeToString()


def test_rows_of_a_table_are_shown_by_client_and_day(scenario: Scenario) -> None:
    shown = fleet("show", "latency", "--tables", str(scenario.tables), "--client-id", "p")
    heading, _, *lines = shown.stdout.splitlines()
    assert heading.split()[:3] == ["date", "window_start", "window_s"]
    assert lines
    assert all(" p " in line for line in lines)
    none = fleet(*("show", "pushes", "--tables", str(scenario.tables), "--until", "2026-03-01", "--format", "json"))
    assert (none.exit_code, none.stdout) == (0, "")


def test_gold_is_read_without_spark_as_the_example_shows(scenario: Scenario) -> None:
    example = runpy.run_path(str(EXAMPLES / "read_gold_without_spark.py"))
    assert example["clients_by_state"](str(scenario.tables)) == {"silent": 1, "ended": 1}
    slowest = [(row["client_id"], row["latency_avg_ms"]) for row in example["slowest_links"](str(scenario.tables))]
    assert slowest == [("p", 3.5), ("p", 2.5)]


def test_a_day_is_decoded_again_from_the_landing_zone_also_if_that_was_cut_off(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tmp_path / "copy"
    shutil.copytree(scenario.tables, tables)

    def cut_off(*_: Any) -> None:
        raise FleetError("cut off")

    with monkeypatch.context() as patched:
        patched.setattr("fleetgauge.fleet.pipeline.ledger.Ledger.forget", cut_off)
        assert said_in_a_sentence(run(scenario.zone, tables, "--redecode", "2026-03-01")) == "Error: cut off"
    assert rows(tables, "points") == rows(tables, "pushes") == rows(tables, "rejects") == []
    said = summary(run(scenario.zone, tables, "--format", "json"))
    assert (said["files"], said["pushes"], said["repeats"], said["days"]) == (5, 5, 2, 1)
    assert_equal(contents(tables), contents(scenario.tables))
    assert run(scenario.zone, tables).stdout == f"nothing new in {scenario.zone.root}\n"


def test_what_cannot_be_decoded_again_is_named_and_nothing_is_changed(scenario: Scenario, tmp_path: Path) -> None:
    for day, sentence, code in (
        ("2026-03-02", "no file of 2026-03-02 was read from", 1),
        ("yesterday", "'yesterday' is not a day: use a date such as 2026-03-01", 2),
    ):
        assert sentence in said_in_a_sentence(run(scenario.zone, scenario.tables, "--redecode", day), code)
    tables = tmp_path / "copy"
    shutil.copytree(scenario.tables, tables)
    Store(f"file:{tables}").append_rows(
        catalog.BATCHES, [{"source": "kafka://a:1/t", "app_id": "t", "batch_id": 0, "dates": [date(2026, 3, 1)]}]
    )
    sentence = said_in_a_sentence(run(scenario.zone, tables, "--redecode", "2026-03-01"))
    assert "the tables have pushes of 2026-03-01 from other sources too (kafka://a:1/t)" in sentence
    assert len(rows(tables, "pushes")) == 5


def test_days_are_computed_anew_as_they_were(scenario: Scenario, tmp_path: Path) -> None:
    tables = tmp_path / "copy"
    shutil.copytree(scenario.tables, tables)
    none = summary(run(scenario.zone, tables, "--rebuild", "--days", "..2026-02-28", "--format", "json"))
    assert (none["days"], none["batches"]) == (0, 0)
    DeltaTable(str(tables / "gold" / "latency")).delete()
    said = summary(run(scenario.zone, tables, "--rebuild", "--days", "2026-03-01..", "--format", "json"))
    assert (said["days"], said["batches"]) == (1, 0)
    assert_equal(contents(tables), contents(scenario.tables))
    assert "--days says which days --rebuild computes" in said_in_a_sentence(
        run(scenario.zone, tables, "--days", "2026-03-01"), code=2
    )
