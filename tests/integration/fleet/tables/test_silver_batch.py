"""What a batch of pushes makes of what is remembered, and what it leaves to be remembered."""

import random
import shutil
import string
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, MetricsData
from spark.landing_zone import NOON_US, LandingZone, push
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.decode.stage import MAX_CHUNK_BYTES
from fleetgauge.fleet.engines import parcels
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.silver.batch import points_of
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.silver.late import Late
from fleetgauge.fleet.source.landing import read
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog

MINUTE_US = 60_000_000
FIRST_CHARACTERS = "-" + string.digits + string.ascii_uppercase + "_" + string.ascii_lowercase


@pytest.fixture
def tables(tmp_path: Path) -> SilverTables:
    return SilverTables(tmp_path)


def total(value: float, *, padding: int = 0) -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m", description="x" * padding)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    metric.sum.data_points.add(as_double=value)
    return data.SerializeToString()


def of(instance: str, minute: int, payload: bytes, **fields: Any) -> dict[str, Any]:
    """A push of the instance whose id begins so."""
    at_us = NOON_US + minute * MINUTE_US
    own = {"push_id": f"{ord(instance[-1]):04x}{minute:028x}", "client_instance_id": f"{instance:A<22}"}
    return push(payload, received_at=at_us, **own | fields)


def deltas(tables: SilverTables) -> list[tuple[str, int, float]]:
    """The instance, minute and growth of each point."""
    found = [(row["client_instance_id"][0], row["received_at"].minute, row["delta"]) for row in tables.points]
    return sorted(found)


def amounts(tables: SilverTables) -> list[tuple[str, float, int]]:
    """What is remembered: the instance, its total, and when that was received."""
    rows = tables.rows(catalog.SERIES)
    return sorted((row["client_instance_id"][0], row["amount"], row["received_at"].minute) for row in rows)


def series_files(tables: SilverTables) -> dict[str, list[str]]:
    """The paths of the files of SERIES by the first character of the ids in each, which has one such."""
    found: dict[str, list[str]] = {}
    for row in tables.store.log(catalog.SERIES).files().to_pylist():
        first, last = (row[f"{end}.client_instance_id"][0] for end in ("min", "max"))
        assert first == last, "a file of several shards"
        found.setdefault(first, []).append(row["path"])
    return found


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The instance and minute of each push that is compared with what stands in the table."""
    found: list[tuple[str, int]] = []
    groups = Late.groups

    def noted(self: Late, pushes: pa.RecordBatch) -> Any:
        rows = pushes.select(["client_instance_id", "received_at"]).to_pylist()
        found.extend((row["client_instance_id"][0], row["received_at"].minute) for row in rows)
        return groups(self, pushes)

    monkeypatch.setattr(Late, "groups", noted)
    return found


def test_what_is_remembered_is_there_for_a_push_that_is_a_chunk_of_its_own(tables: SilverTables) -> None:
    tables.read([of("a", 0, total(10.0))])
    tables.read([of("a", 1, total(14.0, padding=MAX_CHUNK_BYTES)), of("a", 2, total(15.0)), of("b", 2, total(1.0))])
    assert deltas(tables) == [("a", 0, 10.0), ("a", 1, 4.0), ("a", 2, 1.0), ("b", 2, 1.0)]
    assert amounts(tables) == [("a", 15.0, 2), ("b", 1.0, 2)]


def test_heartbeats_and_malformed_pushes_are_counted_and_leave_what_is_remembered(tables: SilverTables) -> None:
    report = tables.read([of("a", 0, total(10.0)), of("a", 1, b""), of("a", 2, b"\xff"), of("a", 3, total(11.0))])
    assert report is not None
    assert (report.pushes, report.points, sum(report.rejects.values())) == (3, 2, 1)
    assert deltas(tables) == [("a", 0, 10.0), ("a", 3, 1.0)]
    beats = {row["received_at"].minute: row["heartbeat"] for row in tables.rows(catalog.PUSHES)}
    assert beats == {0: False, 1: True, 3: False}
    tables.read([of("a", 4, b""), of("a", 5, b"\xff"), of("b", 7, b"")])
    assert amounts(tables) == [("a", 11.0, 3)]
    clients = [row for row in tables.rows(catalog.WINDOWS) if row["role"] is None]
    seen = sorted(
        (row["client_instance_id"][0], row["pushes"], row["points"], row["seen_at"].minute) for row in clients
    )
    assert seen == [("a", 4, 2, 4), ("b", 1, None, 7)]


def test_all_pushes_of_an_instance_are_late_when_one_comes_no_later_than_what_is_remembered(
    tables: SilverTables, late: list[tuple[str, int]]
) -> None:
    tables.read([of(instance, 5, total(10.0)) for instance in "abc"])
    assert late == []
    report = tables.read(
        [
            *(of("a", 4, total(9.0)), of("a", 6, total(11.0))),
            *(of("b", 5, total(9.0), push_id="0" * 32), of("b", 7, b"")),
            *(of("c", 6, total(12.0)), of("c", 7, b"\xff")),
        ]
    )
    assert late == [("a", 4), ("a", 6), ("b", 5), ("b", 7)]
    assert report is not None
    assert (report.pushes, report.points, sum(report.rejects.values())) == (5, 4, 1)
    assert deltas(tables) == [
        *(("a", 4, 9.0), ("a", 5, 1.0), ("a", 6, 1.0)),
        *(("b", 5, 1.0), ("b", 5, 9.0)),
        *(("c", 5, 10.0), ("c", 6, 2.0)),
    ]
    assert amounts(tables) == [("a", 11.0, 6), ("b", 10.0, 5), ("c", 12.0, 6)]


def test_a_row_that_is_set_aside_makes_no_instance_late(tables: SilverTables, late: list[tuple[str, int]]) -> None:
    tables.read([of("a", 5, total(10.0))])
    tables.read([of("a", 4, b"?", push_id=None), of("a", 6, total(11.0))])
    assert late == []
    assert deltas(tables) == [("a", 5, 10.0), ("a", 6, 1.0)]


def test_an_instance_is_one_by_its_cluster_and_principal_too(tables: SilverTables, late: list[tuple[str, int]]) -> None:
    """Each has totals of its own, and comes late for itself."""
    tables.read([of("a", 5, total(10.0)), of("a", 5, total(20.0), cluster_id="other", push_id="1" * 32)])
    tables.read([of("a", 6, total(11.0)), of("a", 4, total(19.0), cluster_id="other", push_id="2" * 32)])
    assert late == [("a", 4)]
    found = sorted((row["cluster_id"], row["received_at"].minute, row["delta"]) for row in tables.points)
    assert found == [("c", 5, 10.0), ("c", 6, 1.0), ("other", 4, 19.0), ("other", 5, 1.0)]


@pytest.mark.parametrize("batches", [1, 2])
def test_one_id_of_two_instances_is_two_pushes_in_one_batch_and_in_two(batches: int, tables: SilverTables) -> None:
    pushes = [of(instance, 1, total(10.0), push_id="1" * 32) for instance in "ab"]
    pushes.append(of("a", 1, total(11.0), push_id="1" * 32, cluster_id="other"))
    more = [of(instance, 2, total(12.0)) for instance in "ab"]
    for batch in [[*pushes, *more]] if batches == 1 else [pushes[:1], [*pushes, *more]]:
        report = tables.read(batch)
    assert report is not None
    assert report.repeats == batches - 1
    found = [(row["client_instance_id"][0], row["cluster_id"]) for row in tables.rows(catalog.PUSHES)]
    assert sorted(found) == [("a", "c"), ("a", "c"), ("a", "other"), ("b", "c"), ("b", "c")]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_what_is_remembered_stays_while_the_next_instances_come(
    rows: int, tables: SilverTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows make a chunk: some have the end of one instance and the beginning of the next."""
    monkeypatch.setattr("fleetgauge.fleet.silver.batch.regroup", lambda batches, _: iter(batches))
    monkeypatch.setattr(parcels, "ROWS_AT_ONCE", rows)
    tables.read([of(instance, 0, total(10.0)) for instance in "abc"])
    tables.read(
        [of("a", 1, b""), of("a", 2, total(14.0)), of("b", 2, total(15.0)), of("c", 1, b""), of("c", 2, total(16.0))]
    )
    assert [found for found in deltas(tables) if found[1]] == [("a", 2, 4.0), ("b", 2, 5.0), ("c", 2, 6.0)]
    assert amounts(tables) == [("a", 14.0, 2), ("b", 15.0, 2), ("c", 16.0, 2)]


@pytest.mark.parametrize("rows", [7, 1024])
def test_ids_that_begin_with_any_character_have_a_file_of_their_series_each(
    rows: int, tables: SilverTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetgauge.fleet.silver.batch.regroup", lambda batches, _: iter(batches))
    monkeypatch.setattr(parcels, "ROWS_AT_ONCE", rows)
    assert len(FIRST_CHARACTERS) == 64
    pushes = [
        of(first, 0, total(10.0), client_instance_id=f"{first}{second:A<21}")
        | {"push_id": f"{number:016x}{second_number:016x}"}
        for number, first in enumerate(FIRST_CHARACTERS)
        for second_number, second in enumerate("-z")
    ]
    random.Random(1).shuffle(pushes)
    tables.read(pushes)
    before = series_files(tables)
    assert sorted(before) == sorted(FIRST_CHARACTERS)
    assert all(len(paths) == 1 for paths in before.values())

    touched = FIRST_CHARACTERS[::3]
    tables.read([of(first, 1, total(13.0), client_instance_id=f"{first}{'-':A<21}") for first in touched])
    after = series_files(tables)
    assert {first for first in before if before[first] != after[first]} == set(touched)
    assert all(len(paths) == 1 for paths in after.values())
    assert amounts(tables) == sorted(
        (first, *amount)
        for first in FIRST_CHARACTERS
        for amount in ((13.0, 1) if first in touched else (10.0, 0), (10.0, 0))
    )
    grown = [row["delta"] for row in tables.points if row["received_at"].minute == 1]
    assert grown == [3.0] * len(touched)


def test_files_of_several_shards_are_parted_before_a_batch_writes_some_of_them(tables: SilverTables) -> None:
    """Upkeep writes small files together."""
    for minute in range(2):
        tables.read([of(first, minute, total(10.0 + minute)) for first in FIRST_CHARACTERS[minute::2]])
    table = tables.store.log(catalog.SERIES).open()
    table.optimize.compact()
    before = amounts(tables)
    assert len(table.file_uris()) == 1
    tables.read([of("A", 3, total(14.0))])
    files = series_files(tables)
    assert sorted(files) == sorted(FIRST_CHARACTERS)
    assert all(len(paths) == 1 for paths in files.values())
    assert amounts(tables) == sorted([each for each in before if each[0] != "A"] + [("A", 14.0, 3)])
    (grown,) = [row["delta"] for row in tables.points if row["received_at"].minute == 3]
    assert grown in (3.0, 4.0)


def test_tables_with_a_file_a_character_go_on_with_more_shards_and_back(
    tables: SilverTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As runs here and on a cluster take turns."""
    ids = [f"{first}{second:A<21}" for first in "Aa" for second in "-Kz"]
    for minute, shards in enumerate((64, 256, 4096, 64)):
        monkeypatch.setattr(InProcess, "shards", shards)
        tables.read(
            of("A", minute, total(10.0 + minute), client_instance_id=each) | {"push_id": f"{minute:016x}{number:016x}"}
            for number, each in enumerate(ids)
        )
        files = tables.store.log(catalog.SERIES).files().num_rows
        assert files == (2 if shards == 64 else 6)
    assert [grown for _, minute, grown in deltas(tables) if minute] == [1.0] * 18
    assert {amount for _, amount, _ in amounts(tables)} == {13.0}


ODD_IDS = (None, "", "A", "A" * 21 + "=", "\u00e9" * 22, "~" * 22, "\U0010ffff" * 22, "A" * 21 + "\n")


def test_ids_of_no_form_are_set_aside_and_those_beside_them_are_not(tables: SilverTables) -> None:
    """They lie before, between and after all shards."""
    for minute in range(2):
        odd = [
            of("A", minute, total(1.0), client_instance_id=each) | {"push_id": f"{minute}{number:031x}"}
            for number, each in enumerate(ODD_IDS)
        ]
        report = tables.read([*odd, *(of(first, minute, total(10.0 + minute)) for first in FIRST_CHARACTERS)])
        assert report is not None
        assert report.rejects == {
            "client_instance_id is null": 1,
            "client_instance_id is not 22 characters of URL-safe base64": len(ODD_IDS) - 1,
        }
        assert report.pushes == len(FIRST_CHARACTERS)
    assert sorted(series_files(tables)) == sorted(FIRST_CHARACTERS)
    assert {(row["received_at"].minute, row["delta"]) for row in tables.points} == {(0, 10.0), (1, 1.0)}
    found = [row["client_instance_id"] for row in tables.rows(catalog.REJECTS)]
    assert sorted(found, key=repr) == sorted([*ODD_IDS, *ODD_IDS], key=repr)


def test_pushes_come_through_where_points_were_lost_and_series_were_not(
    tables: SilverTables, late: list[tuple[str, int]]
) -> None:
    tables.read([of("a", 5, total(10.0)), of("b", 5, total(10.0))])
    shutil.rmtree(Path(catalog.POINTS.path(tables.store.root).removeprefix("file:")))
    tables.store._known.discard(catalog.POINTS.name)
    tables.read([of("a", 6, total(11.0)), of("b", 4, total(9.0))])
    assert late == [], "there is nothing that they could be compared with"
    assert [found[:2] for found in deltas(tables)] == [("a", 6), ("b", 4)]
    assert ("a", 6, 1.0) in deltas(tables)


def test_points_of_pushes_are_compared_with_one_another_and_have_what_their_table_has(
    tables: SilverTables, tmp_path: Path
) -> None:
    pushes = [of(instance, minute, total(10.0 + minute)) for instance in "ab" for minute in range(3)]
    path = LandingZone(tmp_path / "zone").write(pushes)
    found = [row for rows in points_of(checked(read(path, Selection()))) for row in rows.to_pylist()]
    tables.read(pushes)
    assert sorted(found, key=repr) == tables.rows(catalog.POINTS)
    assert [row["delta"] for row in found] == [10.0, 1.0, 1.0] * 2


def test_pushes_of_a_newer_schema_stop_the_batch_and_leave_nothing_behind(tables: SilverTables, tmp_path: Path) -> None:
    tables.read([of("a", 0, total(10.0))])
    before = tables.tables(), sorted(tmp_path.glob("tables/**/*.parquet"))
    with pytest.raises(LandingError, match="has pushes of schema_version 2, and this release reads up to 1: upgrade"):
        tables.read([of("a", 1, total(11.0)), of("b", 1, b"?", schema_version=2)])
    assert (tables.tables(), sorted(tmp_path.glob("tables/**/*.parquet"))) == before
    tables.read([of("a", 1, total(12.0))])
    assert amounts(tables) == [("a", 12.0, 1)]
