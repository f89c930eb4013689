"""Records that were deleted for retention or damage while they were in flight: lost only if not delivered.

A reader may have polled records of a segment that is deleted before they are committed. They are kept here, beside the
cursors, until the reader's commit shows that they were delivered, or no reader can deliver them any more. Only then are
they counted as lost: a counter that was corrected downwards would look like a restarted one.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import apsw

from fleetgauge.push_log.embedded.position import Extent, Position

LossCause = Literal["retention", "damage"]

CREATE: Final = """
CREATE TABLE doubts (
    exporter TEXT NOT NULL,
    segment INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    cause TEXT NOT NULL
)
"""


class _PendingLoss(NamedTuple):
    id: int
    extent: Extent
    cause: LossCause


class PendingLosses:
    """The table of pending losses (`doubts` on disk), used within the transactions of `Cursors`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def add(self, exporter: str, extent: Extent, cause: LossCause) -> None:
        """Adds records that are deleted while `exporter` delivers them."""
        if extent.rows:
            self._connection.execute(
                "INSERT INTO doubts VALUES (?, ?, ?, ?, ?)",
                (exporter, extent.segment, extent.first_row, extent.last_row, cause),
            )

    def resolve(self, exporter: str, target: Position, delivered: Sequence[Extent]) -> Counter[LossCause]:
        """Removes the records up to `target`, and returns how many of them are not in `delivered` and so are lost."""
        lost: Counter[LossCause] = Counter()
        for pending in self._of(exporter):
            resolved = pending.extent.up_to(target)
            if resolved.rows:
                self._replace(exporter, pending, pending.extent.after(target))
                lost[pending.cause] += resolved.rows - sum(resolved.rows_in_common(extent) for extent in delivered)
        return +lost

    def give_up(self, exporter: str, polled_to: Position) -> Counter[LossCause]:
        """Removes the records after `polled_to`, which no reader has in flight; returns how many are lost."""
        lost: Counter[LossCause] = Counter()
        for pending in self._of(exporter):
            beyond = pending.extent.after(polled_to)
            if beyond.rows:
                self._replace(exporter, pending, pending.extent.up_to(polled_to))
                lost[pending.cause] += beyond.rows
        return lost

    def forget(self, exporter: str) -> None:
        """Removes all records of an exporter whose cursor is removed."""
        self._connection.execute("DELETE FROM doubts WHERE exporter = ?", (exporter,))

    def exporters(self) -> list[str]:
        """The exporters with pending losses."""
        return [str(name) for (name,) in self._connection.execute("SELECT DISTINCT exporter FROM doubts")]

    def _of(self, exporter: str) -> list[_PendingLoss]:
        rows: list[tuple[Any, ...]] = self._connection.execute(
            "SELECT rowid, segment, first_row, last_row, cause FROM doubts WHERE exporter = ?", (exporter,)
        ).fetchall()
        return [_PendingLoss(row[0], Extent(*row[1:4]), row[4]) for row in rows]

    def _replace(self, exporter: str, pending: _PendingLoss, rest: Extent) -> None:
        self._connection.execute("DELETE FROM doubts WHERE rowid = ?", (pending.id,))
        self.add(exporter, rest, pending.cause)
