"""The tables' logs and small tables on an S3-compatible store, with the settings that Spark has for it."""

import json
from collections.abc import Iterator
from typing import NoReturn

import pytest
from deltalake.exceptions import CommitFailedError
from support.s3_store import SECRET, s3, s3_store

from fleet.pipeline.ledger import Ledger, Part
from fleet.selection import parse_day
from fleet.tables import catalog
from fleet.tables.log import Transaction
from fleet.tables.store import Store
from fleet.tables.written_file import WrittenFile

pytestmark = pytest.mark.integration


def no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed here")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_store(tmp_path_factory.mktemp("s3") / "access.log") as port:
        s3(port).create_dir("lake")
        conf = {
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        yield Store(no_spark, "s3a://lake/fleet", conf)


def test_a_ledger_on_an_object_store_plans_each_batch_once(store: Store) -> None:
    ledger = Ledger(store, "landing-a")
    plan = ledger.plan([Part(path="date=2026-03-01/a.parquet", begin=0, end=10)])
    again = Ledger(store, "landing-a")
    assert (again.app_id, again.unfinished(), Ledger(store, "other").unfinished()) == (ledger.app_id, [plan], [])
    store.append_rows(catalog.PUSHES, [], Transaction(app_id=ledger.app_id, version=0))
    assert Ledger(store, "landing-a").unfinished() == []


def test_files_that_lie_on_an_object_store_become_part_of_a_table_once(store: Store) -> None:
    day = parse_day("2026-03-01")
    file = WrittenFile(
        path=f"date={day}/part-0.parquet",
        size_bytes=100,
        modified_at_ms=1,
        date=day,
        rows=7,
        statistics=json.dumps({"numRecords": 7}),
    )
    transaction = Transaction(app_id="a", version=3)
    for _ in range(2):
        store.add_files(catalog.POINTS, [file], transaction)
    assert store.log(catalog.POINTS).size() == (1, 100, 7)
    assert store.rows_written["points"] == 7
    assert store.last_version(catalog.POINTS, "a") == 3

    def while_another_writes() -> Iterator[WrittenFile]:
        store.log(catalog.POINTS).add_files([], Transaction(app_id="a", version=4))
        yield file

    with pytest.raises(CommitFailedError):
        store.add_files(catalog.POINTS, while_another_writes(), Transaction(app_id="a", version=4))
    assert store.log(catalog.POINTS).size().files == 1
