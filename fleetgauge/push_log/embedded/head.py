"""The head segment, which is being written: created in advance, opened on demand, closed without a checkpoint.

With automatic checkpoints, commits of 20 rows have a p99 of 2.2 ms, without them 0.19 ms
(docs/decisions/001-commit-on-the-loop.md); and the last connection to close a file checkpoints it, here on the
listener's loop. Both are disabled: the write-ahead log holds the whole segment until the segment is sealed and the
exporter process checkpoints it.

`flush=os` uses synchronous OFF: the writer never checkpoints, and apart from checkpoints SQLite would sync only the
header of the write-ahead log, which blocks the loop without a benefit. A torn tail is detected by the checksums of the
frames. `flush=fsync` uses FULL, one sync per commit.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import apsw

from fleetgauge.push_log.embedded.segment import CREATE, INSERT, OPEN, UNFINISHED, Predecessor, translated
from fleetgauge.push_log.log import PushLogFullError

_FRAME_BYTES: Final = 4096 + 24
_BUSY_MS: Final = 20  # there is no other writer; blocking the loop longer for a foreign lock would not help
_SYNCHRONOUS: Final = {"os": "OFF", "fsync": "FULL"}


class HeadSegment:
    """Write connection to the head segment."""

    def __init__(self, path: Path, number: int, flush: Literal["os", "fsync"]) -> None:
        self.path = path
        self.number = number
        self.rows = 0
        self.end_bytes = 0
        self._frames = 0
        with translated(path):
            self._connection = _create(path, flush)
        self._cursor = self._connection.cursor()
        self._connection.set_wal_hook(self._committed)

    @property
    def wal_bytes(self) -> int:
        """Current size of the segment on disk [B]."""
        return self._frames * _FRAME_BYTES

    def open(self, opened_at_us: int, predecessor: Predecessor | None) -> None:
        """Makes the segment the head, which seals all earlier ones; stores number and rows of the newest of them."""
        self._write(OPEN, [(opened_at_us, *(predecessor or (None, None)))])

    def write(self, rows: Sequence[tuple[object, ...]], end_bytes: int) -> None:
        """Appends rows with consecutive numbers in one transaction.

        Raises:
            PushLogError: no row was appended.
        """
        self._write(INSERT, rows)
        self.rows += len(rows)
        self.end_bytes = end_bytes

    def close(self) -> None:
        """Closes the connection without a checkpoint."""
        with suppress(apsw.Error):
            self._connection.close()

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with translated(self.path):
            if len(rows) == 1:  # autocommit: a third of the statements
                self._cursor.execute(statement, rows[0])
                return
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
                self._cursor.executemany(statement, rows)
                self._cursor.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._cursor.execute("ROLLBACK")
                raise

    def _committed(self, _connection: apsw.Connection, _database: str, frames: int) -> int:
        self._frames = frames
        return apsw.SQLITE_OK


class NoSegment:
    """Placeholder for the head while the disk is too full to create one. Refuses every record."""

    number = 0
    rows = 0
    end_bytes = 0
    wal_bytes = 0

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, _rows: Sequence[tuple[object, ...]], _end_bytes: int) -> None:
        """Refuses the rows.

        Raises:
            PushLogFullError: always.
        """
        raise PushLogFullError(f"no space left on the disk of {self.path} for a first segment: free some space")

    def close(self) -> None:
        """Does nothing."""


def _create(path: Path, flush: Literal["os", "fsync"]) -> apsw.Connection:
    """Creates the file under a temporary name, so that a segment with its final name is complete after power loss too.

    It is synced once with any `flush`, since a name without its contents would be a damaged segment.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    database = apsw.Connection(str(unfinished))
    try:
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"BEGIN; {CREATE} COMMIT")
        database.execute("PRAGMA journal_mode = WAL")
    finally:
        database.close()
    _sync(unfinished, os.O_RDONLY)  # no connection has the file open, so no lock is released
    unfinished.rename(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[flush]}")
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.execute("BEGIN IMMEDIATE; COMMIT")  # creates the write-ahead log and its index now, not on the loop
        with suppress(*(OSError,) if flush == "os" else ()):  # unsupported by some network file systems
            _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except BaseException:
        connection.close()
        raise
    return connection


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
