"""Small databases that live beside the segments and are changed in place: the cursors, the dead letters.

They must take a write on a full disk too, or nothing would ever make room again. So their journal is one that persists:
file and journal are written in place, where a write-ahead log would have to grow.

`PRAGMA user_version` is the number of the form: 0 is the first one, and every change of it is one more statement of
migration. A database of an older form is brought up when it is opened, one of a newer form is left alone.
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw
import structlog

from push_log.embedded.segment import NewerFormError, SegmentCorruptError, translated
from push_log.log import PushLogError, PushLogFullError

log = structlog.get_logger(__name__)

_BUSY_MS: Final = 5_000


def open_kept(path: Path, create: str, migrations: Sequence[str], *, check: str, consequence: str) -> apsw.Connection:
    """Opens the database, makes it when it is missing, and sets a damaged one aside.

    Args:
        path: its file.
        create: statements that make its newest form, and change nothing where that is there.
        migrations: the statements from form 0 to 1, from 1 to 2, and so on.
        check: a query that finds out whether what it reads is damaged.
        consequence: for the log, what setting it aside means.

    Raises:
        PushLogError: it cannot be opened now, or is of a newer form.
    """
    with _one_at_a_time(path):
        try:
            return _open(path, create, migrations, check)
        except SegmentCorruptError as error:
            set_aside(path)
            log.error("a damaged database was set aside", file=str(path), reason=str(error), consequence=consequence)
            return _open(path, create, migrations, check)


def set_aside(path: Path) -> None:
    """Renames a damaged database, so that another can be begun and this one be looked at."""
    for side in ("", "-journal"):
        file = path.with_name(path.name + side)
        if file.exists():
            file.rename(file.with_name(file.name + ".corrupt"))


@contextmanager
def transaction(connection: apsw.Connection, path: Path) -> Iterator[None]:
    """All or nothing, with the writer's lock from the start.

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
    """Opening and setting aside must not meet, between threads and between processes."""
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
