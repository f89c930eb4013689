"""The exporters' durable cursors: one row an exporter in a database of their own, beside the segments.

One name has one live reader: opening another counts the row's epoch up, and the older one's commit is refused. What
retention takes from an exporter is counted here, in the transaction that moves its cursor; what is on its way to the
destination just then, when it is known to be lost (see `doubts`). No count ever falls.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from push_log.embedded.kept_database import open_kept, transaction
from push_log.embedded.pending_losses import CREATE as CREATE_DOUBTS
from push_log.embedded.pending_losses import Doubts, LossCause
from push_log.embedded.position import END, START, Extent, Position
from push_log.embedded.segment import translated
from push_log.log import CursorRevokedError, PushLogError

log = structlog.get_logger(__name__)

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

_MIGRATIONS: Final = (CREATE_DOUBTS,)
"""From form 0 to 1; see `open_kept`."""


class Claim(NamedTuple):
    """What a reader got: where it goes on, and the epoch that its commits must name."""

    position: Position
    epoch: int


class CursorState(NamedTuple):
    """One exporter's row. Counts run over the exporter's whole life.

    `lost_by_retention` are records dropped unread for age or size, `lost_by_damage` those of damaged segments as far
    as they could be counted.
    """

    exporter: str
    position: Position
    delivered_records: int
    delivered_bytes: int
    lost_by_retention: int
    lost_by_damage: int


class Cursors:
    """The cursors of one log; for one thread. Many processes may have it open."""

    def __init__(self, directory: Path) -> None:
        """Opens the database, makes it when it is missing, sets a damaged one aside (delivery then starts over)."""
        self._path = directory / NAME
        self._connection = open_kept(
            self._path,
            f"{_CREATE}; {CREATE_DOUBTS}",
            _MIGRATIONS,
            check="SELECT sum(epoch) FROM cursors",
            consequence="exporters start at the oldest record",
        )
        self._doubts = Doubts(self._connection)

    def claim(self, exporter: str, start: Position = START) -> Claim:
        """Takes an exporter's cursor over, or begins it at `start`. What an earlier reader had in hand is lost."""
        with self._transaction():
            self._connection.execute(
                "INSERT INTO cursors (exporter, segment, row) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (exporter, *start),
            )
            [(segment, row, epoch)] = self._rows(
                "UPDATE cursors SET epoch = epoch + 1 WHERE exporter = ? RETURNING segment, row, epoch", (exporter,)
            )
            self._lose(exporter, self._doubts.decide(exporter, END, ()))
        return Claim(Position(segment, row), epoch)

    def commit(self, exporter: str, epoch: int, target: Position, extents: Sequence[Extent]) -> Position:
        """Moves a cursor forward to `target` over `extents`; returns where it is then.

        Where retention passed the cursor meanwhile, this decides what of it is lost.

        Raises:
            CursorRevokedError: `epoch` is no longer the cursor's.
        """
        with self._transaction():
            found = self._rows("SELECT segment, row FROM cursors WHERE exporter = ? AND epoch = ?", (exporter, epoch))
            if not found:
                raise CursorRevokedError(f"another reader took over the cursor of exporter {exporter}")
            before = Position(*found[0])
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
            self._lose(exporter, self._doubts.decide(exporter, target, extents))
        return after

    def drop(self, segment: int, last_row: int, cause: LossCause, in_flight: Mapping[str, Position]) -> dict[str, int]:
        """Moves every cursor before the segment's end to it; returns how many records each exporter lost.

        Args:
            segment: its number.
            last_row: its last row.
            cause: why it goes.
            in_flight: how far each exporter has polled: up to there, it is not yet known what is lost.
        """
        with self._transaction():
            behind = self._rows(
                "SELECT exporter, CASE WHEN segment = ? THEN row ELSE 0 END FROM cursors WHERE (segment, row) < (?, ?)",
                (segment, segment, last_row),
            )
            lost = {}
            for exporter, row in behind:
                unread = Extent(segment, row + 1, last_row)
                in_hand = unread.up_to(in_flight.get(exporter, START))
                self._doubts.add(exporter, in_hand, cause)
                lost[exporter] = unread.rows - in_hand.rows
            self._connection.executemany(
                f"UPDATE cursors SET segment = ?, row = ?, lost_by_{cause} = lost_by_{cause} + ? "  # noqa: S608  our own
                "WHERE exporter = ?",
                [(segment, last_row, records, exporter) for exporter, records in lost.items()],
            )
        return lost

    def give_up(self, in_flight: Mapping[str, Position]) -> dict[str, int]:
        """Counts what was in doubt and is in nobody's hand any more; returns how many records each exporter lost."""
        given_up: dict[str, int] = {}
        with translated(self._path):
            in_doubt = self._doubts.exporters()
        if not in_doubt:
            return given_up
        with self._transaction():
            for exporter in in_doubt:
                lost = self._doubts.give_up(exporter, in_flight.get(exporter, START))
                self._lose(exporter, lost)
                given_up[exporter] = lost.total()
        return given_up

    def states(self) -> tuple[CursorState, ...]:
        """Every cursor, by name."""
        with translated(self._path):
            rows = self._rows(
                "SELECT exporter, segment, row, delivered_records, delivered_bytes, lost_by_retention, lost_by_damage "
                "FROM cursors ORDER BY exporter"
            )
        return tuple(CursorState(row[0], Position(row[1], row[2]), *row[3:]) for row in rows)

    def position(self, exporter: str) -> Position:
        """Where a cursor is: `START` for an exporter that has none."""
        with translated(self._path):
            found = self._rows("SELECT segment, row FROM cursors WHERE exporter = ?", (exporter,))
        return Position(*found[0]) if found else START

    def forget(self, exporter: str) -> bool:
        """Removes a cursor: its reader is revoked, a later one starts as a new exporter. False when there is none."""
        with self._transaction():
            self._doubts.forget(exporter)
            self._connection.execute("DELETE FROM cursors WHERE exporter = ?", (exporter,))
            return self._connection.changes() > 0

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()

    def _rows(self, statement: str, bindings: tuple[int | str, ...] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, bindings).fetchall()

    def _lose(self, exporter: str, lost: Mapping[LossCause, int]) -> None:
        """Counts records that were in doubt."""
        for cause, records in lost.items():
            self._connection.execute(
                f"UPDATE cursors SET lost_by_{cause} = lost_by_{cause} + ? WHERE exporter = ?",  # noqa: S608  our own
                (records, exporter),
            )
            log.warning(
                "pushes that were on their way when their segment went are lost",
                exporter=exporter,
                records=records,
                cause=cause,
            )

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._connection, self._path)


def highest_segment(directory: Path) -> int:
    """The highest segment that any cursor names; 0 when there is none, or it cannot be told."""
    if not (directory / NAME).exists():
        return 0
    try:
        with closing(Cursors(directory)) as cursors:
            return max((state.position.segment for state in cursors.states()), default=0)
    except PushLogError as error:
        log.warning("the cursors of the push log cannot be read", reason=str(error))
        return 0
