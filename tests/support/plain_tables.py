"""The tables of points and series, kept without Spark: what a batch of pushes does to them, by the functions that run
on Spark's executors.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from fleet.decode.rows import CHECKED_ROWS, POINT_ROWS, SERIES_ROWS, arrow_schema
from fleet.schemas import INSTANCE, POINTS
from fleet.silver.batch import InRows, MakeBatch
from fleet.silver.deltas import HORIZON_US, LABELS, LastOfSeries

Row = dict[str, Any]
REMEMBERED: Final = [field for field in SERIES_ROWS if field.name not in (*INSTANCE, *LABELS)]
SCHEMA: Final = pa.schema(
    [
        *CHECKED_ROWS,
        pa.field("remembered", pa.list_(pa.struct(REMEMBERED))),
        pa.field("standing", pa.struct(list(arrow_schema(POINTS)))),
    ]
)
_HORIZON: Final = timedelta(microseconds=HORIZON_US)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instance(row: Row) -> tuple[str, ...]:
    return tuple(row[name] or "" for name in INSTANCE)


class PlainTables:
    """What is written, and the ids of the pushes that were read.

    Args:
        rows_at_once: that a task is handed together.
    """

    def __init__(self, rows_at_once: int = 1024) -> None:
        self._rows_at_once = rows_at_once
        self._read: set[str] = set()
        self._points: dict[tuple[Any, ...], Row] = {}
        self._series: dict[tuple[Any, ...], Row] = {}
        self.corrected = 0
        self.late = 0

    @property
    def points(self) -> list[Row]:
        """POINTS, in no order."""
        return list(self._points.values())

    def tables(self) -> tuple[list[str], list[str]]:
        """Every row of `points` and `series`, as text, in order."""
        return tuple(sorted(map(repr, table.values())) for table in (self._points, self._series))  # type: ignore

    def read(self, batch: Iterable[Row], *, cut_off_before: str = "") -> list[tuple[Row, Row, Row]]:
        """A batch of pushes, of which each counts once.

        Args:
            batch: PUSH_RECORD.
            cut_off_before: the table, `series` or `pushes`, that is not written; all those before it are.

        Returns:
            The points that it corrects: as they stand, as they are without the batch, and as they are with it.
        """
        rows = pa.RecordBatch.from_pylist(list(batch), schema=CHECKED_ROWS).to_pylist()
        new = {row["push_id"]: row for row in rows if row["push_id"] not in self._read}
        packed = self._made([*new.values()], self._remembered({instance(row) for row in new.values()}))
        if late := _rows(packed, "late"):
            self.late += len(late)
            packed += self._late(late)
        after = _rows(packed, "corrected_to")
        stood = [self._points[point["push_id"], point["point_index"]] for point in after]
        corrections = list(zip(stood, _rows(packed, "corrected_from"), after, strict=True))
        for point in [*after, *_rows(packed, "marked")]:
            self._points[point["push_id"], point["point_index"]] = point
        self.corrected += len(corrections)
        if cut_off_before == "series":
            return corrections
        for row in _rows(packed, "series"):
            key = (*instance(row), row["series_key"])
            if key not in self._series or _order(self._series[key]) < _order(row):
                self._series[key] = row
        if cut_off_before == "pushes":
            return corrections
        self._read |= new.keys()
        return corrections

    def _late(self, late: list[Row]) -> list[Row]:
        ends: dict[tuple[str, ...], list[datetime]] = {}
        for row in late:
            ends.setdefault(instance(row), []).append(row["received_at"])
        own = {row["push_id"] for row in late}
        before, standing = [], []
        for point in self._points.values():
            times = ends.get(instance(point))
            if times is None or point["push_id"] in own:
                continue
            if min(times) - _HORIZON < point["received_at"] < min(times):
                before.append(point)
            elif min(times) <= point["received_at"] < max(times) + _HORIZON:
                standing.append(point)
        points = pa.RecordBatch.from_pylist(before, schema=POINT_ROWS)
        last = [row for rows in LastOfSeries()([points]) for row in rows.to_pylist()]
        return self._made(late, _lists(last), standing)

    def _remembered(self, instances: set[tuple[str, ...]]) -> list[Row]:
        return _lists([row for row in self._series.values() if instance(row) in instances])

    def _made(self, pushes: list[Row], remembered: list[Row], standing: Sequence[Row] = ()) -> list[Row]:
        at = [{name: point[name] for name in (*INSTANCE, "received_at", "push_id")} for point in standing]
        rows = [*pushes, *remembered]
        rows += [{**keys, "standing": point} for keys, point in zip(at, standing, strict=True)]
        rows.sort(key=lambda row: (*instance(row), row.get("received_at") or _LONG_AGO, row.get("push_id") or ""))
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        pieces = [batch.slice(start, self._rows_at_once) for start in range(0, len(batch), self._rows_at_once)]
        return [row for packed in MakeBatch(InRows())(pieces) for row in packed.to_pylist()]


def _lists(series: Iterable[Row]) -> list[Row]:
    of_instance: dict[tuple[str, ...], list[Row]] = {}
    for row in series:
        of_instance.setdefault(instance(row), []).append({field.name: row[field.name] for field in REMEMBERED})
    return [
        dict(zip(INSTANCE, of, strict=True)) | {"remembered": sorted(rows, key=_order)}
        for of, rows in of_instance.items()
    ]


def _order(row: Row) -> tuple[Any, ...]:
    return row["received_at"], row["push_id"], row["point_index"]


def _rows(packed: Iterable[Row], column: str) -> list[Row]:
    return [row for one in packed if one[column] for row in pa.ipc.open_stream(one[column]).read_all().to_pylist()]
