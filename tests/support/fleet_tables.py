"""What fleet's tables say of a landing zone, made in this process."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleet.engine import InProcess
from fleet.gold.metrics import metrics
from fleet.pipeline.answers import Answers
from fleet.pipeline.batch import BatchWriter
from fleet.pipeline.pending import pending
from fleet.pipeline.source import Batch
from fleet.tables import catalog
from fleet.tables.store import Store

MARKS = ("gap", "covers_gap", "before_subscription", "reset")


def fleet_tables(landing: Path, root: Path) -> dict[str, list[dict[str, Any]]]:
    """`clients` and `inventory`, one row each; `marks`, how many points of sums have which marks, by client;
    `unknown_metrics`, names of Java's metrics that the standard-metrics table lacks.

    Args:
        landing: the zone.
        root: of the tables, which are made.
    """
    store, now = Store(str(root)), datetime.now(UTC)
    files = tuple(str(path) for path in sorted(landing.rglob("*.parquet")))
    BatchWriter(store, InProcess(), "app", "zone", 300, lambda _: None).write(Batch(number=0, files=files))
    found = pending(store, window_s=300, now=now)
    Answers(store, InProcess(), 300, lambda _: None).refresh(found.spans, now)
    points = store.rows(catalog.POINTS)
    known = set(metrics()["metric_name"].to_pylist())
    of_java = {row["metric_name"] for row in points if row["dialect"] == "java"}
    return {
        "clients": store.rows(catalog.CLIENTS),
        "inventory": store.rows(catalog.INVENTORY),
        "marks": _marks(points),
        "unknown_metrics": [{"metric_name": name} for name in sorted(of_java - known)],
    }


def _marks(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in points:
        count = counts.setdefault((row["client_instance_id"], row["dialect"]), Counter(dict.fromkeys(MARKS, 0)))
        count["deltas"] += row["delta"] is not None
        for mark in MARKS:
            count[mark] += bool(row[mark])
    return [{"client_instance_id": name, "dialect": dialect, **count} for (name, dialect), count in counts.items()]
