"""`fleet show` reads fleet tables by itself: no Java, no PySpark."""

import csv
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.waiting import PATIENCE_S
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.report.output import print_table
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.views.show import text_form
from fleetgauge.terminal.table import wide_console

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = "=1+1\x1b[2J\n\u202e"


def point(number: int, **given: Any) -> dict[str, Any]:
    at = NOON + timedelta(hours=8 * number)
    own = {"received_at": at, "date": at.date(), "client_id": f"c{number}", "metric_name": "m", "value": number / 8}
    return {"point_index": number, "attributes": [("topic", "a"), ("none", None)], "twin": False, **own, **given}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Six points of three days, in files of two."""
    table = catalog.POINTS
    points = [point(number) for number in range(5)] + [point(5, client_id=HOSTILE, value=None, group_id="billing")]
    for at in range(0, 6, 2):
        rows = pa.Table.from_pylist(points[at : at + 2], schema=table.schema)
        write_deltalake(table.path(str(tmp_path)), rows, mode="append", partition_by=["date"])
    return tmp_path


def show(tables: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments, "--tables", str(tables)])


def lines_of(result: Result) -> list[Any]:
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_table_has_the_latest_rows_and_says_how_many_more_there_are(tables: Path) -> None:
    lines = show(tables, "points", "--limit", "2", "--columns", "received_at,client_id,value,attributes").stdout
    heading, _, first, second, more = lines.splitlines()
    assert heading.split() == ["received_at", "client_id", "value", "attributes"]
    assert first.split() == ["2026-03-03", "04:00:00", *HOSTILE_SHOWN, "-", '{"topic":"a","none":null}']
    assert second.split()[2:4] == ["c4", "0.500"]
    assert more.startswith("4 more of 6 rows")


@pytest.mark.slow
@pytest.mark.parametrize("limit", range(1, 8))
def test_the_latest_rows_are_the_same_however_many_are_asked_for(tables: Path, limit: int) -> None:
    lines = show(tables, "points", "--limit", str(limit), "--columns", "point_index").stdout.splitlines()
    assert [line.strip() for line in lines[2 : 2 + min(limit, 6)]] == ["5", "4", "3", "2", "1", "0"][:limit]
    assert len(lines) == 2 + min(limit, 6) + (limit < 6)


HOSTILE_SHOWN = [HOSTILE.encode("unicode_escape").decode()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--since", "2026-03-02T04:00"], [2, 3, 4, 5]),
        (["--until", "2026-03-02T04:00"], [0, 1]),
        (["--since", "2026-03-01T20:00", "--until", "2026-03-02T12:00"], [1, 2]),
        (["--client-id", "c1", "--client-id", "c3"], [1, 3]),
        (["--group", "billing"], [5]),
        (["--client-id", "o'c"], []),
        (["--until", "2026-03-01"], []),
    ],
)
def test_rows_are_selected_by_time_client_and_group(tables: Path, arguments: list[str], found: list[int]) -> None:
    rows = lines_of(show(tables, "points", "--format", "json", *arguments))
    assert sorted(row["point_index"] for row in rows) == found


def test_json_has_every_column_exactly_and_csv_is_safe(tables: Path) -> None:
    rows = lines_of(show(tables, "points", "--format", "json"))
    assert {tuple(row) for row in rows} == {tuple(catalog.POINTS.schema.names)}
    (hostile,) = [row for row in rows if row["group_id"]]
    assert (hostile["client_id"], hostile["value"], hostile["attributes"]) == (
        HOSTILE,
        None,
        {"topic": "a", "none": None},
    )
    assert (hostile["received_at"], hostile["date"]) == ("2026-03-03T04:00:00.000Z", "2026-03-03")
    text = show(tables, "points", "--format", "csv", "--group", "billing").stdout
    assert text.replace("\n", "").isprintable()
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["client_id"] == "'" + HOSTILE_SHOWN[0]
    assert (row["received_at"], row["twin"]) == ("2026-03-03T04:00:00.000000Z", "false")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_rows_are_written_to_a_new_directory_alone(tables: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out" / "points"
    assert show(tables, "points", "--format", form, "--output", str(out)).exit_code == 0
    (file,) = out.iterdir()
    assert file.suffix == f".{form}"
    if form == "parquet":
        assert pq.read_table(file).sort_by("point_index").column("value").to_pylist() == [
            0,
            0.125,
            0.25,
            0.375,
            0.5,
            None,
        ]
    again = show(tables, "points", "--format", form, "--output", str(out))
    assert again.exit_code == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["latency"], "there is no table latency in {root}: fleet run creates it", 1),
        (["points", "--columns", "colour"], "there is no column 'colour'; there are push_id,", 1),
        (["points", "--instance-id", "x"], "'x' is not a client instance id", 2),
    ],
)
def test_what_is_not_there_is_one_sentence(tables: Path, arguments: list[str], sentence: str, code: int) -> None:
    result = show(tables, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert sentence.format(root=tables) in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_table_is_shown_where_there_is_no_java_and_no_pyspark(tables: Path) -> None:
    code = (
        "import sys\nsys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "sys.argv = ['fleetgauge', 'fleet', 'show', 'points', '--format', 'json', '--tables', sys.argv[1]]\n"
        "from fleetgauge.cli import main\nmain()\n"
    )
    bare = {"PATH": "/nonexistent", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tables)],
        env=bare,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 6


def test_what_a_library_never_sends_is_said_in_the_row(tmp_path: Path) -> None:
    table = catalog.CONSUMERS
    row = {"client_id": "orders", "window_start": NOON, "date": NOON.date(), "unknown": ["lag_records"]}
    rows = pa.Table.from_pylist([row], schema=table.schema)
    write_deltalake(table.path(str(tmp_path)), rows, mode="append", partition_by=["date"])
    lines = show(tmp_path, "consumers", "--columns", "client_id,lag_records,records_consumed").stdout.splitlines()
    assert lines[2].split() == ["orders", "not", "sent", "-"]


def test_an_answer_without_rows_is_a_line_on_stderr_with_its_reason(tables: Path) -> None:
    other = show(tables, "points", "--client-id", "other")
    assert (other.exit_code, other.stdout) == (0, "")
    assert other.stderr == "points: no rows of this selection; without it the table has 6\n"
    rejects = catalog.REJECTS
    write_deltalake(rejects.path(str(tables)), pa.Table.from_pylist([], schema=rejects.schema), partition_by=["date"])
    assert show(tables, "rejects").stderr == "rejects: no rows: every push could be read\n"


def test_figures_fit_beside_the_client_in_a_narrow_terminal() -> None:
    form = text_form(catalog.CONSUMERS)
    row = {"window_start": NOON, "client_id": "billing-7", "group_id": "billing", "lag_records": 12}
    whole = dict.fromkeys(catalog.CONSUMERS.schema.names) | row
    printed = io.StringIO()
    print_table(wide_console(printed, width=80), [whole], 1, form=form)
    heading = printed.getvalue().splitlines()[0].split()
    assert heading == ["window_start", "client_id", "group_id", "lag_records", "lag_max_records"]
