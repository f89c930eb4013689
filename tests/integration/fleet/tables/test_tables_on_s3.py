"""The tables' logs and small tables on an S3-compatible store, with the settings that Spark has for it."""

import pickle
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake.exceptions import CommitFailedError
from pyarrow import fs
from support.fleet.full_points import LAST, arrow, points
from support.fleet.written_files import written
from support.receivers.s3_store import SECRET, s3, s3_store

from fleetgauge.fleet.pipeline.ledger import Ledger, Part
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.parquet_files import FileLimits
from fleetgauge.fleet.tables.paths import storage_options
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_store(tmp_path_factory.mktemp("s3") / "access.log") as port:
        yield port


@pytest.fixture(scope="module")
def lake(port: int) -> fs.FileSystem:
    found = s3(port)
    found.create_dir("lake")
    return found


@pytest.fixture
def store(port: int, lake: fs.FileSystem) -> Store:
    """Tables of a test's own."""
    conf = {
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    return Store(f"s3a://lake/{uuid.uuid4().hex}", storage_options(conf))


def test_a_ledger_on_an_object_store_plans_each_batch_once(store: Store) -> None:
    ledger = Ledger(store, "landing-a")
    plan = ledger.plan([Part(path="date=2026-03-01/a.parquet", begin=0, end=10)])
    again = Ledger(store, "landing-a")
    assert (again.app_id, again.unfinished(), Ledger(store, "other").unfinished()) == (ledger.app_id, [plan], [])
    store.append_rows(catalog.PUSHES, [], Transaction(app_id=ledger.app_id, version=0))
    assert Ledger(store, "landing-a").unfinished() == []


def test_files_that_tasks_write_to_an_object_store_are_the_tables_rows(store: Store) -> None:
    files = pickle.loads(pickle.dumps(store.files_of(catalog.POINTS)))
    new = list(written(files, [arrow(points())]))
    transaction = Transaction(app_id="a", version=3)
    for _ in range(2):
        store.change(catalog.POINTS, new, transaction=transaction)
    log = store.log(catalog.POINTS)
    assert log.size() == (2, sum(file.size_bytes for file in new), 6)
    assert store.last_version(catalog.POINTS, "a") == 3
    assert in_order(log.snapshot().scan()) == in_order([arrow(points())])
    found = log.snapshot().scan(["push_id"], pc.field("received_at") == LAST)
    assert [row["push_id"] for batch in found for row in batch.to_pylist()] == ["02-0"]

    (day,) = [path for path in log.paths() if path.startswith("date=2026-03-01/")]
    corrected = [{**row, "gap": True} for row in points()[3:]]
    store.change(catalog.POINTS, list(written(files, [arrow(corrected)])), remove=[day])
    assert in_order(log.snapshot().scan()) == in_order([arrow([*points()[:3], *corrected])])


def test_a_task_that_fails_leaves_nothing_on_an_object_store(store: Store, lake: fs.FileSystem) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield arrow([{**row, "cluster_id": "x" * 100} for row in points()])
        raise KeyError("of the source")

    files = replace(store.files_of(catalog.POINTS), limits=FileLimits(row_group_rows=1))
    before = objects(lake, store)
    with pytest.raises(KeyError):
        list(written(files, broken()))
    with files.open() as writer:
        writer.write(arrow(points()))
        writer.finish()
        assert len(objects(lake, store)) == len(before) + 2
    assert objects(lake, store) == before


def test_of_two_writers_of_the_same_batch_the_second_loses(store: Store) -> None:
    log = store.make(catalog.POINTS)
    before = log.size()
    fourth = Transaction(app_id="b", version=4)
    (file, *_) = written(store.files_of(catalog.POINTS), [arrow(points())])

    def while_another_writes() -> Iterator[WrittenFile]:
        log.change(transaction=fourth)
        yield file

    with pytest.raises(CommitFailedError):
        log.change(while_another_writes(), transaction=fourth)
    assert log.size() == before


def in_order(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return sorted((row for batch in batches for row in batch.to_pylist()), key=repr)


def objects(lake: fs.FileSystem, store: Store) -> set[str]:
    points = catalog.POINTS.path(store.root).partition("://")[2]
    found = lake.get_file_info(fs.FileSelector(points, recursive=True, allow_not_found=True))
    return {info.path for info in found if info.path.endswith(".parquet")}
