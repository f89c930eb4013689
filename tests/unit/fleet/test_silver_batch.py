"""What one task makes of pushes and of what is remembered, without Spark."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, MetricsData

from fleet.decode.rows import SERIES_ROWS, arrow_schema
from fleet.decode.stage import MAX_CHUNK_BYTES
from fleet.schemas import CHECKED, INSTANCE, PACKED
from fleet.silver.batch import InRows, MakeBatch
from fleet.silver.deltas import LABELS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REMEMBERED = [field for field in SERIES_ROWS if field.name not in (*INSTANCE, *LABELS)]
SCHEMA = arrow_schema(CHECKED).append(pa.field("remembered", pa.list_(pa.struct(REMEMBERED))))


def total(value: float, *, padding: int = 0) -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m", description="x" * padding)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    metric.sum.data_points.add(as_double=value)
    return data.SerializeToString()


def batch_of_rows(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"principal": "User:app", **row} for row in rows], schema=SCHEMA)


def made(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of PACKED, their columns in Arrow's form read."""
    found = [row for packed in MakeBatch(InRows())([batch_of_rows(*rows)]) for row in packed.to_pylist()]
    assert list(found[0]) == PACKED.names
    for row in found:
        for name in ("counted", "marked", "series", "late"):
            row[name] = pa.ipc.open_stream(row[name]).read_all().to_pylist() if row[name] else []
    return found


def push(instance: str, minute: int, payload: bytes) -> dict[str, Any]:
    at = NOON.replace(minute=minute)
    return {"client_instance_id": instance, "push_id": f"{minute}", "received_at": at, "metrics": payload}


def test_what_is_remembered_may_be_a_chunk_of_its_own() -> None:
    first = made(push("a", 0, total(10.0)))
    series = [row for packed in first for row in packed["series"]]
    kept = [{field.name: row[field.name] for field in REMEMBERED} for row in series]
    large = total(14.0, padding=MAX_CHUNK_BYTES)
    rows = made({"client_instance_id": "a", "remembered": kept}, push("a", 1, large))
    assert [(row["pushes"], row["points"]) for row in rows] == [(0, 0), (1, 1), (0, 0)]
    assert [point["delta"] for row in rows for point in row["marked"]] == [4.0]
    assert [(one["amount"], one["received_at"].minute) for row in rows for one in row["series"]] == [(14.0, 1)]


def test_heartbeats_and_malformed_pushes_are_counted_and_leave_what_is_remembered() -> None:
    rows = made(push("a", 0, total(10.0)), push("a", 1, b""), push("a", 2, b"\xff"), push("a", 3, total(11.0)))
    assert [point["delta"] for row in rows for point in row["marked"]] == [10.0, 1.0]
    (chunk, _) = rows
    assert (chunk["pushes"], chunk["points"], chunk["rejects"]) == (3, 2, 1)
    assert [row["heartbeat"] for row in chunk["counted"] if row["reason"] is None] == [False, True, False]


def remembered(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the series of one instance leave to the next batch."""
    series = [row for packed in rows for row in packed["series"]]
    kept = [{field.name: row[field.name] for field in REMEMBERED} for row in series]
    return {"client_instance_id": series[0]["client_instance_id"], "remembered": kept}


def test_an_instance_is_handed_back_unread_when_one_push_comes_no_later_than_what_is_remembered() -> None:
    series = [remembered(made(push(instance, 5, total(10.0)))) for instance in "abc"]
    rows = made(
        *(series[0], push("a", 4, total(9.0)), push("a", 6, total(11.0))),
        *(series[1], push("b", 5, total(9.0)), push("b", 7, b"")),
        *(series[2], push("c", 6, total(11.0)), push("c", 7, b"\xff")),
    )
    late = [(row["client_instance_id"], row["received_at"].minute) for packed in rows for row in packed["late"]]
    assert late == [("a", 4), ("a", 6), ("b", 5), ("b", 7)]
    assert [packed["late_pushes"] for packed in rows] == [4, None]
    assert [(packed["pushes"], packed["points"], packed["rejects"]) for packed in rows] == [(1, 1, 1), (0, 0, 0)]
    assert [point["client_instance_id"] for packed in rows for point in packed["marked"]] == ["c"]
    assert [one["client_instance_id"] for packed in rows for one in packed["series"]] == ["c"]


def test_a_row_that_is_set_aside_makes_no_instance_late() -> None:
    series = remembered(made(push("a", 5, total(10.0))))
    rows = made(series, {**push("a", 4, b"?"), "reason": "push_id is null"}, push("a", 6, total(11.0)))
    assert [packed["late_pushes"] for packed in rows] == [None, None]
    assert [point["delta"] for packed in rows for point in packed["marked"]] == [1.0]


def test_what_is_remembered_stays_while_the_next_instances_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in a chunk: the second one has a push of one instance, and what is remembered of the next."""
    monkeypatch.setattr("fleet.silver.batch.regroup", lambda batches, _: iter(batches))
    a, b = (remembered(made(push(instance, 0, total(10.0)))) for instance in "ab")
    batches = (
        batch_of_rows(a, push("a", 1, b"")),
        batch_of_rows(push("a", 2, total(14.0)), b, push("b", 2, total(15.0))),
    )
    rows = [row for packed in MakeBatch(InRows())(batches) for row in packed.to_pylist()]
    points = [
        point for row in rows if row["marked"] for point in pa.ipc.open_stream(row["marked"]).read_all().to_pylist()
    ]
    assert [point["delta"] for point in points] == [4.0, 5.0]
