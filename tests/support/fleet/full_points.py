"""Points with every kind of value that the table of points has columns of."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from fleetgauge.fleet.schemas import DISTRIBUTION, POINTS

LAST: Final = datetime(2026, 3, 2, 12, 0, 0, 123_456, tzinfo=UTC)
LONG_GROUP: Final = 60 * "é"


def points(*, before: timedelta = timedelta(0)) -> list[dict[str, Any]]:
    """Two days of three clients each; every column is given in one row, and few in the others."""
    full: dict[str, Any] = {}
    for field in POINTS:
        full[field.name] = {
            pa.string(): f"{field.name} é",
            pa.int32(): -7,
            pa.int64(): 2**62,
            pa.float64(): 0.1,
            pa.bool_(): True,
        }.get(field.type)
    full["attributes"] = full["resource"] = [("k", "v"), ("none", None)]
    full["distribution"] = {field.name: None for field in DISTRIBUTION} | {
        "min": 0.5,
        "bounds": [1.0, None, 2.5],
        "bucket_counts": [],
        "scale": -1,
    }
    rows = []
    for day in (LAST, LAST - timedelta(days=1)):
        for number in range(3):
            at = day - before - timedelta(microseconds=number)
            given = full if number == 0 else {"attributes": [], "value": float(number)}
            own = {"received_at": at, "date": at.date(), "push_id": f"{at:%d}-{number}", "point_index": number}
            row = dict.fromkeys(POINTS.names) | given | own | {"client_instance_id": f"client-{at:%d}-{number}"}
            rows.append(row | {"group_id": LONG_GROUP if number else None})
    return rows


def arrow(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """As POINTS."""
    return pa.RecordBatch.from_pylist(rows, schema=POINTS)
