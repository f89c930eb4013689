"""One segment of the embedded log: an SQLite file with one row a push. Its form, and how it is read.

A segment is *prepared* (the next one, empty), then the *head* (opened, takes rows), then *sealed* (a later one was
opened; it never changes again). Rows are numbered from 1 without gaps. `end_bytes` is a running total of decompressed
metrics, so that the bytes between two rows are one subtraction.

Trap: POSIX locks belong to the process, and closing any descriptor of a file drops them. Nothing but SQLite may open
these files in a process that uses them.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import apsw

from exporters.push_log.log import PushLogError, PushLogFullError
from telemetry.push_record import PushRecord

_CONTEXT: Final = PushRecord._fields[:-1]
_TERMINATING: Final = _CONTEXT.index("terminating")

_COLUMNS: Final = ("row", *_CONTEXT, "metrics", "encoding", "metrics_bytes", "end_bytes")

CREATE: Final = f"""
CREATE TABLE segment (opened_at INTEGER);
INSERT INTO segment VALUES (NULL);
CREATE TABLE pushes ({", ".join(_COLUMNS).replace("row", "row INTEGER PRIMARY KEY", 1)});
"""  # noqa: S608  names of our own
INSERT: Final = f"INSERT INTO pushes VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608  question marks
_SELECT: Final = "SELECT * FROM pushes WHERE row > ? AND row <= ? ORDER BY row"
_LAST: Final = "SELECT row, end_bytes, received_at FROM pushes ORDER BY row DESC LIMIT 1"

UNFINISHED: Final = ".new"
_BUSY_MS: Final = 1_000


class SegmentCorruptError(PushLogError):
    """The file is damaged, or no segment at all."""


class SegmentGoneError(PushLogError):
    """The file is not there (any more)."""


class Tail(NamedTuple):
    """The last row of a segment; all 0 when it has none."""

    row: int
    end_bytes: int
    received_at: int


class StoredRow(NamedTuple):
    """A row as read: the record's context, and the payload in the form in which it was stored."""

    row: int
    context: tuple[Any, ...]
    metrics: bytes
    encoding: str | None
    metrics_bytes: int

    def record(self, metrics: bytes) -> PushRecord:
        """The push record, with its payload decompressed by the caller."""
        values = list(self.context)
        values[_TERMINATING] = bool(values[_TERMINATING])
        return PushRecord._make((*values, metrics))


EMPTY: Final = Tail(0, 0, 0)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into the push log's own, with the file named."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise SegmentCorruptError(f"{path} is damaged: {error}") from error
    except (apsw.FullError, apsw.IOError) as error:
        extended = getattr(error, "extendedresult", 0)  # missing in apsw's type information
        if extended == apsw.SQLITE_IOERR_FSTAT and not path.exists():
            # SQLite opens a database first and its write-ahead log with the first query, for which it asks for the mode
            # of the database by its name: that name was taken away in between.
            raise SegmentGoneError(f"{path} is gone: {error}") from error
        if isinstance(error, apsw.IOError) and extended != apsw.SQLITE_IOERR_SHMSIZE:
            raise PushLogError(f"{path}: {error}") from error
        raise PushLogFullError(f"no room left on the disk of {path.parent}: {error}") from error
    except apsw.CantOpenError as error:
        kind = SegmentGoneError if not path.exists() else PushLogError
        raise kind(f"{path} cannot be opened: {error}") from error
    except apsw.Error as error:
        raise PushLogError(f"{path}: {error}") from error


class SegmentReader:
    """A read-only connection to one segment, for one thread. Any segment may be read, the head while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with translated(path):
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            self._connection.set_busy_timeout(_BUSY_MS)
            # The last one to close a file would checkpoint it, in the way of whoever writes.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def is_opened(self) -> bool:
        """True once the segment was made the head; a prepared one is not."""
        with translated(self.path):
            tables = self._connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'pushes'").get
            if not tables:
                return False
            return self._connection.execute("SELECT opened_at FROM segment").get is not None

    def tail(self) -> Tail:
        """The last committed row."""
        with translated(self.path):
            last = self._connection.execute(_LAST).get
        return EMPTY if last is None else Tail(*last)

    def end_bytes(self, row: int) -> int:
        """The running total at `row`; 0 for row 0."""
        with translated(self.path):
            return cast(int, self._connection.execute("SELECT end_bytes FROM pushes WHERE row = ?", (row,)).get or 0)

    def received_at(self, row: int) -> int:
        """When the record at `row` was received [us since the epoch]; 0 when there is no such row."""
        with translated(self.path):
            return cast(int, self._connection.execute("SELECT received_at FROM pushes WHERE row = ?", (row,)).get or 0)

    def rows(self, after: int, last: int) -> Generator[StoredRow]:
        """The rows after `after` up to `last`, in order. Close the generator: an open one holds a snapshot."""
        end = 1 + len(_CONTEXT)
        with translated(self.path):
            cursor = self._connection.execute(_SELECT, (after, last))
            try:
                for values in cast(Iterator[tuple[Any, ...]], cursor):
                    yield StoredRow(values[0], values[1:end], *values[end:-1])
            finally:
                cursor.close()

    def close(self) -> None:
        """Ends reading."""
        self._connection.close()


@contextmanager
def opened(path: Path) -> Iterator[SegmentReader]:
    """A `SegmentReader` for one look."""
    reader = SegmentReader(path)
    try:
        yield reader
    finally:
        reader.close()


def row_values(
    row: int, record: PushRecord, metrics: bytes, encoding: str | None, end_bytes: int
) -> tuple[object, ...]:
    """What `INSERT` takes."""
    return (row, *record[:-1], metrics, encoding, len(record.metrics), end_bytes)
