"""A sealed segment as retention sees it: its end, and whether it is truncated."""

from typing import NamedTuple

from push_log.embedded.position import Position
from push_log.embedded.segment import Tail


class SealedSegment(NamedTuple):
    """A sealed segment.

    `tail` is None while it cannot be read but is not known to be damaged. `written` is the number of rows that were
    written to it; 0 if unknown.
    """

    number: int
    tail: Tail | None
    written: int

    @property
    def last_row(self) -> int:
        """The last row that was written, as far as known."""
        return max(self.written, 0 if self.tail is None else self.tail.row)

    @property
    def is_short(self) -> bool:
        """True if it is truncated: it has fewer rows than were written."""
        return self.tail is not None and self.tail.row < self.written

    def is_passed_by(self, position: Position) -> bool:
        """True if it has no row after `position`; while its end is unknown, if `position` is in a later segment."""
        if self.tail is None and not self.written:
            return position.segment > self.number
        return not self.last_row or (self.number, self.last_row) <= position
