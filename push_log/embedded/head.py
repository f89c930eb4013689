"""The segment that is written: made beforehand, opened when its turn comes, closed without a checkpoint.

With automatic checkpoints the commits of 20 rows have a p99 of 2.2 ms, without 0.19 ms
(docs/decisions/001-commit-on-the-loop.md); and the last connection to close a file checkpoints it, on the listener's
loop. So there is neither: the write-ahead log holds the whole segment until the exporter process checkpoints it,
sealed.

`flush=os` runs with synchronous OFF: the writer never checkpoints, and what SQLite would sync apart from checkpoints
is the header of the write-ahead log alone, which costs a loop iteration for nothing. A torn tail is found by the
frames' checksums. `flush=fsync` runs with FULL, one sync a commit.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import apsw

from push_log.embedded.segment import CREATE, INSERT, OPEN, UNFINISHED, Predecessor, translated
from push_log.log import PushLogFullError

_FRAME_BYTES: Final = 4096 + 24
_BUSY_MS: Final = 20  # nobody else writes; a stranger's lock is not worth holding the loop for
_SYNCHRONOUS: Final = {"os": "OFF", "fsync": "FULL"}


class HeadSegment:
    """The one connection that writes a segment."""

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
        """What the segment takes on the disk so far [B]."""
        return self._frames * _FRAME_BYTES

    def open(self, opened_at_us: int, predecessor: Predecessor | None) -> None:
        """Makes the segment the head, and with that seals all before it, of which it notes the newest."""
        self._write(OPEN, [(opened_at_us, *(predecessor or (None, None)))])

    def write(self, rows: Sequence[tuple[object, ...]], end_bytes: int) -> None:
        """Adds rows that continue the numbers, in one transaction.

        Raises:
            PushLogError: none of them was added.
        """
        self._write(INSERT, rows)
        self.rows += len(rows)
        self.end_bytes = end_bytes

    def close(self) -> None:
        """Ends writing, without a checkpoint."""
        with suppress(apsw.Error):
            self._connection.close()

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with translated(self.path):
            if len(rows) == 1:  # a transaction of its own, in a third of the statements
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
    """Stands for the head while there was no room to make one. Refuses every record."""

    number = 0
    rows = 0
    end_bytes = 0
    wal_bytes = 0

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, _rows: Sequence[tuple[object, ...]], _end_bytes: int) -> None:
        """Refuses.

        Raises:
            PushLogFullError: always.
        """
        raise PushLogFullError(f"no room left on the disk of {self.path} for a first segment: make room")

    def close(self) -> None:
        """Does nothing."""


def _create(path: Path, flush: Literal["os", "fsync"]) -> apsw.Connection:
    """Makes the file under another name first: a segment that can be seen is whole, also after a loss of power.

    So it is synced once, whatever `flush` is: a name without its bytes would be a damaged segment.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    made = apsw.Connection(str(unfinished))
    try:
        made.execute("PRAGMA synchronous = OFF")
        made.execute(f"BEGIN; {CREATE} COMMIT")
        made.execute("PRAGMA journal_mode = WAL")
    finally:
        made.close()
    _sync(unfinished, os.O_RDONLY)  # SQLite has let go of it, and nobody else knows the name: no lock is dropped
    unfinished.rename(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[flush]}")
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.execute("BEGIN IMMEDIATE; COMMIT")  # makes the write-ahead log and its index now, not on the loop
        with suppress(*(OSError,) if flush == "os" else ()):  # some network file systems cannot
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
