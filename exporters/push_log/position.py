"""Where a record lies in the embedded log: segment and row, and the text that sorts as the log does."""

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{20})-(\d{10})")


class Position(NamedTuple):
    """A record's place. Rows of a segment are numbered from 1 without gaps; row 0 is before the first.

    >>> str(Position(1, 42))
    '00000000000000000001-0000000042'
    """

    segment: int
    row: int

    def __str__(self) -> str:
        return f"{self.segment:020d}-{self.row:010d}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Reads the text form.

        Raises:
            ValueError: the text is no position.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no position of the push log")
        return cls(int(match[1]), int(match[2]))


START = Position(0, 0)
"""Before the oldest record, whatever its number."""
