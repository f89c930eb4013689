"""A segment that is written no more, as upkeep sees it: where it ends, and what it has lost."""

from typing import NamedTuple

from push_log.embedded.position import Position
from push_log.embedded.segment import Tail


class SealedSegment(NamedTuple):
    """What upkeep goes by.

    `tail` is None while it cannot be read, though it is not known to be damaged. `written` are the rows that it got; 0
    if nobody knows.
    """

    number: int
    tail: Tail | None
    written: int

    @property
    def last_row(self) -> int:
        """The last row that it got, as far as can be told."""
        return max(self.written, 0 if self.tail is None else self.tail.row)

    @property
    def is_short(self) -> bool:
        """True if it is damaged so that it reads as a shorter one."""
        return self.tail is not None and self.tail.row < self.written

    def is_passed_by(self, position: Position) -> bool:
        """True once nothing of it lies after `position`. Where its end is not known: once that is in a later one."""
        if self.tail is None and not self.written:
            return position.segment > self.number
        return not self.last_row or (self.number, self.last_row) <= position
