"""Records that retention or damage took away while they were being delivered: lost or not, their reader decides.

A reader may have polled records of a segment that is dropped before they are committed. They are kept here, beside the
cursors, until the reader's commit says that they were delivered, or nobody can deliver them any more. Only then are
they counted as lost: a count that was taken back would fall, and a counter that falls reads as one that began anew.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import apsw

from push_log.embedded.position import Extent, Position

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


class _Doubt(NamedTuple):
    id: int
    extent: Extent
    cause: LossCause


class Doubts:
    """The table of doubts, within the transactions of its caller."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def add(self, exporter: str, extent: Extent, cause: LossCause) -> None:
        """Keeps records that were dropped while `exporter` delivers them."""
        if extent.rows:
            self._connection.execute(
                "INSERT INTO doubts VALUES (?, ?, ?, ?, ?)",
                (exporter, extent.segment, extent.first_row, extent.last_row, cause),
            )

    def decide(self, exporter: str, target: Position, delivered: Sequence[Extent]) -> Counter[LossCause]:
        """What is lost by a commit to `target`: of the records up to it, all that are not among those `delivered`."""
        lost: Counter[LossCause] = Counter()
        for doubt in self._of(exporter):
            decided = doubt.extent.up_to(target)
            if decided.rows:
                self._replace(exporter, doubt, doubt.extent.after(target))
                lost[doubt.cause] += decided.rows - sum(decided.rows_in_common(extent) for extent in delivered)
        return +lost

    def give_up(self, exporter: str, polled_to: Position) -> Counter[LossCause]:
        """What is lost since nobody has it in hand: the records after `polled_to`."""
        lost: Counter[LossCause] = Counter()
        for doubt in self._of(exporter):
            beyond = doubt.extent.after(polled_to)
            if beyond.rows:
                self._replace(exporter, doubt, doubt.extent.up_to(polled_to))
                lost[doubt.cause] += beyond.rows
        return lost

    def forget(self, exporter: str) -> None:
        """Removes what is kept for an exporter that is no more."""
        self._connection.execute("DELETE FROM doubts WHERE exporter = ?", (exporter,))

    def exporters(self) -> list[str]:
        """Those for whom something is kept."""
        found = self._connection.execute("SELECT DISTINCT exporter FROM doubts")
        return [name for (name,) in cast(Iterator[tuple[str]], found)]

    def _of(self, exporter: str) -> list[_Doubt]:
        found = self._connection.execute(
            "SELECT rowid, segment, first_row, last_row, cause FROM doubts WHERE exporter = ?", (exporter,)
        )
        return [_Doubt(row[0], Extent(*row[1:4]), row[4]) for row in cast(Iterator[tuple[Any, ...]], found)]

    def _replace(self, exporter: str, doubt: _Doubt, rest: Extent) -> None:
        self._connection.execute("DELETE FROM doubts WHERE rowid = ?", (doubt.id,))
        self.add(exporter, rest, doubt.cause)
