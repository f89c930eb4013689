"""The notebook of examples/: every cell runs, and its answers are those of the fleet that it reads."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.engines.sql import answer
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.pipeline.of_windows import OF_CLIENTS
from fleetgauge.fleet.schemas import POINTS
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows

NOTEBOOK = Path(__file__).parents[2] / "examples" / "three_questions.ipynb"
PRODUCER = "org.apache.kafka.producer"
LATENCY, LATENCY_MAX = (f"{PRODUCER}.node.request.latency.{each}" for each in ("avg", "max"))
SENT, THROTTLE = f"{PRODUCER}.record.send.total", f"{PRODUCER}.produce.throttle.time.max"
QUEUE = f"{PRODUCER}.record.queue.time.avg"


def points() -> Table:
    """An hour of three producers, of which one is slow at broker 2 and is throttled."""
    columns = "client_instance_id client_id principal dialect received_at metric_name node_id value delta"
    java, rd = ("one", "orders", "User:shop", "java"), ("two", "audit", "User:audit", "librdkafka")
    return rows(
        POINTS,
        columns,
        *((*java, "12:00:00", LATENCY, node, ms, None) for node, ms in ((-1, 900.0), (1, 2.0), (2, 80.0))),
        *((*java, "12:00:00", LATENCY_MAX, node, ms, None) for node, ms in ((1, 10.0), (2, 700.0))),
        (*java, "12:00:00", SENT, None, 50.0, 50.0),
        (*java, "12:00:00", THROTTLE, None, 300.0, None),
        (*rd, "12:00:00", QUEUE, None, 4.0, None),
    )


def calm(given: Table, days: int) -> Table:
    """The same points so many days before, when brokers throttled nobody."""
    found = given.to_pylist()
    for row in found:
        row["received_at"] -= timedelta(days=days)
        row["date"] -= timedelta(days=days)
        row["push_id"] = f"{days}-{row['push_id']}"
        row["value"] = 0.0 if row["metric_name"] == THROTTLE else row["value"]
    return pa.Table.from_pylist(found, schema=given.schema)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Gold tables of two weeks, as a run makes them of wide rows."""
    store = Store(str(tmp_path))
    for given in (points(), calm(points(), 8)):
        windows = aggregate(given, 300)
        for table, query in OF_CLIENTS:
            with store.files_of(table).open() as writer:
                writer.write_table(answer(query, windows))
                store.change(table, add=writer.take_all())
    store.make(catalog.TRAFFIC)
    return tmp_path


def test_every_cell_runs_and_answers(spark: SparkSession, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETGAUGE_TABLES", str(tables))
    found: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), found)
    latency = [(row.node_id, row.p95_of_averages_ms, row.p95_of_maxima_ms) for row in found["latency"].collect()]
    assert latency == [(2, 80.0, 700.0), (1, 2.0, 10.0)], "no bootstrap link"
    records = [(row.principal, row.records_sent, row.instances_unknown) for row in found["records"].collect()]
    assert records == [("User:shop", 100.0, 0), ("User:audit", None, 1)]
    rose = [(row.client_id, row.share_before, row.share_last, row.longest_ms) for row in found["throttling"].collect()]
    assert rose == [("orders", 0.0, 1.0, 300.0)]
