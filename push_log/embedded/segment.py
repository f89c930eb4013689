"""One segment of the embedded log: an SQLite file with one row a push. Its form, and how it is read.

A segment is *prepared* (the next one, empty), then the *head* (opened, takes rows), then *sealed* (a later one was
opened; it never changes again). Rows are numbered from 1 without gaps. `end_bytes` is a running total of decompressed
metrics, so that the bytes between two rows are one subtraction. When a segment is opened it notes how many rows the one
before it got: what is missing there later is damage, and is counted.

`PRAGMA user_version` is the number of the form, and `FORMS` says what each holds. A segment never changes its form: one
of an older release is read as it is, what it lacks being None, and goes with the log's retention. So an upgrade moves
nothing, and is as safe as any restart. A segment of a newer release is no damaged one: it is refused, and left alone.

Trap: POSIX locks belong to the process, and closing any descriptor of a file drops them. Nothing but SQLite may open
these files in a process that uses them.
"""

import errno
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import apsw

from push_log.log import PushLogError, PushLogFullError
from telemetry.push_record import PushRecord

_CONTEXT: Final = PushRecord._fields[:-1]
_TERMINATING: Final = _CONTEXT.index("terminating")

_PAYLOAD: Final = ("metrics", "encoding", "metrics_bytes", "end_bytes")
_COLUMNS: Final = ("row", *_CONTEXT, *_PAYLOAD)

FORM: Final = 1
"""The form that is written. A new field of the push record, or another column, makes the next one."""
_FORM_0: Final = (
        "row", "push_id", "received_at", "receiver_node_id", "cluster_id", "listener", "client_instance_id",
        "client_id", "client_software_name", "client_software_version", "client_source_address",
        "client_source_port", "principal", "subscription_id", "push_interval_ms", "terminating",
        "compression_type", "payload_bytes", "schema_version", *_PAYLOAD,
)  # fmt: skip
FORMS: Final[Mapping[int, tuple[str, ...]]] = {0: _FORM_0, 1: _FORM_0}
"""The columns of every form that was ever written. What is here is never changed: it is on somebody's disk.

From form 1 on, a segment notes its predecessor.
"""

CREATE: Final = f"""
PRAGMA user_version = {FORM};
CREATE TABLE segment (opened_at INTEGER, predecessor INTEGER, predecessor_rows INTEGER);
INSERT INTO segment DEFAULT VALUES;
CREATE TABLE pushes ({", ".join(_COLUMNS).replace("row", "row INTEGER PRIMARY KEY", 1)});
"""
OPEN: Final = "UPDATE segment SET opened_at = ?, predecessor = ?, predecessor_rows = ?"
INSERT: Final = f"INSERT INTO pushes VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608  question marks
_LAST: Final = "SELECT row, end_bytes, received_at FROM pushes ORDER BY row DESC LIMIT 1"

UNFINISHED: Final = ".new"
_BUSY_MS: Final = 1_000


class SegmentCorruptError(PushLogError):
    """The file is damaged, or no segment at all."""


class SegmentGoneError(PushLogError):
    """The file is not there (any more)."""


class NewerFormError(PushLogError):
    """A file of a form that only a newer release knows.

    Attributes:
        path: the file.
        form: its number.
    """

    def __init__(self, path: Path, form: int) -> None:
        super().__init__(
            f"{path} was written by a newer Fleetgauge (form {form}): run that release again, or move the file away"
        )
        self.path = path
        self.form = form


class Tail(NamedTuple):
    """The last row of a segment; all 0 when it has none."""

    row: int
    end_bytes: int
    received_at: int


class Predecessor(NamedTuple):
    """What a segment notes of the head before it: its number, and how many rows it got."""

    number: int
    rows: int


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
    """Turns the errors of SQLite and of the system into the push log's own, with the file named."""
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
        if extended == apsw.SQLITE_IOERR_SHORT_READ:
            raise SegmentCorruptError(f"{path} is damaged: its write-ahead log is cut short") from error
        if isinstance(error, apsw.IOError) and extended != apsw.SQLITE_IOERR_SHMSIZE:
            raise PushLogError(f"{path}: {error}") from error
        raise PushLogFullError(f"no room left on the disk of {path.parent}: {error}") from error
    except apsw.CantOpenError as error:
        kind = SegmentGoneError if not path.exists() else PushLogError
        raise kind(f"{path} cannot be opened: {error}") from error
    except OSError as error:
        kind = PushLogFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else PushLogError
        raise kind(f"{path}: {error.strerror}") from error
    except apsw.Error as error:
        raise PushLogError(f"{path}: {error}") from error


class SegmentReader:
    """A read-only connection to one segment, for one thread. Any segment may be read, the head while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _refuse_empty(path)
        with translated(path):
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            self._connection.set_busy_timeout(_BUSY_MS)
            # The last one to close a file would checkpoint it, in the way of whoever writes.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._select: str | None = None

    def is_opened(self) -> bool:
        """True once the segment was made the head; a prepared one is not."""
        with self._reading():
            return self._connection.execute("SELECT opened_at FROM segment").get is not None

    def predecessor(self) -> Predecessor | None:
        """What it notes of the one before it; None for the first one, a prepared one, and one of form 0."""
        with self._reading():
            if self._form() < 1:
                return None
            found = self._connection.execute(
                "SELECT predecessor, predecessor_rows FROM segment WHERE predecessor IS NOT NULL"
            )
            noted = next(cast(Iterator[tuple[int, int]], found), None)
        return None if noted is None else Predecessor(*noted)

    def tail(self) -> Tail:
        """The last committed row."""
        with self._reading():
            last = self._connection.execute(_LAST).get
        return EMPTY if last is None else Tail(*last)

    def end_bytes(self, row: int) -> int:
        """The running total at `row`; 0 for row 0."""
        with self._reading():
            return cast(int, self._connection.execute("SELECT end_bytes FROM pushes WHERE row = ?", (row,)).get or 0)

    def received_at(self, row: int) -> int:
        """When the record at `row` was received [us since the epoch]; 0 when there is no such row."""
        with self._reading():
            return cast(int, self._connection.execute("SELECT received_at FROM pushes WHERE row = ?", (row,)).get or 0)

    def rows(self, after: int, last: int) -> Generator[StoredRow]:
        """The rows after `after` up to `last`, in order. Close the generator: an open one holds a snapshot."""
        end = 1 + len(_CONTEXT)
        with self._reading():
            if self._select is None:
                self._select = self._select_of_form()
            cursor = self._connection.execute(self._select, (after, last))
            try:
                for values in cast(Iterator[tuple[Any, ...]], cursor):
                    yield StoredRow(values[0], values[1:end], *values[end:-1])
            finally:
                cursor.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """`translated`; and a database without our tables is damaged, since a segment gets its name when it is whole.

        Raises:
            SegmentCorruptError, NewerFormError: instead of SQLite's complaint about the query.
        """
        with translated(self.path):
            try:
                yield
            except apsw.SQLError as error:
                self._form()
                raise SegmentCorruptError(f"{self.path} is damaged: {error}") from error

    def _form(self) -> int:
        form = cast(int, self._connection.execute("PRAGMA user_version").get or 0)
        if form not in FORMS:
            raise NewerFormError(self.path, form)
        return form

    def _select_of_form(self) -> str:
        return select_rows(FORMS[self._form()])

    def close(self) -> None:
        """Ends reading."""
        self._connection.close()


def _refuse_empty(path: Path) -> None:
    """SQLite takes an empty file for an empty database, and deletes its write-ahead log, which may hold every row.

    Raises:
        SegmentCorruptError: it is one.
    """
    try:
        is_empty = path.stat().st_size == 0
    except OSError:
        return  # SQLite says what is wrong
    if is_empty:
        raise SegmentCorruptError(f"{path} is damaged: it is empty")


def select_rows(columns: Collection[str]) -> str:
    """The query for the rows of a segment with these columns, in today's order; what it lacks is NULL.

    >>> select_rows([name for name in FORMS[0] if name != "listener"])[:75]
    'SELECT row, push_id, received_at, receiver_node_id, cluster_id, NULL, clien'
    """
    wanted = ", ".join(name if name in columns else "NULL" for name in _COLUMNS)
    return f"SELECT {wanted} FROM pushes WHERE row > ? AND row <= ? ORDER BY row"  # noqa: S608  names of our own


@contextmanager
def opened(path: Path) -> Iterator[SegmentReader]:
    """A `SegmentReader` for one look."""
    reader = SegmentReader(path)
    try:
        yield reader
    finally:
        reader.close()
