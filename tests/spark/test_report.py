"""What an operator gets: tables, streams and files from the commands themselves."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from typer.testing import CliRunner, Result
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.cli.fleet.app import app


@pytest.fixture
def filled(spark: SparkSession, zone: LandingZone) -> LandingZone:
    first = push(dialect.java_consumer(["a.b"]), client_id="billing-1")
    zone.write([first, first, push(dialect.MALFORMED)])
    zone.write(
        [
            push(dialect.librdkafka_producer([(3, 2.5)]), client_id="[bold]rd", client_instance_id=OTHER_INSTANCE),
            push(received_at=NOON_US + 1_000_000, terminating=True, client_id="billing-1"),
        ],
        name="part-1",
    )
    return zone


ON_SPARK = ("--master", "local[2]")


def fleet(zone: LandingZone, *arguments: str) -> Result:
    """What the command says in this process; Spark has to say the same, in any order of the lines."""
    given = ["show", *arguments, "--source", str(zone.root)]
    here = CliRunner().invoke(app, given)
    if here.exit_code == 0 and not {"--output", "--master"} & set(arguments):
        there = CliRunner().invoke(app, [*given, *ON_SPARK])
        assert (there.exit_code, there.stderr) == (0, here.stderr)
        assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines())
    return here


def test_the_inventory_table_names_every_client_and_what_was_left_out(filled: LandingZone) -> None:
    result = fleet(filled, "inventory")
    assert result.exit_code == 0, result.output
    heading, _, latest, other = result.stdout.splitlines()
    assert heading.split("  ")[0] == "client instance id"
    assert "billing-1" in latest
    assert latest.split()[-1] == "yes"
    assert "[bold]rd" in other
    assert other.split()[-1] == "unknown", "a Java producer may end without a terminating push"
    assert result.stderr.splitlines() == [
        "1 repeated push was counted once",
        "1 push was rejected as malformed: fleet show rejects --source shows why",
    ]


def test_a_table_is_limited_and_says_how_many_more_there_are(filled: LandingZone) -> None:
    result = fleet(filled, "points", "--limit", "2")
    lines = result.stdout.splitlines()
    assert len(lines) == 5
    assert lines[-1].startswith("4 more of 6 rows")


def test_latency_as_json_lines_is_one_object_a_row_with_nulls(filled: LandingZone) -> None:
    result = fleet(filled, "latency", "--format", "json")
    assert result.exit_code == 0, result.output
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["client_id"], row["node_id"], row["latency_avg_ms"], row["samples"]) == ("[bold]rd", 3, 2.5, 1)


def test_points_as_csv_hold_maps_as_json(filled: LandingZone) -> None:
    result = fleet(filled, "points", "--format", "csv", "--metric", dialect.LAG)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["topic"] for row in sorted(rows, key=lambda row: int(row["point_index"]))] == ["", "a.b", "a_b"]
    assert {json.loads(row["resource"])["group_id"] for row in rows} == {"billing"}
    assert {row["received_at"] for row in rows} == {"2026-03-01T12:00:00.000000Z"}


HOSTILE_ID = '=HYPERLINK("http://x",1)\x1b[2J\r\n\u202e'
HOSTILE_TOPIC = "+1;=cmd|'/c calc'!A1\",=1\x9b\u202e"


@pytest.fixture
def hostile(zone: LandingZone) -> LandingZone:
    zone.write([push(dialect.java_consumer([HOSTILE_TOPIC]), client_id=HOSTILE_ID, client_instance_id=OTHER_INSTANCE)])
    return zone


@pytest.mark.parametrize("is_path", [False, True])
def test_csv_holds_no_formula_no_control_character_and_no_cell_of_a_strangers_making(
    hostile: LandingZone, tmp_path: Path, is_path: bool
) -> None:
    path = tmp_path / "out"
    result = fleet(hostile, "points", "--format", "csv", *(["--output", str(path)] if is_path else []))
    assert result.exit_code == 0, result.output
    text = "".join(file.read_text() for file in path.glob("*.csv")) if is_path else result.stdout
    lines = text.splitlines()
    assert all(line.isprintable() for line in lines)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(lines) - 1, "a row a line"
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.lstrip()[:1] in tuple("=+@\t\r") or (cell[:1] == "-" and cell != "-1.5")]
    assert {row["client_id"] for row in rows} == {"'" + HOSTILE_ID.encode("unicode_escape").decode()}
    topics = {row["topic"] for row in rows} - {""}
    assert topics == {"'" + HOSTILE_TOPIC.encode("unicode_escape").decode()}
    attributes = [json.loads(row["attributes"]) for row in rows]
    assert HOSTILE_TOPIC in {each.get("topic") for each in attributes}, "nested columns stay JSON, and exact"
    assert {type(float(row["value"])) for row in rows if row["value"]} == {float}
    assert text.count(";") == text.count(";=cmd"), "within quotes alone"


def test_json_is_exact_and_safe_for_the_terminal_and_tables_are_too(hostile: LandingZone) -> None:
    result = fleet(hostile, "points", "--format", "json")
    assert result.stdout.replace("\n", "").isprintable()
    assert {json.loads(line)["client_id"] for line in result.stdout.splitlines()} == {HOSTILE_ID}
    for command in ("points", "inventory", "rejects"):
        assert fleet(hostile, command).stdout.replace("\n", "").isprintable()


def test_columns_of_a_table_are_chosen_and_what_is_none_is_refused_before_anything_is_read(filled: LandingZone) -> None:
    lines = fleet(filled, "inventory", "--columns", "pushes,client_id").stdout.splitlines()
    assert lines[0].split() == ["pushes", "client", "id"]
    assert lines[2].split() == ["2", "billing-1"]
    wrong = fleet(filled, "inventory", "--columns", "pushes,colour")
    assert wrong.exit_code == 1
    assert "there is no column 'colour'; there are client_instance_id,client_id,role,software," in wrong.stderr


@pytest.mark.parametrize("engine", [(), ON_SPARK])
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_an_answer_is_written_to_a_directory_and_never_over_another(
    filled: LandingZone, tmp_path: Path, form: str, engine: tuple[str, ...]
) -> None:
    path = tmp_path / "out"
    result = fleet(filled, "inventory", "--format", form, "--output", str(path), *engine)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    files = list(path.rglob(f"*.{form}"))
    if form == "parquet":
        found = [row["client_id"] for file in files for row in pq.read_table(file).to_pylist()]
    elif form == "json":
        found = [json.loads(line)["client_id"] for file in files for line in file.read_text().splitlines()]
    else:
        found = [row["client_id"] for file in files for row in csv.DictReader(io.StringIO(file.read_text()))]
    assert sorted(found) == ["[bold]rd", "billing-1"]
    again = fleet(filled, "inventory", "--format", form, "--output", str(path), *engine)
    assert again.exit_code == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize("engine", [(), ON_SPARK])
def test_a_summary_is_both_tables_and_keeps_every_row_where_it_is_told_to(
    filled: LandingZone, tmp_path: Path, engine: tuple[str, ...]
) -> None:
    result = fleet(
        filled, "inventory", "latency", "--limit", "1", "--format", "json", "--output", str(tmp_path / "today"), *engine
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "inventory"
    assert "1 more of 2 rows" in lines[4]
    assert lines[5:7] == ["", "latency"]
    assert "[bold]rd" in lines[-1]
    assert result.stderr.splitlines() == [
        "1 repeated push was counted once",
        "1 push was rejected as malformed: fleet show rejects --source shows why",
    ]
    for name, clients in (("inventory", ["[bold]rd", "billing-1"]), ("latency", ["[bold]rd"])):
        files = (tmp_path / "today" / name).glob("*.json")
        assert (
            sorted(json.loads(line)["client_id"] for file in files for line in file.read_text().splitlines()) == clients
        )


def test_a_selection_by_the_instance_id_of_a_clients_log(filled: LandingZone) -> None:
    result = fleet(filled, "inventory", "--format", "json", "--instance", "00000000000000000000000000000001")
    assert [json.loads(line)["client_id"] for line in result.stdout.splitlines()] == ["[bold]rd"]


@pytest.mark.parametrize(("form", "said"), [("table", "no rows\n"), ("json", "")])
def test_a_selection_that_nothing_meets_is_an_empty_answer(filled: LandingZone, form: str, said: str) -> None:
    result = fleet(filled, "latency", "--format", form, "--since", "2026-03-02")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


@pytest.mark.parametrize("engine", [(), ON_SPARK])
def test_a_wrong_source_is_one_sentence(spark: SparkSession, zone: LandingZone, engine: tuple[str, ...]) -> None:
    result = fleet(zone, "inventory", *engine)
    assert result.exit_code == 1
    assert result.stdout == ""
    (sentence,) = result.stderr.strip().splitlines()
    assert sentence.startswith("Error: there is no landing zone at ")


@pytest.mark.parametrize("engine", [(), ON_SPARK])
def test_a_file_that_cannot_be_read_is_named_in_one_sentence(filled: LandingZone, engine: tuple[str, ...]) -> None:
    path = filled.write([push()], name="part-9")
    path.write_bytes(path.read_bytes()[:200])
    result = fleet(filled, "inventory", *engine)
    assert result.exit_code == 1
    (sentence,) = result.stderr.strip().splitlines()
    assert "part-9.parquet" in sentence
