"""The SQL of gold tables, run by DuckDB and by Spark: the same rows of the same partial wide rows."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.arrow import Table
from fleetgauge.fleet.engines import sql
from fleetgauge.fleet.gold.latency import latency
from fleetgauge.fleet.gold.members import consumers, groups, rebalances
from fleetgauge.fleet.gold.producers import producers
from fleetgauge.fleet.gold.sql import Query
from fleetgauge.fleet.gold.throttling import throttling
from fleetgauge.fleet.gold.versions import versions
from fleetgauge.fleet.schemas import CLIENTS
from fleetgauge.fleet.silver.clients import clients, seen
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables import catalog

RECORDED = Path(__file__).parent / "recorded"
BATCHES = 7
"""Into which the pushes of real clients are dealt, so that most windows have several partial rows."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The tables that queries read."""
    pushes = [row for path in sorted(RECORDED.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    tables = SilverTables(tmp_path_factory.mktemp("partial"))
    for number in range(BATCHES):
        tables.read(pushes[number::BATCHES])
    store = tables.store
    known = clients(
        seen(store.snapshot(catalog.PUSHES).table()), CLIENTS.empty_table(), datetime(2026, 11, 22, tzinfo=UTC)
    )
    return {"windows": store.snapshot(catalog.WINDOWS).table(), "clients": known}


@pytest.mark.parametrize("query", [latency, throttling, producers, rebalances, consumers, groups, versions])
def test_both_engines_make_the_same_rows(
    spark: SparkSession, given: dict[str, Table], query: Callable[[], Query]
) -> None:
    rows = given[query().of].select(query().columns)
    here = sql.answer(query(), rows)
    there = sql.frame(query(), spark.createDataFrame(rows, spark_schema(rows.schema))).toArrow().cast(here.schema)
    assert here.num_rows > 0
    assert sorted(here.to_pylist(), key=repr) == sorted(there.to_pylist(), key=repr)
