"""Delta Lake's own reader, in a Spark session that has its jars, reads the tables that delta-rs and Arrow wrote."""

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fleet.full_points import LAST, arrow, points
from support.fleet.killed_runs import QUICK_JVM
from support.fleet.spark_versions import OLDEST, spark_python
from support.fleet.written_files import written
from support.waiting import PATIENCE_S

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.maintain import maintain
from fleetgauge.fleet.tables.store import Store

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]

READ = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config(map={
    "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.1", "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
}).getOrCreate()
path, *conditions = sys.argv[1:]
table = spark.read.format("delta").load(path)
rows = [row.asDict(recursive=True) for row in table.collect()]
found = [table.where(condition) for condition in conditions]
asked = [[len(each.inputFiles()), sorted(row.push_id for row in each.collect())] for each in found]
print(json.dumps([rows, asked], default=lambda value: value.isoformat()))
"""


def read(path: str, *conditions: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """Every row, with times as Python writes them; then for each condition the files that are read and ids of rows."""
    python = spark_python(OLDEST)  # Delta Lake has no release yet that reads with the newest
    command = [str(python.executable), "-c", READ, path, *conditions]
    environment = {**python.environment, **QUICK_JVM, "TZ": "UTC"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False, env=environment)
    if "unresolved dependency" in done.stdout + done.stderr:
        pytest.skip("Delta Lake's jars cannot be fetched")
    assert done.returncode == 0, done.stderr
    rows, asked = json.loads(done.stdout.splitlines()[-1])
    return rows, asked


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        json.dumps({**row, "received_at": str(row["received_at"])[:26].replace("T", " ")}, sort_keys=True, default=str)
        for row in rows
    )


def test_rows_statistics_removals_and_compaction_are_read_by_delta_lake(tmp_path: Path) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    store = Store(str(tmp_path))
    to = store.files_of(catalog.POINTS)
    store.change(catalog.POINTS, list(written(to, [arrow(points(before=timedelta(hours=1)))])))
    old = store.log(catalog.POINTS).paths()
    store.change(catalog.POINTS, list(written(to, [arrow(points()[:3])])), remove=old)
    store.change(catalog.POINTS, list(written(to, [arrow(points()[3:4])])))
    store.change(catalog.POINTS, list(written(to, [arrow(points()[4:])])))
    wanted = [{**row, "attributes": dict(row["attributes"] or []), "resource": None} for row in points()]
    conditions = (
        f"received_at = TIMESTAMP '{LAST:%Y-%m-%dT%H:%M:%S.%f}Z'",
        "client_instance_id = 'client-01-2'",
        "client_instance_id > 'client-02'",
        "group_id = 'a'",
    )
    for files in ([1, 1, 1, 0], [1, 1, 1, 0]):
        rows, asked = read(catalog.POINTS.path(store.root), *conditions)
        assert as_text([{**row, "resource": None} for row in rows]) == as_text(wanted)
        assert asked == list(map(list, zip(files, [["02-0"], ["01-2"], ["02-0", "02-1", "02-2"], []], strict=True)))
        maintain(store, keep_from=None, vacuum_after_hours=0, stage=lambda _: None)
