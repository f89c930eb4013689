"""Rows of traffic, as a gateway writes them into a landing zone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from spark.landing_zone import NOON_US

from fleetgauge.exporters.traffic.schema import record_batch

MINUTE_US = 60_000_000
Row = dict[str, Any]


def produced(minute: int, **values: Any) -> Row:
    """A hundred requests a second, each of one record."""
    return {
        "window_start": NOON_US + minute * MINUTE_US, "window_ms": 60_000, "cluster_id": "c", "node_id": 1,
        "principal": "alice", "client_id": "orders", "group_id": None, "api_key": 0, "api": "Produce",
        "api_version": 9, "requests": 6_000, "request_bytes": 12_000_000, "response_bytes": 600_000,
        "gateway_time_ms": 60.0, "broker_time_ms": 12_000.0, "broker_time_max_ms": 90.0, "throttled_requests": 0,
        "throttle_time_ms": 0, "group_joins": 0, "batches": 6_000, "records": 6_000, "record_bytes": 11_000_000,
        "compressions": [("zstd", 6_000)], "errors": [], **values,
    }  # fmt: skip


def write_traffic(root: Path, rows: Iterable[Row], name: str) -> None:
    """Writes rows of an hour into the landing zone `root`."""
    folder = root / "traffic" / "date=2026-03-01" / "hour=12"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches([record_batch(list(rows))]), folder / f"traffic-{name}.parquet")
