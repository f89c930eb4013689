"""An input read as a little program: operations and their operands, one after the other; missing bytes are zero."""


class Program:
    """Reads an input from its beginning."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_left(self) -> bool:
        """True while there are bytes."""
        return self._at < len(self._data)

    def byte(self) -> int:
        """The next byte."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def take(self, count: int) -> bytes:
        """The next bytes, `count` or as many as there are."""
        self._at += count
        return self._data[self._at - count : self._at]

    def rest(self) -> bytes:
        """All that is left."""
        found = self._data[self._at :]
        self._at = len(self._data)
        return found
