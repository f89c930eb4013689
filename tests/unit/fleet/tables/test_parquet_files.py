"""Rows to the Parquet files of a Delta table, and what its log is told of them."""

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.fleet.written_files import written

from fleetgauge.fleet.schemas import encoded
from fleetgauge.fleet.tables.parquet_files import FileLimits, WriteFiles
from fleetgauge.fleet.tables.written_file import WrittenFile

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("client_instance_id", pa.string()),
    ("received_at", pa.timestamp("us", tz="UTC")),
    ("value", pa.float64()),
    ("attributes", pa.map_(pa.string(), pa.string())),
    ("bounds", pa.list_(pa.float64())),
    ("date", pa.date32()),
    ("node_id", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
INDEXED = ("client_instance_id", "received_at", "node_id")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def row(at: datetime | None = NOON, instance: str | None = "a", **given: Any) -> dict[str, Any]:
    found = {"client_instance_id": instance, "received_at": at, "date": at.date() if at else None}
    return {**found, "value": 1.5, "attributes": [("k", None)], "bounds": [0.5], "node_id": 1, **given}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)


def write(root: Path, *batches: pa.RecordBatch, indexed: tuple[str, ...] = INDEXED, **limits: Any) -> list[WrittenFile]:
    return list(written(points(root, indexed, **limits), batches))


def points(root: Path, indexed: tuple[str, ...] = INDEXED, schema: pa.Schema = SCHEMA, **limits: Any) -> WriteFiles:
    return WriteFiles(
        table="points",
        path=str(root / "points"),
        schema=schema,
        statistics_of=indexed,
        limits=FileLimits(**limits),
    )


def on_disk(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / "points")) for path in (root / "points").rglob("*") if path.is_file())


def in_file(root: Path, file: WrittenFile) -> pq.ParquetFile:
    return pq.ParquetFile(root / "points" / file.path)


def test_each_day_has_its_directory_and_its_date_is_not_in_the_file(tmp_path: Path) -> None:
    days = [NOON, NOON + timedelta(days=1)]
    rows = [row(days[number % 2], instance=f"i{number}") for number in range(6)]
    files = write(tmp_path, batch(*rows))
    assert on_disk(tmp_path) == sorted(file.path for file in files)
    assert {file.date: file.path.split("/")[0] for file in files} == {
        date(2026, 3, 1): "date=2026-03-01",
        date(2026, 3, 2): "date=2026-03-02",
    }
    for file in files:
        found = in_file(tmp_path, file)
        assert found.schema_arrow.names == [name for name in SCHEMA.names if name != "date"]
        wanted = [{k: v for k, v in each.items() if k != "date"} for each in rows if each["date"] == file.date]
        assert found.read().select([*wanted[0]]).to_pylist() == wanted
        assert file.rows == 3
        stat = (tmp_path / "points" / file.path).stat()
        assert (file.table, file.size_bytes) == ("points", stat.st_size)
        assert file.modified_at_ms == pytest.approx(stat.st_mtime_ns // 1_000_000, abs=60_000)


def test_files_are_of_the_form_that_spark_writes(tmp_path: Path) -> None:
    (file,) = write(tmp_path, batch(row()))
    found = in_file(tmp_path, file)
    column = found.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert "RLE_DICTIONARY" in column.encodings
    assert str(found.schema.column(1).logical_type) == (
        "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, "
        "force_set_converted_type=false)"
    )
    assert {found.schema.column(number).path for number in (3, 4, 5)} == {
        "attributes.key_value.key",
        "attributes.key_value.value",
        "bounds.list.element",
    }


def test_a_table_that_is_not_partitioned_has_its_files_side_by_side(tmp_path: Path) -> None:
    schema = SCHEMA.remove(SCHEMA.get_field_index("date"))
    rows = batch(row(), row(NOON + timedelta(days=1), instance="b")).drop_columns(["date"])
    (file,) = written(points(tmp_path, schema=schema), [rows])
    assert (file.date, file.rows, file.path.startswith("part-")) == (None, 2, True)
    assert in_file(tmp_path, file).read().equals(pa.Table.from_batches([rows]))
    assert on_disk(tmp_path) == [file.path]


def test_what_was_finished_and_not_taken_is_removed_and_what_was_taken_stays(tmp_path: Path) -> None:
    with points(tmp_path).open() as writer:
        writer.write(batch(row()))
        writer.finish()
        (taken,) = writer.take_finished()
        writer.write(batch(row(), row(NOON + timedelta(days=1))))
        writer.finish()
        assert len(on_disk(tmp_path)) == 3
    assert on_disk(tmp_path) == [taken.path]


def test_what_writes_files_is_pickled_on_its_way_to_the_tasks(tmp_path: Path) -> None:
    files = pickle.loads(pickle.dumps(points(tmp_path)))
    (file,) = written(files, [batch(row())])
    assert in_file(tmp_path, pickle.loads(pickle.dumps(file))).metadata.num_rows == 1


def test_rows_without_a_date_are_hives_default_partition(tmp_path: Path) -> None:
    files = write(tmp_path, batch(row(), row(None, instance="none")))
    (undated,) = [file for file in files if file.date is None]
    assert undated.path.startswith("date=__HIVE_DEFAULT_PARTITION__/")
    assert in_file(tmp_path, undated).read(["client_instance_id"]).to_pylist() == [{"client_instance_id": "none"}]


def test_nothing_comes_of_nothing(tmp_path: Path) -> None:
    assert write(tmp_path) == write(tmp_path, batch()) == []
    assert not (tmp_path / "points").exists()


def test_a_file_is_finished_when_it_is_large_enough(tmp_path: Path) -> None:
    batches = [batch(*(row(instance=f"{number}-{each}") for each in range(10))) for number in range(6)]
    files = write(tmp_path, *batches, row_group_rows=20, file_bytes=1)
    assert [file.rows for file in files] == [20, 20, 20]
    assert on_disk(tmp_path) == sorted(file.path for file in files)
    read = [each["client_instance_id"] for file in files for each in in_file(tmp_path, file).read().to_pylist()]
    assert read == [f"{number}-{each}" for number in range(6) for each in range(10)]


def test_row_groups_are_bounded_however_large_a_batch_is(tmp_path: Path) -> None:
    one = batch(*(row(instance=str(number)) for number in range(100)))
    (by_rows,) = write(tmp_path, one, row_group_rows=30)
    sizes = in_file(tmp_path, by_rows).metadata
    assert [sizes.row_group(number).num_rows for number in range(sizes.num_row_groups)] == [34, 34, 32]
    (by_bytes,) = write(tmp_path, one, row_group_bytes=one.nbytes // 8)
    assert in_file(tmp_path, by_bytes).metadata.num_row_groups >= 4


def test_of_many_days_the_one_longest_without_rows_is_finished_first(tmp_path: Path) -> None:
    days = [NOON + timedelta(days=number) for number in (0, 1, 0, 2, 0)]
    files = write(tmp_path, *(batch(row(day)) for day in days), open_files=2)
    assert [(file.date.day if file.date else 0, file.rows) for file in files] == [(2, 1), (3, 1), (1, 3)]


def test_rows_that_wait_are_written_before_they_are_too_many_for_memory(tmp_path: Path) -> None:
    days = [NOON + timedelta(days=number) for number in range(3)]
    one = batch(row())
    with points(tmp_path, waiting_bytes=2 * one.nbytes).open() as writer:
        for day in days[:2]:
            writer.write(batch(row(day)))
        assert not (tmp_path / "points").exists(), "these may wait"
        writer.write(batch(row(days[2])))
        assert len(on_disk(tmp_path)) == 1
        writer.finish()
        assert [file.rows for file in writer.take_finished()] == [1, 1, 1]


@pytest.mark.parametrize("file_bytes", [1, 1_000_000])
def test_an_exception_leaves_no_file_but_those_that_were_handed_out(tmp_path: Path, file_bytes: int) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(row(), row(NOON + timedelta(days=1)))
        raise KeyError("of the source")

    files = points(tmp_path, (), row_group_rows=1, file_bytes=file_bytes)
    handed_out: list[Any] = []
    with pytest.raises(KeyError):
        handed_out.extend(file.path for file in written(files, broken()))
    assert on_disk(tmp_path) == sorted(handed_out)
    assert len(handed_out) == (2 if file_bytes == 1 else 0)


def test_whoever_stops_reading_leaves_no_unfinished_file(tmp_path: Path) -> None:
    batches = [batch(*(row(instance=str(number)) for number in range(4)))] * 3
    days = [batch(row(NOON + timedelta(days=number))) for number in range(9)]
    found = written(points(tmp_path, row_group_rows=4, file_bytes=1_000_000), [*batches, *days])
    first = next(found)
    assert len(on_disk(tmp_path)) >= 1
    found.close()
    assert on_disk(tmp_path) == [first.path]


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    (tmp_path / "points" / "date=2026-03-01").write_text("in the way")
    with pytest.raises(OSError, match="date=2026-03-01"):
        write(tmp_path, batch(row(NOON - timedelta(days=1)), row()), row_group_rows=1)
    assert on_disk(tmp_path) == ["date=2026-03-01"]


def test_statistics_tell_rows_nulls_and_bounds(tmp_path: Path) -> None:
    late = NOON + timedelta(microseconds=1)
    one = batch(row(late, instance="b", node_id=-1), row(instance=None))
    two = batch(row(NOON + timedelta(seconds=1, microseconds=999_999), instance="é", node_id=7))
    (file,) = write(tmp_path, one, two, row_group_rows=1)
    assert json.loads(file.statistics) == {
        "numRecords": 3,
        "minValues": {"client_instance_id": "b", "received_at": "2026-03-01T12:00:00.000Z", "node_id": -1},
        "maxValues": {"client_instance_id": "é", "received_at": "2026-03-01T12:00:02.000Z", "node_id": 7},
        "nullCount": {"client_instance_id": 1, "received_at": 0, "node_id": 0},
    }


def test_a_column_of_nulls_has_no_bounds(tmp_path: Path) -> None:
    (file,) = write(tmp_path, batch(row(instance=None), row(instance=None)), indexed=("client_instance_id",))
    assert json.loads(file.statistics) == {
        "numRecords": 2,
        "minValues": {},
        "maxValues": {},
        "nullCount": {"client_instance_id": 2},
    }


@pytest.mark.parametrize("text", ["x" * 33, "é" * 500, "\U0010ffff" * 32, "x" * 32 + "\U0010ffff", "\x00" * 40, ""])
def test_bounds_of_long_texts_are_short_and_hold_them(tmp_path: Path, text: str) -> None:
    (file,) = write(tmp_path, batch(row(instance=text)), indexed=("client_instance_id",))
    told = json.loads(file.statistics)
    least, greatest = (told[bound]["client_instance_id"] for bound in ("minValues", "maxValues"))
    assert least.encode() <= text.encode() <= greatest.encode()
    assert len(least) <= 32
    assert len(greatest) <= 33


def test_a_text_that_no_short_one_is_above_is_its_own_bound(tmp_path: Path) -> None:
    (file,) = write(tmp_path, batch(row(instance="\U0010ffff" * 34)), indexed=("client_instance_id",))
    assert json.loads(file.statistics)["maxValues"] == {"client_instance_id": "\U0010ffff" * 34}


def test_texts_too_long_for_parquet_have_bounds_that_hold_all(tmp_path: Path) -> None:
    """Of a column without bounds delta-rs thinks that it has no values, and passes over its file."""
    (file,) = write(tmp_path, batch(row(instance="x" * 1_000_000), row(instance="b")), indexed=("client_instance_id",))
    told = json.loads(file.statistics)
    assert told["minValues"] == {"client_instance_id": ""}
    assert told["maxValues"]["client_instance_id"] > "z" * 100


def test_rows_of_another_table_are_refused(tmp_path: Path) -> None:
    other = pa.RecordBatch.from_pylist([{"value": 1.0, "date": NOON.date()}])
    with pytest.raises(ValueError, match="rows of another table"):
        write(tmp_path, other)


@pytest.mark.parametrize(
    ("schema", "indexed", "says"),
    [
        (SCHEMA, ("nowhere",), "no column nowhere"),
        (SCHEMA, ("date",), "no column date"),
        (SCHEMA, ("value",), "statistics of the column value cannot be kept: it is double"),
    ],
)
def test_what_cannot_be_a_table_is_refused(
    tmp_path: Path, schema: pa.Schema, indexed: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        points(tmp_path, indexed, schema).open()


def test_texts_in_dictionaries_make_the_file_that_texts_in_full_make(tmp_path: Path) -> None:
    batches = [batch(row(instance="a"), row(instance=None)), batch(row(instance="b"), row(instance="a"))]
    (plain,) = write(tmp_path / "plain", *batches)
    (short,) = write(tmp_path / "short", *(each.cast(encoded(SCHEMA)) for each in batches))
    found, wanted = in_file(tmp_path / "short", short), in_file(tmp_path / "plain", plain)
    assert found.schema_arrow.equals(wanted.schema_arrow)
    assert found.read().equals(wanted.read())
    assert short.statistics == plain.statistics
