"""One segment of the embedded log, an SQLite file with one row per push: its format and its reader.

A segment is *prepared* (the next one, empty), then the *head* (opened, being written), then *sealed* (a later one was
opened; read-only from then on). Rows are numbered from 1 without gaps. `end_bytes` is a running total of decompressed
metrics, so that the bytes between two rows are one subtraction. An opened segment stores the number of rows of its
predecessor: rows that are missing there later are damage, and are counted.

`PRAGMA user_version` is the format version; `FORMS` lists the columns of each. The format of a segment never changes:
one of an older release is read as it is, with None for missing columns, until retention deletes it. So an upgrade
migrates nothing, and is as safe as any restart. A segment of a newer release is not damaged: it is refused and kept.

Caution: POSIX locks belong to the process, and closing any descriptor of a file releases them. In a process that uses
these files, only SQLite may open them.
"""

import errno
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_type_hints

import apsw

from fleetgauge.push_log.log import PushLogError, PushLogFullError
from fleetgauge.telemetry.push_record import PushRecord

_CONTEXT: Final = PushRecord._fields[:-1]
_TYPES: Final = tuple(get_type_hints(PushRecord)[name] | None for name in _CONTEXT)
"""Types of a row's columns: None for each column that its format version lacks."""
_TERMINATING: Final = _CONTEXT.index("terminating")

_PAYLOAD: Final = ("metrics", "encoding", "metrics_bytes", "end_bytes")
_COLUMNS: Final = ("row", *_CONTEXT, *_PAYLOAD)

FORM: Final = 1
"""Current format version. A new field of the push record, or any other column, needs the next one."""
_FORM_0: Final = (
        "row", "push_id", "received_at", "receiver_node_id", "cluster_id", "listener", "client_instance_id",
        "client_id", "client_software_name", "client_software_version", "client_source_address",
        "client_source_port", "principal", "subscription_id", "push_interval_ms", "terminating",
        "compression_type", "payload_bytes", "schema_version", *_PAYLOAD,
)  # fmt: skip
FORMS: Final[Mapping[int, tuple[str, ...]]] = {0: _FORM_0, 1: _FORM_0}
"""Columns of every format version that was ever released. Entries never change, since such files exist on disks.

From version 1 on, a segment stores its predecessor.
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
    """The file is damaged, or not a segment."""


class SegmentGoneError(PushLogError):
    """The file does not exist (any more)."""


class NewerFormError(PushLogError):
    """The file has the format of a newer release.

    Attributes:
        path: the file.
        form: its format version.
    """

    def __init__(self, path: Path, form: int) -> None:
        super().__init__(
            f"{path} was written by a newer Fleetgauge (form {form}): run that release again, or move the file away"
        )
        self.path = path
        self.form = form


class Tail(NamedTuple):
    """The last row of a segment; all 0 if it has none."""

    row: int
    end_bytes: int
    received_at: int


class Predecessor(NamedTuple):
    """Number and row count of the previous head, as stored in a segment."""

    number: int
    rows: int


class StoredRow(NamedTuple):
    """A row as read: the record's context, empty if it cannot be read, and the payload as stored."""

    row: int
    context: tuple[Any, ...]
    metrics: bytes
    encoding: str | None
    metrics_bytes: int

    def record(self, metrics: bytes) -> PushRecord:
        """Returns the push record; `metrics` is the payload, decompressed by the caller.

        Raises:
            TypeError: a value cannot be read, or is of another type, as where bytes of the file were changed.
        """
        if not self.context:
            raise TypeError("its values cannot be read")
        values = list(self.context)
        values[_TERMINATING] = bool(values[_TERMINATING])
        for name, value, kind in zip(_CONTEXT, values, _TYPES, strict=True):
            if not isinstance(value, kind):
                raise TypeError(f"{name} is a {type(value).__name__}")
        return PushRecord._make((*values, metrics))


EMPTY: Final = Tail(0, 0, 0)


def _unreadable(row: int) -> StoredRow:
    return StoredRow(row, (), b"", None, 0)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Converts errors of SQLite and of the system to errors of the push log with the file's name."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:  # SQLite has no checksums of texts
        raise SegmentCorruptError(f"{path} is damaged: {error}") from error
    except (apsw.FullError, apsw.IOError) as error:
        extended = getattr(error, "extendedresult", 0)  # missing in apsw's type information
        if extended == apsw.SQLITE_IOERR_FSTAT and not path.exists():
            # SQLite opens the write-ahead log with the first query, and for that reads the mode of the database file by
            # name: the file was deleted after the database was opened.
            raise SegmentGoneError(f"{path} is gone: {error}") from error
        if extended == apsw.SQLITE_IOERR_SHORT_READ:
            raise SegmentCorruptError(f"{path} is damaged: its write-ahead log is cut short") from error
        if isinstance(error, apsw.IOError) and extended != apsw.SQLITE_IOERR_SHMSIZE:
            raise PushLogError(f"{path}: {error}") from error
        raise PushLogFullError(f"no space left on the disk of {path.parent}: {error}") from error
    except apsw.CantOpenError as error:
        kind = SegmentGoneError if not path.exists() else PushLogError
        raise kind(f"{path} cannot be opened: {error}") from error
    except OSError as error:
        kind = PushLogFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else PushLogError
        raise kind(f"{path}: {error.strerror}") from error
    except apsw.ReadOnlyError as error:
        is_replaced = getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED
        problem = (
            "was replaced while it was open: restart the node, which reads the new one then" if is_replaced else error
        )
        raise PushLogError(f"{path}: {problem}") from error
    except apsw.Error as error:
        raise PushLogError(f"{path}: {error}") from error


class SegmentReader:
    """A read-only connection to one segment, also to the head while it is being written. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _refuse_empty(path)
        with translated(path):
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            self._connection.set_busy_timeout(_BUSY_MS)
            # Without this, the last connection to close a file checkpoints it, which blocks the writer.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def is_opened(self) -> bool:
        """True once the segment has become the head; False for a prepared one."""
        with self._reading():
            return self._connection.execute("SELECT opened_at FROM segment").get is not None

    def predecessor(self) -> Predecessor | None:
        """The stored predecessor; None for the first segment, a prepared one, and format version 0."""
        with self._reading():
            if self._form() < 1:
                return None
            noted = self._connection.execute(
                "SELECT predecessor, predecessor_rows FROM segment WHERE predecessor IS NOT NULL"
            ).get
        return None if noted is None else Predecessor(*noted)

    def tail(self) -> Tail:
        """The last committed row."""
        with self._reading():
            last = self._connection.execute(_LAST).get
            return EMPTY if last is None else Tail(*map(self._number, cast(tuple[object, ...], last)))

    def end_bytes(self, row: int) -> int:
        """The running total at `row`; 0 for row 0."""
        return self._number_at("end_bytes", row)

    def received_at(self, row: int) -> int:
        """Time of receipt of the record at `row` [us since the epoch]; 0 if there is no such row."""
        return self._number_at("received_at", row)

    def rows(self, after: int, last: int) -> Generator[StoredRow]:
        """Yields the rows after `after` up to `last`, in order; of one that cannot be read its number alone.

        Close the generator: an open one holds a snapshot.
        """
        end = 1 + len(_CONTEXT)
        with self._reading():
            query = select_rows(FORMS[self._form()])
            while after < last:
                cursor = self._connection.execute(query, (after, last))
                try:
                    for values in cast(Iterator[tuple[Any, ...]], cursor):
                        after = values[0]
                        is_readable = isinstance(values[-2], int)
                        yield StoredRow(after, values[1:end], *values[end:-1]) if is_readable else _unreadable(after)
                    return
                except UnicodeDecodeError:  # a text's bytes were changed: SQLite has no checksums
                    after += 1  # rows have no gaps
                    yield _unreadable(after)
                finally:
                    cursor.close()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _number_at(self, column: str, row: int) -> int:
        with self._reading():
            rows = self._connection.execute(f"SELECT {column} FROM pushes WHERE row = ?", (row,))  # noqa: S608  our own
            return self._number(rows.get or 0)

    def _number(self, value: object) -> int:
        if not isinstance(value, int):
            raise SegmentCorruptError(f"{self.path} is damaged: a number of it is a {type(value).__name__}")
        return value

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Converts errors as `translated` does. A database without the tables is damaged, since segments are complete
        when they get their name.

        Raises:
            SegmentCorruptError, NewerFormError: instead of SQLite's error about the query.
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


def _refuse_empty(path: Path) -> None:
    """Refuses an empty file: SQLite treats it as an empty database, and deletes its write-ahead log with all rows.

    Raises:
        SegmentCorruptError: the file is empty.
    """
    try:
        is_empty = path.stat().st_size == 0
    except OSError:
        return  # SQLite reports the error
    if is_empty:
        raise SegmentCorruptError(f"{path} is damaged: it is empty")


def select_rows(columns: Collection[str]) -> str:
    """Returns the query for the rows of a segment with these columns, in the current order; missing ones are NULL.

    >>> select_rows([name for name in FORMS[0] if name != "listener"])[:75]
    'SELECT row, push_id, received_at, receiver_node_id, cluster_id, NULL, clien'
    """
    wanted = ", ".join(name if name in columns else "NULL" for name in _COLUMNS)
    return f"SELECT {wanted} FROM pushes WHERE row > ? AND row <= ? ORDER BY row"  # noqa: S608  names of our own
