"""Silver: stored points whose marks change after a late push."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleetgauge.fleet.arrow import Array, RecordBatch, Table, pa, pc
from fleetgauge.fleet.schemas import POINTS, encoded
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.parquet_files import WriteFiles
from fleetgauge.fleet.tables.written_file import WrittenFile

MARKS: Final = ("delta", "delta_sum", "reset", "gap", "covers_gap", "before_subscription")
"""The columns of POINTS that a late push may change."""

_POINTS: Final = encoded(POINTS)

CORRECTED: Final = pa.schema(
    [POINTS.field(name) for name in (*catalog.POINTS.key, "received_at", "client_instance_id", *MARKS)]
)
"""POINTS with changed marks: the key to find them, and their new marks."""


def files_with(points: Snapshot, corrected: Table) -> list[str]:
    """Files that may have some of the points, by their statistics in the log."""
    condition = pc.field("date").isin(pc.unique(corrected["date"]))
    for name in ("received_at", "client_instance_id"):
        ends = pc.min_max(corrected[name])
        condition = condition & (pc.field(name) >= ends["min"]) & (pc.field(name) <= ends["max"])
    return points.paths(condition)


@dataclass(frozen=True, slots=True)
class Correct:
    """Rewrites a file of POINTS with new marks; a task.

    Attributes:
        points: the table, in the columns of `encoded(POINTS)`.
        write: where to.
        corrected: rows of CORRECTED.
    """

    points: Snapshot
    write: WriteFiles
    corrected: Table

    def __call__(self, path: str) -> Sequence[WrittenFile]:
        """The files that replace it; none if it has none of the points."""
        ids = pc.unique(self.corrected["push_id"])
        keys = _keys(self.corrected).combine_chunks()
        near = self.points.scan(["push_id", "point_index"], pc.field("push_id").isin(ids), [path])
        if not any(pc.any(pc.is_in(_keys(rows), value_set=keys)).as_py() for rows in near):
            return []
        with self.write.open() as writer:
            for rows in self.points.scan(POINTS.names, None, [path]):
                writer.write(_with_marks(rows, pc.index_in(_keys(rows), value_set=keys), self.corrected))
            return writer.take_all()


def _keys(rows: RecordBatch | Table) -> Array:
    return pc.binary_join_element_wise(rows["push_id"].cast(pa.string()), rows["point_index"].cast(pa.string()), " ")


def _with_marks(rows: RecordBatch, place: Array, corrected: Table) -> RecordBatch:
    columns = {field.name: rows.column(field.name) for field in _POINTS}
    for name in MARKS:
        said = corrected[name].combine_chunks().take(place)
        columns[name] = pc.if_else(place.is_valid(), said, columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=_POINTS)
