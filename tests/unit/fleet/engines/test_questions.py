"""Questions to a small landing zone are answered in this process: no Java, no PySpark."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.landing_zone import NOON_US, LandingZone, push
from support.waiting import PATIENCE_S
from typer.testing import CliRunner, Result
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.engines.questions import Question
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.report.request import Request
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.source.landing import find_zone, read
from fleetgauge.fleet.source.selection import Selection

RECORDED = Path(__file__).parents[3] / "spark" / "recorded"
HOUR_US = 3_600_000_000


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")


def fleet(zone: LandingZone | Path, *arguments: str) -> Result:
    source = zone.root if isinstance(zone, LandingZone) else zone
    return CliRunner().invoke(app, ["show", *arguments, "--source", str(source)])


BARE = {"PATH": "/nonexistent", "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["inventory", "latency", "points", "rejects"])
def test_every_question_is_answered_where_there_is_no_java_and_no_pyspark(command: str) -> None:
    code = (
        "import sys\nsys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "sys.argv[0:1] = ['fleetgauge', 'fleet', 'show']\nfrom fleetgauge.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command, "--source", str(RECORDED / "broker")],
        env=BARE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
    if command == "rejects":
        assert (done.stdout, done.stderr) == ("", "no rows\n"), "every push can be read"
    else:
        assert done.stderr == ""
        assert len(done.stdout.splitlines()) >= 2


def test_an_engine_or_a_master_that_is_named_takes_spark(zone: LandingZone, monkeypatch: pytest.MonkeyPatch) -> None:
    zone.write([push()])
    asked = []

    def on_spark(request: Request, *_: object, **__: object) -> None:
        asked.append(request.master)
        raise FleetError("Spark was asked")

    monkeypatch.setattr("fleetgauge.fleet.report.on_spark.on_spark", on_spark)
    assert fleet(zone, "inventory").exit_code == 0
    assert "Spark was asked" in fleet(zone, "inventory", "--master", "local[3]").stderr
    assert "Spark was asked" in fleet(zone, "inventory", "--engine", "spark").stderr
    assert asked == ["local[3]", None]


def test_of_a_time_only_its_days_and_row_groups_are_read(zone: LandingZone) -> None:
    for day in (1, 2, 3):
        rows = [push(received_at=NOON_US + (day - 1) * 24 * HOUR_US + hour * HOUR_US) for hour in range(4)]
        path = zone.root / f"date=2026-03-0{day}" / "hour=12" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        whole = zone.write(rows, name="whole")
        pq.write_table(pq.ParquetFile(whole).read(), path, row_group_size=1)
        whole.unlink()
    noon: Any = pa.scalar(NOON_US, pa.timestamp("us", tz="UTC")).as_py()
    since = noon.replace(day=2, hour=14)
    found = find_zone(str(zone.root), Selection(since=since))
    assert [path.parts[-3] for path in found.files] == ["date=2026-03-02", "date=2026-03-03"]
    batches = list(read(found.files[0], Selection(since=since)))
    assert len(batches) == 2, "row groups"
    assert [row["source_row"] for batch in batches for row in batch.to_pylist()] == [2, 3]


def test_rows_of_other_kinds_beside_the_pushes_are_no_pushes(zone: LandingZone) -> None:
    pushes = zone.write([push()])
    for folder in ("group_offsets", "traffic"):
        path = zone.root / folder / "date=2026-03-01" / "hour=12" / "rows-0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"requests": [1]}), path)
    assert find_zone(str(zone.root), Selection()).files == [pushes]
    assert fleet(zone, "inventory").exit_code == 0


def test_times_of_receipt_without_a_time_zone_are_utc(zone: LandingZone) -> None:
    path = zone.write([push(received_at=NOON_US), push(received_at=NOON_US + HOUR_US)])
    whole = pq.read_table(path)
    at = whole.schema.get_field_index("received_at")
    pq.write_table(whole.set_column(at, "received_at", whole["received_at"].cast(pa.timestamp("us"))), path)
    since: Any = pa.scalar(NOON_US + 1, pa.timestamp("us", tz="UTC")).as_py()
    assert [row["source_row"] for batch in read(path, Selection(since=since)) for row in batch.to_pylist()] == [1]


def test_a_key_that_is_not_known_is_empty_and_never_null(zone: LandingZone) -> None:
    """A null would equal no other, and what is remembered of the instance would not be found again."""
    (bronze,) = read(zone.write([push(cluster_id=None, principal=None)]), Selection())
    (row,) = check(bronze).to_pylist()
    assert (row["cluster_id"], row["principal"], row["reason"]) == ("", "", None)


def test_what_waits_in_memory_is_merged_and_the_answer_stays(
    zone: LandingZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        at = NOON_US + (7 * number % 5) * 1_000_000
        payload = dialect.java_producer({"node-1": float(number)})
        zone.write([push(payload, received_at=at, client_id=f"c-{at}")], name=f"part-{number}")
    plain = [fleet(zone, name, "--format", "json").stdout for name in ("inventory", "latency")]
    monkeypatch.setattr(Question, "merged_at", 1)
    assert [fleet(zone, name, "--format", "json").stdout for name in ("inventory", "latency")] == plain
    (client,) = map(json.loads, plain[0].splitlines())
    assert (client["pushes"], client["client_id"]) == (6, f"c-{NOON_US + 4_000_000}")


def test_clients_are_computed_some_at_a_time_and_the_answer_stays(
    zone: LandingZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = dialect.java_producer({"node-1": 3.0, "node-2": 5.0})
    zone.write([push(payload, client_instance_id=f"{number % 3}" * 22) for number in range(9)])
    plain = [sorted(fleet(zone, name, "--format", "json").stdout.splitlines()) for name in ("inventory", "latency")]
    assert [len(rows) for rows in plain] == [3, 6]
    monkeypatch.setattr(Question, "clients_at_once", 1)
    monkeypatch.setattr(Question, "merged_at", 1)
    again = [sorted(fleet(zone, name, "--format", "json").stdout.splitlines()) for name in ("inventory", "latency")]
    assert again == plain


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["inventory", "--columns", "colour"], "there is no column 'colour'; there are client_instance_id,", 1),
        (["points", "--since", "soon"], "'soon' is not a time", 2),
        (["inventory"], "there is no landing zone at ", 1),
    ],
)
def test_what_is_wrong_is_one_sentence_before_anything_is_read(
    zone: LandingZone, arguments: list[str], sentence: str, code: int
) -> None:
    result = fleet(zone, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_is_no_zone_is_refused(zone: LandingZone, tmp_path: Path) -> None:
    zone.root.mkdir()
    assert "has no pushes yet" in fleet(zone, "inventory").stderr
    path = zone.root / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    assert "holds no push records: its files have no column push_id" in fleet(zone, "inventory").stderr
    pq.write_table(pa.table({"schema_version": [2]}), path)
    assert "has push records of schema version 2" in fleet(zone, "inventory").stderr
    path.write_bytes(b"PAR1")
    assert "other.parquet cannot be read: remove it from the landing zone" in fleet(zone, "inventory").stderr


def test_a_nodes_data_directory_is_told_from_its_landing_zone(zone: LandingZone) -> None:
    zone.root.mkdir()
    zone.root.joinpath("meta.properties").touch()
    zone.root.joinpath("dead-letters.db").touch()
    sentence = f"{zone.root} is a node's data directory: use the landing zone in it, {zone.root}/landing"
    assert fleet(zone, "inventory").stderr == f"Error: {sentence}\n"


def test_what_the_simulator_wrote_is_told_from_the_landing_zone_in_it(zone: LandingZone) -> None:
    zone.root.joinpath("landing", "date=2026-01-01").mkdir(parents=True)
    for command in (["show", "inventory"], ["traffic"]):
        sentence = f"{zone.root} is not a landing zone: use the one in it, {zone.root}/landing"
        answer = CliRunner().invoke(app, [*command, "--source", str(zone.root)])
        assert answer.stderr == f"Error: {sentence}\n"


def test_a_metric_that_no_client_is_known_to_send_is_named_with_the_nearest(zone: LandingZone) -> None:
    zone.write([push(dialect.java_consumer(["a"]))])
    result = fleet(zone, "points", "--metric", "org.apache.kafka.consumer.fetch.manager.records.lagg")
    assert result.exit_code == 0
    assert "did you mean org.apache.kafka.consumer.fetch.manager.records.lag?" in result.stderr
    assert fleet(zone, "points", "--metric", dialect.LAG).stderr == ""
    assert fleet(zone, "points", "--metric", "com.example.").stderr == "no rows\n"
