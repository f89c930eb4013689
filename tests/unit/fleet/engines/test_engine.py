"""How this process runs a job: which rows a task has, in which order, and which files are left out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.landing_zone import NOON_US, ONE_INSTANCE, OTHER_INSTANCE, LandingZone, push

from fleetgauge.fleet.engines.engine import MAX_BAD_FILES, Batch, InProcess
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE
from fleetgauge.fleet.silver.repeats import ORDER

CANNOT_BE_READ = "the file cannot be read: it is damaged, or gone"


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")


def make(files: Iterable[Path], bad: dict[str, str] | None = None) -> list[list[dict[str, Any]]]:
    """The batches that a task has of files."""

    def batches(found: Iterable[pa.RecordBatch]) -> list[list[dict[str, Any]]]:
        kept = list(found)
        assert all(batch.schema == BRONZE for batch in kept)
        return [batch.to_pylist() for batch in kept]

    batch = Batch(number=0, files=tuple(map(str, files)))
    (made,) = InProcess().make(batch, {} if bad is None else bad, batches)
    return made


def damage(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-100])
    return path


def test_all_rows_come_to_one_task_by_instance_and_receipt_and_nulls_come_first(zone: LandingZone) -> None:
    rows = [
        push(received_at=NOON_US + second) | {"client_instance_id": instance, "cluster_id": cluster, "principal": who}
        for second in (2, 0, 1)
        for instance in (ONE_INSTANCE, None, OTHER_INSTANCE, "\u00e9")
        for cluster, who in (("a", "b"), (None, None), ("b", "a"))
    ]
    rows += [push() | {"received_at": None}, push() | {"push_id": None}]
    files = [zone.write(rows[place::3], name=f"part-{place}") for place in range(3)]
    ((*found,),) = make(files)
    assert len(found) == len(rows)
    keys = [tuple((row[name] is not None, row[name]) for name in ORDER) for row in found]
    assert keys == sorted(keys, key=lambda key: [(has, value if has else 0) for has, value in key])
    assert keys[0][0] == (False, None)
    assert {(row["cluster_id"], row["principal"]) for row in found} == {
        ("a", "b"),
        ("", ""),
        ("b", "a"),
        ("c", "User:ANONYMOUS"),
    }


def test_rows_say_their_file_and_place_and_come_some_at_a_time(
    zone: LandingZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InProcess, "rows_at_once", 2)
    paths = [
        zone.write([push(received_at=NOON_US + 3 * place + row) for row in range(3)], name=f"part {place}")
        for place in range(2)
    ]
    found = make(paths)
    assert [len(batch) for batch in found] == [2, 2, 2]
    places = [(row["source_file"], row["source_row"]) for batch in found for row in batch]
    uris = [f"file:{path}".replace(" ", "%20") for path in paths]
    assert places == [(uri, row) for uri in uris for row in range(3)]


def test_a_task_of_no_rows_is_run_too(zone: LandingZone) -> None:
    assert make([]) == []
    assert make([zone.write([])]) == []


def test_files_that_cannot_be_read_are_set_aside_whole_and_the_rest_is_read(zone: LandingZone) -> None:
    good = zone.write([push(client_id="good")])
    cut = damage(zone.write([push()], name="part-1"))
    text = zone.root / "notes.parquet"
    text.write_text("hello")
    gone = zone.root / "gone.parquet"
    bad: dict[str, str] = {}
    (found,) = make([cut, text, good, gone], bad)
    assert [row["client_id"] for row in found] == ["good"]
    assert bad == {str(path): CANNOT_BE_READ for path in (cut, text, gone)}


def test_of_a_file_that_is_damaged_behind_its_first_rows_none_are_read(zone: LandingZone) -> None:
    whole = zone.write([push(b"x" * 1_000, client_id=f"c-{row}") for row in range(3)], name="whole")
    path = whole.with_name("damaged.parquet")
    pq.write_table(pq.ParquetFile(whole).read(), path, row_group_size=1, compression="none", write_page_checksum=True)
    column = pq.ParquetFile(path).metadata.row_group(2).column(pq.ParquetFile(path).schema_arrow.names.index("metrics"))
    data = bytearray(path.read_bytes())
    place = column.dictionary_page_offset or column.data_page_offset
    data[place : place + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    bad: dict[str, str] = {}
    (found,) = make([path, zone.write([push(client_id="good")])], bad)
    assert [row["client_id"] for row in found] == ["good"]
    assert set(bad) == {str(path)}


def test_a_file_whose_columns_cannot_be_ours_is_set_aside(zone: LandingZone) -> None:
    path = zone.write([push()])
    table = pq.read_table(path, partitioning=None)
    place = table.column_names.index("received_at")
    pq.write_table(table.set_column(place, "received_at", pa.array([["soon"]])), path)
    bad: dict[str, str] = {}
    assert make([path], bad) == []
    assert set(bad) == {str(path)}


def test_files_that_were_set_aside_before_are_not_read_even_if_they_can_be(zone: LandingZone) -> None:
    path = zone.write([push()])
    bad = {str(path): "the file has changed"}
    assert make([path], bad) == []
    assert bad == {str(path): "the file has changed"}


def test_too_many_files_that_cannot_be_read_are_an_error(zone: LandingZone) -> None:
    damaged = damage(zone.write([push()]))
    paths = [damaged.with_name(f"copy-{number:03d}.parquet") for number in range(MAX_BAD_FILES + 1)]
    for path in paths:
        path.write_bytes(b"PAR1")
    bad: dict[str, str] = {}
    make(paths[1:], bad)
    assert len(bad) == MAX_BAD_FILES
    with pytest.raises(LandingError, match=r"more than 100 files cannot be read, for example .*copy-100\.parquet"):
        make(paths, {})


def test_parts_are_run_one_after_the_other_when_their_results_are_taken() -> None:
    seen: list[int] = []

    def task(part: int) -> int:
        seen.append(part)
        return part * part

    results = InProcess().map(task, [1, 2, 3])
    assert next(results) == 1
    assert seen == [1]
    assert list(results) == [4, 9]
