"""The exporters' durable cursors: one row per exporter in a database beside the segments.

An exporter has one live reader: opening another one increments the row's epoch, and commits of the older one are
refused. Records that are lost to retention or damage are counted here, in the transaction that moves the cursor;
records that are in flight at that moment are counted once they are known to be lost (`pending_losses`). No count ever
falls.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.kept_database import open_kept, transaction
from fleetgauge.push_log.embedded.pending_losses import CREATE as CREATE_PENDING_LOSSES
from fleetgauge.push_log.embedded.pending_losses import LossCause, PendingLosses
from fleetgauge.push_log.embedded.position import END, START, Extent, Position
from fleetgauge.push_log.embedded.segment import translated
from fleetgauge.push_log.log import CursorRevokedError, PushLogError

log = get_logger(__name__)

NAME: Final = "cursors.db"
_CREATE: Final = """
CREATE TABLE cursors (
    exporter TEXT PRIMARY KEY,
    segment INTEGER NOT NULL,
    row INTEGER NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    delivered_records INTEGER NOT NULL DEFAULT 0,
    delivered_bytes INTEGER NOT NULL DEFAULT 0,
    lost_by_retention INTEGER NOT NULL DEFAULT 0,
    lost_by_damage INTEGER NOT NULL DEFAULT 0
)
"""

_MIGRATIONS: Final = (CREATE_PENDING_LOSSES,)
"""From schema version 0 to 1; see `open_kept`."""


class Claim(NamedTuple):
    """The position at which a reader continues, and the epoch of its commits."""

    position: Position
    epoch: int


class CursorState(NamedTuple):
    """One exporter's row, with totals since the exporter was first configured.

    `lost_by_retention` counts records that were deleted undelivered for age or size, `lost_by_damage` those of damaged
    segments as far as their number is known.
    """

    exporter: str
    position: Position
    delivered_records: int
    delivered_bytes: int
    lost_by_retention: int
    lost_by_damage: int


class Cursors:
    """The cursors of one log. Not thread-safe; several processes may open the same file."""

    def __init__(self, directory: Path) -> None:
        """Opens the database; creates a missing one, and sets a damaged one aside (delivery then starts over)."""
        self._path = directory / NAME
        self._connection = open_kept(
            self._path,
            f"{_CREATE}; {CREATE_PENDING_LOSSES}",
            _MIGRATIONS,
            check="SELECT sum(epoch) FROM cursors",
            consequence="exporters start at the oldest record",
        )
        self._pending = PendingLosses(self._connection)

    def claim(self, exporter: str, start: Position = START) -> Claim:
        """Takes over an exporter's cursor, or creates it at `start`. Pending losses of an earlier reader are lost."""
        with self._transaction():
            self._connection.execute(
                "INSERT INTO cursors (exporter, segment, row) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (exporter, *start),
            )
            [(segment, row, epoch)] = self._rows(
                "UPDATE cursors SET epoch = epoch + 1 WHERE exporter = ? RETURNING segment, row, epoch", (exporter,)
            )
            self._count_lost(exporter, self._pending.resolve(exporter, END, ()))
        return Claim(Position(segment, row), epoch)

    def commit(self, exporter: str, epoch: int, target: Position, extents: Sequence[Extent]) -> Position:
        """Moves a cursor forward to `target` over `extents`; returns its new position.

        Resolves the pending losses up to `target`.

        Raises:
            CursorRevokedError: `epoch` is no longer the cursor's.
        """
        with self._transaction():
            rows = self._rows("SELECT segment, row FROM cursors WHERE exporter = ? AND epoch = ?", (exporter, epoch))
            if not rows:
                raise CursorRevokedError(f"another reader took over the cursor of exporter {exporter}")
            before = Position(*rows[0])
            after = max(before, target)
            unreadable = sum(extent.rows - extent.delivered for extent in extents)
            self._connection.execute(
                "UPDATE cursors SET segment = ?, row = ?, delivered_records = delivered_records + ?, "
                "delivered_bytes = delivered_bytes + ?, lost_by_damage = lost_by_damage + ? WHERE exporter = ?",
                (
                    *after,
                    sum(extent.delivered for extent in extents),
                    sum(extent.size_bytes for extent in extents),
                    unreadable,
                    exporter,
                ),
            )
            self._count_lost(exporter, self._pending.resolve(exporter, target, extents))
        return after

    def drop(self, segment: int, last_row: int, cause: LossCause, in_flight: Mapping[str, Position]) -> dict[str, int]:
        """Moves every cursor before the segment's end to that end; returns the lost records by exporter.

        Args:
            segment: its number.
            last_row: its last row.
            cause: why it is deleted.
            in_flight: how far each exporter has polled: up to there, losses are pending.
        """
        with self._transaction():
            behind = self._rows(
                "SELECT exporter, CASE WHEN segment = ? THEN row ELSE 0 END FROM cursors WHERE (segment, row) < (?, ?)",
                (segment, segment, last_row),
            )
            lost = {}
            for exporter, row in behind:
                unread = Extent(segment, row + 1, last_row)
                polled = unread.up_to(in_flight.get(exporter, START))
                self._pending.add(exporter, polled, cause)
                lost[exporter] = unread.rows - polled.rows
            self._connection.executemany(
                f"UPDATE cursors SET segment = ?, row = ?, lost_by_{cause} = lost_by_{cause} + ? "  # noqa: S608  a constant
                "WHERE exporter = ?",
                [(segment, last_row, records, exporter) for exporter, records in lost.items()],
            )
        return lost

    def give_up(self, in_flight: Mapping[str, Position]) -> None:
        """Counts pending losses beyond what is in flight as lost."""
        with translated(self._path):
            exporters = self._pending.exporters()
        if not exporters:
            return
        with self._transaction():
            for exporter in exporters:
                self._count_lost(exporter, self._pending.give_up(exporter, in_flight.get(exporter, START)))

    def states(self) -> tuple[CursorState, ...]:
        """Every cursor, by name."""
        with translated(self._path):
            rows = self._rows(
                "SELECT exporter, segment, row, delivered_records, delivered_bytes, lost_by_retention, lost_by_damage "
                "FROM cursors ORDER BY exporter"
            )
        return tuple(CursorState(row[0], Position(row[1], row[2]), *row[3:]) for row in rows)

    def position(self, exporter: str) -> Position:
        """The position of a cursor; `START` for an exporter without one."""
        with translated(self._path):
            rows = self._rows("SELECT segment, row FROM cursors WHERE exporter = ?", (exporter,))
        return Position(*rows[0]) if rows else START

    def forget(self, exporter: str) -> bool:
        """Removes a cursor and revokes its reader; a later one starts as a new exporter. False if there is none."""
        with self._transaction():
            self._pending.forget(exporter)
            self._connection.execute("DELETE FROM cursors WHERE exporter = ?", (exporter,))
            return self._connection.changes() > 0

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()

    def _rows(self, statement: str, bindings: tuple[int | str, ...] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, bindings).fetchall()

    def _count_lost(self, exporter: str, lost: Mapping[LossCause, int]) -> None:
        for cause, records in lost.items():
            self._connection.execute(
                f"UPDATE cursors SET lost_by_{cause} = lost_by_{cause} + ? WHERE exporter = ?",  # noqa: S608  a constant
                (records, exporter),
            )
            log.warning(
                "push_log.in_flight_records_lost",
                message="they were in flight when their segment was deleted, and were not delivered",
                exporter=exporter,
                records=records,
                cause=cause,
            )

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._connection, self._path)


def highest_segment(directory: Path) -> int:
    """The highest segment number in any cursor; 0 if there is none, or the cursors are unreadable."""
    if not (directory / NAME).exists():
        return 0
    try:
        with closing(Cursors(directory)) as cursors:
            return max((state.position.segment for state in cursors.states()), default=0)
    except PushLogError as error:
        log.warning("push_log.cursors_unreadable", error=str(error))
        return 0
