"""Positions in the embedded log: segment and row, and their text form, which sorts in the log's order."""

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{20})-(\d{10})")


class Position(NamedTuple):
    """The position of a record. Rows of a segment are numbered from 1 without gaps; row 0 is before the first.

    >>> str(Position(1, 42))
    '00000000000000000001-0000000042'
    """

    segment: int
    row: int

    def __str__(self) -> str:
        return f"{self.segment:020d}-{self.row:010d}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Parses the text form.

        Raises:
            ValueError: the text is malformed.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a position of the push log")
        return cls(int(match[1]), int(match[2]))


START = Position(0, 0)
"""Before the oldest record."""
END = Position((1 << 63) - 1, 0)
"""After the newest record."""


class Extent(NamedTuple):
    """Consecutive rows of one segment; empty if `last_row` is before `first_row`.

    In an extent that was polled, `delivered` is the number of readable rows, and `size_bytes` their decompressed size.
    """

    segment: int
    first_row: int
    last_row: int
    delivered: int = 0
    size_bytes: int = 0

    @property
    def rows(self) -> int:
        """Number of rows.

        >>> Extent(1, 3, 7).rows
        5
        """
        return max(0, self.last_row - self.first_row + 1)

    def up_to(self, position: Position) -> "Extent":
        """The rows at or before `position`, without the values of a poll.

        >>> Extent(4, 3, 7).up_to(Position(4, 5))[:3]
        (4, 3, 5)
        """
        last = self.last_row if position.segment > self.segment else min(self.last_row, _row(position, self.segment))
        return Extent(self.segment, self.first_row, last)

    def after(self, position: Position) -> "Extent":
        """The rows after `position`, without the values of a poll.

        >>> Extent(4, 3, 7).after(Position(4, 5))[:3]
        (4, 6, 7)
        """
        return Extent(self.segment, self.first_row + self.up_to(position).rows, self.last_row)

    def rows_in_common(self, other: "Extent") -> int:
        """Number of rows in both extents.

        >>> Extent(4, 3, 7).rows_in_common(Extent(4, 6, 9))
        2
        """
        if self.segment != other.segment:
            return 0
        return Extent(self.segment, max(self.first_row, other.first_row), min(self.last_row, other.last_row)).rows


def _row(position: Position, segment: int) -> int:
    return position.row if position.segment == segment else 0
