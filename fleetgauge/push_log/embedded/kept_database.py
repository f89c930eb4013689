"""Small databases beside the segments that are updated in place: cursors, ages, dead letters.

They must accept a write on a full disk, or nothing could ever free space again. So they use a persistent rollback
journal: file and journal are overwritten in place, where a write-ahead log would have to grow.

`PRAGMA user_version` is the schema version: 0 is the first one, and each later one adds a migration statement. A
database of an older version is migrated when it is opened; one of a newer version is refused.
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.segment import NewerFormError, SegmentCorruptError, translated
from fleetgauge.push_log.log import PushLogError, PushLogFullError

log = get_logger(__name__)

_BUSY_MS: Final = 5_000


def open_kept(path: Path, create: str, migrations: Sequence[str], *, check: str, consequence: str) -> apsw.Connection:
    """Opens the database; creates a missing or empty one, and sets a damaged one aside.

    Args:
        path: its file.
        create: statements that create the newest schema.
        migrations: the statements from version 0 to 1, from 1 to 2, and so on.
        check: a query that fails on a damaged database.
        consequence: what setting it aside means, for the log.

    Raises:
        PushLogError: it cannot be opened now, or has a newer schema.
    """
    with _one_at_a_time(path):
        if path.exists() and path.stat().st_size == 0:  # cut off, or the process that created it was killed
            log.error("push_log.database_empty", file=str(path), consequence=consequence)
        try:
            return _open(path, create, migrations, check)
        except SegmentCorruptError as error:
            set_aside(path)
            log.error("push_log.database_set_aside", file=str(path), error=str(error), consequence=consequence)
            return _open(path, create, migrations, check)


def read_kept(path: Path, migrations: Sequence[str], query: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a query on the newest form of the database, and leaves its file as it is, whoever uses it.

    Args:
        path: its file, which exists.
        migrations: as of `open_kept`.
        query: on the newest form.

    Raises:
        PushLogError: it cannot be read now, is damaged, or has a newer schema.
    """
    with translated(path), closing(apsw.Connection(":memory:")) as copy:
        # Not read-only: what a process that was killed left in the journal has to be rolled back first.
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as kept:
            kept.set_busy_timeout(_BUSY_MS)
            with copy.backup("main", kept, "main") as backup:
                while not backup.done:
                    backup.step()
        if copy.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None:
            return []  # it was just created
        _migrate(copy, path, migrations)
        return copy.execute(query).fetchall()


def set_aside(path: Path) -> None:
    """Renames a damaged database and its journal, so that a new one can be created and this one be inspected."""
    for side in ("", "-journal"):
        file = path.with_name(path.name + side)
        if file.exists():
            file.rename(file.with_name(file.name + ".corrupt"))


@contextmanager
def transaction(connection: apsw.Connection, path: Path) -> Iterator[None]:
    """A transaction that takes the write lock at its start.

    Raises:
        PushLogError: SQLite refused; nothing was changed.
    """
    with translated(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _open(path: Path, create: str, migrations: Sequence[str], check: str) -> apsw.Connection:
    with translated(path):
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(_BUSY_MS)
            connection.execute("PRAGMA journal_mode = PERSIST")
            connection.execute("PRAGMA synchronous = NORMAL")
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None:
                connection.execute(f"BEGIN IMMEDIATE; {create}; PRAGMA user_version = {len(migrations)}; COMMIT")
            _migrate(connection, path, migrations)
            connection.execute(check).fetchall()
        except BaseException:
            connection.close()
            raise
        return connection


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[str]) -> None:
    form = int(connection.execute("PRAGMA user_version").get or 0)
    if form > len(migrations):
        raise NewerFormError(path, form)
    if form < len(migrations):
        steps = "; ".join(migrations[form:])
        connection.execute(f"BEGIN IMMEDIATE; {steps}; PRAGMA user_version = {len(migrations)}; COMMIT")


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Locks out other threads and processes, so that none opens a database while another sets it aside."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        kind = PushLogFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else PushLogError
        raise kind(f"{path.name} cannot be kept in {path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
