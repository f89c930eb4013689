"""The saved state of an exporter that counts: a SQLite database, which after a crash has that of the last whole batch.

A batch's changes and the ids of its pushes are one transaction. So a push that is delivered again, because the log's
cursor had not moved before a crash, is recognised by its id, for any log and any division into batches. The ids of some
tens of thousands of pushes are kept; older pushes are compared with their client's latest push (`is_repeat`).

A damaged file is renamed as soon as the damage is found. At a start the counters restart; later, all state is in memory
and is written to a new file.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple, cast

import apsw

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.library_log import get_logger
from fleetgauge.telemetry.push_record import PUSH_ID_LENGTH, PushRecord

log = get_logger(__name__)

VERSION: Final = 2
_writer_of: Final = itemgetter(slice(8, 12))
"""The writer part of an encoded push id, see `PushIds`. Each start of a receiving process is another writer."""
_ANY_WRITER: Final = b""
_ID_BYTES: Final = PUSH_ID_LENGTH // 2
_ROWS_A_STATEMENT: Final = 200
_CREATE: Final = """
CREATE TABLE IF NOT EXISTS layouts (client TEXT PRIMARY KEY, layout TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (client TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS taken (batch INTEGER PRIMARY KEY, newest_received_at INTEGER NOT NULL, ids BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS forgotten (writer BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
"""
_FROM_FORM_1: Final = """
INSERT INTO forgotten SELECT x'', newest_received_at FROM taken
WHERE batch > 1 AND batch = (SELECT min(batch) FROM taken);
"""
"""Form 1 had no separate writers, and the limit of forgotten pushes followed from the oldest batch that was left."""


class StateError(FleetgaugeError):
    """The state cannot be saved; the text has the reason and the remedy."""


class SavedClient(NamedTuple):
    """One row; `layout` is None if the saved one is still valid."""

    key: str
    layout: str | None
    state: bytes


class TakenPushes:
    """The pushes that were applied, as far as their ids are kept.

    The position in one log tells nothing about another log, which may be hours behind: that of another listener process
    of the node. So the limit of forgotten pushes is kept for each writer of push ids, and each writer writes to one log
    (in a topic, the pushes of a client to one partition).

    Attributes:
        forgotten: by writer, the latest time of receipt of pushes whose ids may be forgotten [us since the epoch]. The
            value under `_ANY_WRITER` holds for all writers: beyond a number of writers the oldest are merged there.
        newly_forgotten: the part of it that is not saved yet.
        batches: the kept batches, the oldest first: the latest time of receipt of each, and its ids.
    """

    kept_ids: int = 50_000
    """Ids that are kept, of the batches that are not forgotten."""

    kept_writers: int = 1_024
    """Writers with a limit of their own."""

    def __init__(self) -> None:
        self.forgotten = {_ANY_WRITER: 0}
        self.newly_forgotten: dict[bytes, int] = {}
        self.batches: deque[tuple[int, frozenset[bytes]]] = deque()
        self._ids: set[bytes] = set()

    def add(self, newest_received_at: int, ids: Iterable[bytes]) -> None:
        """Adds the pushes of a batch, and forgets those of the oldest batches."""
        batch = frozenset(ids)
        self.batches.append((newest_received_at, batch))
        self._ids |= batch
        while len(self._ids) > self.kept_ids and len(self.batches) > 1:
            until, removed = self.batches.popleft()
            self._ids -= removed
            self.forget(dict.fromkeys(map(_writer_of, removed), until))

    def forget(self, until: Mapping[bytes, int]) -> None:
        """Raises the limits of forgotten pushes, by writer."""
        later = {writer: us for writer, us in until.items() if us > self.forgotten.get(writer, 0)}
        self.forgotten |= later
        if len(self.forgotten) > self.kept_writers:
            of_all = sorted(self.forgotten.values())[-self.kept_writers]
            later[_ANY_WRITER] = of_all
            self.forgotten = {writer: us for writer, us in self.forgotten.items() if us > of_all}
            self.forgotten[_ANY_WRITER] = of_all
        self.newly_forgotten |= later

    def has(self, record: PushRecord) -> bool:
        """True for a push whose id is kept."""
        return encoded_id(record) in self._ids

    def is_repeat(self, record: PushRecord, latest: tuple[int, int], time_unix_nano: int) -> bool:
        """True for a push that was applied before, or that is too old to know.

        Args:
            record: the push.
            latest: time of receipt of its client's latest push [us], and the latest time of its points [ns].
            time_unix_nano: the latest time of the points of this push.

        A push whose id may be forgotten is a repeat if it is older than the latest one of its client by both clocks,
        the node's and the client's: one clock alone may have been set back.
        """
        push_id = encoded_id(record)
        if push_id in self._ids:
            return True
        received_at, latest_time = latest
        if record.received_at > received_at or time_unix_nano > latest_time:
            return False
        until = max(self.forgotten.get(_writer_of(push_id), 0), self.forgotten[_ANY_WRITER])
        return record.received_at <= until


class StateFile:
    """The database; with `path` None nothing is saved. For one thread at a time.

    Attributes:
        taken: the pushes that were applied.
        needs_full_save: the file was damaged and renamed, so the next `save` must be given every client.
    """

    busy_ms: int = 2_000
    """Time to wait for another process's lock [ms]."""

    def __init__(self, path: Path | None, owner: str = "prometheus") -> None:
        """Opens the database. A damaged one is renamed, because counters that restart are better than none.

        Args:
            path: the file.
            owner: the exporter's type, for the log.

        Raises:
            StateError: it cannot be opened, or a newer version wrote it.
        """
        self._path = path
        self._owner = owner
        self.taken = TakenPushes()
        self.needs_full_save = False
        self._connection: apsw.Connection | None = None
        if path is None:
            return
        try:
            self._connection = _open(path, self.busy_ms)
        except _DamagedError as error:
            self._connection = self._another(path, error)

    def load(self) -> list[SavedClient]:
        """All saved clients; also fills `taken`. A damaged file is renamed, and has none.

        Raises:
            StateError: it cannot be read.
        """
        if self._connection is None or self._path is None:
            return []
        try:
            with _translated(self._path):
                return self._load(self._connection)
        except _DamagedError as error:
            self.taken = TakenPushes()
            self._connection = self._another(self._path, error)
            return []

    def save(self, clients: Sequence[SavedClient], removed: Sequence[str], records: Sequence[PushRecord]) -> None:
        """Saves a batch's changes and its applied pushes, all or nothing.

        Raises:
            StateError: none of it is saved.
        """
        newest = max((record.received_at for record in records), default=0)
        ids = [encoded_id(record) for record in records]
        if self._path is not None:
            try:
                self._write(self._path, clients, removed, newest, ids)
            except _DamagedError as error:
                self.needs_full_save = True
                self._connection = self._another(self._path, error)
                raise
            self.needs_full_save = False
        self.taken.newly_forgotten.clear()
        if ids:
            self.taken.add(newest, ids)

    def close(self) -> None:
        """Closes the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _another(self, path: Path, error: StateError) -> apsw.Connection:
        """Renames the damaged file and opens a new one."""
        with suppress(apsw.Error):
            self.close()
        self._connection = None
        with _translated(path):
            path.rename(path.with_name(path.name + ".corrupt"))
            for side in ("-wal", "-shm"):
                path.with_name(path.name + side).unlink(missing_ok=True)
        consequence = "all clients are saved again" if self.needs_full_save else "the counters restart"
        log.error(f"{self._owner}.state_damaged", consequence=consequence, reason=str(error))
        return _open(path, self.busy_ms)

    def _load(self, connection: apsw.Connection) -> list[SavedClient]:
        forgotten = connection.execute("SELECT writer, until FROM forgotten").fetchall()
        taken = connection.execute("SELECT newest_received_at, ids FROM taken ORDER BY batch").fetchall()
        sensible = all(_is_row(row, int, bytes) for row in taken) and all(_is_row(row, bytes, int) for row in forgotten)
        if not sensible or any(len(cast(bytes, ids)) % _ID_BYTES for _, ids in taken):
            raise _DamagedError(f"{self._path} is damaged: its push ids are invalid")
        self.taken.forget(dict(cast(list[tuple[bytes, int]], forgotten)))
        for newest, ids in cast(list[tuple[int, bytes]], taken):
            self.taken.add(newest, (ids[at : at + _ID_BYTES] for at in range(0, len(ids), _ID_BYTES)))
        # As bytes, so that an invalid text costs only its client its counters.
        rows = connection.execute(
            "SELECT CAST(client AS BLOB), CAST(layout AS BLOB), CAST(state AS BLOB)"
            " FROM states JOIN layouts USING (client)"
        )
        return [SavedClient(_text(client), _text(layout), cast(bytes, state or b"")) for client, layout, state in rows]

    def _write(
        self, path: Path, clients: Sequence[SavedClient], removed: Sequence[str], newest: int, ids: Sequence[bytes]
    ) -> None:
        if self._connection is None:
            # The previous one was renamed, and a new one could not be opened then.
            self._connection = _open(path, self.busy_ms)
        with _translated(path), self._connection:
            if self.needs_full_save:
                self._remember_again(self._connection)
            self._save(self._connection, clients, removed)
            if ids:
                self._remember(self._connection, newest, b"".join(ids))
            self._note_forgotten(self._connection)

    def _save(self, connection: apsw.Connection, clients: Sequence[SavedClient], removed: Sequence[str]) -> None:
        connection.executemany("DELETE FROM layouts WHERE client = ?", [(key,) for key in removed])
        connection.executemany("DELETE FROM states WHERE client = ?", [(key,) for key in removed])
        layouts = [(each.key, each.layout) for each in clients if each.layout is not None]
        _write_rows(connection, "INSERT OR REPLACE INTO layouts VALUES ", layouts)
        _write_rows(connection, "INSERT OR REPLACE INTO states VALUES ", [(each.key, each.state) for each in clients])

    def _remember(self, connection: apsw.Connection, newest: int, ids: bytes) -> None:
        """Saves a batch's push ids; the file keeps one batch more than `taken`."""
        connection.execute("INSERT INTO taken (newest_received_at, ids) VALUES (?, ?)", (newest, ids))
        connection.execute(
            "DELETE FROM taken WHERE batch <= (SELECT batch FROM taken ORDER BY batch DESC LIMIT 1 OFFSET ?)",
            (len(self.taken.batches) + 1,),
        )

    def _note_forgotten(self, connection: apsw.Connection) -> None:
        rows = self.taken.newly_forgotten
        if rows:
            connection.executemany("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", rows.items())
        if _ANY_WRITER in rows:
            connection.execute(
                "DELETE FROM forgotten WHERE writer <> ? AND until <= ?", (_ANY_WRITER, rows[_ANY_WRITER])
            )

    def _remember_again(self, connection: apsw.Connection) -> None:
        """Saves all kept push ids in a new file, which may have rows of a failed attempt."""
        connection.execute("DELETE FROM taken; DELETE FROM forgotten")
        rows = [(newest, b"".join(ids)) for newest, ids in self.taken.batches]
        connection.executemany("INSERT INTO taken (newest_received_at, ids) VALUES (?, ?)", rows)
        self.taken.newly_forgotten |= self.taken.forgotten


def _write_rows(connection: apsw.Connection, statement: str, rows: Sequence[tuple[str, str | bytes]]) -> None:
    """Writes rows of two columns, many per statement: between statements a thread that renders the page may hold the
    interpreter for milliseconds.
    """
    for at in range(0, len(rows), _ROWS_A_STATEMENT):
        part = rows[at : at + _ROWS_A_STATEMENT]
        connection.execute(statement + ",".join(["(?, ?)"] * len(part)), [*chain.from_iterable(part)])


class _DamagedError(StateError):
    """The file is not a database, or is damaged."""


@contextmanager
def _translated(path: Path | None) -> Iterator[None]:
    """Translates SQLite's errors to `StateError`."""
    try:
        yield
    except apsw.FullError as error:
        raise StateError(f"no space left on the disk of {path}: {error}") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise _DamagedError(f"{path} is damaged: {error}") from error
    except apsw.BusyError as error:
        raise StateError(f"{path} is in use by another exporter; give each its own state.file") from error
    except (apsw.Error, OSError) as error:
        raise StateError(
            f"{path} cannot be used: {error}; if that lasts, move it away to restart its counters"
        ) from error


def _open(path: Path, busy_ms: int) -> apsw.Connection:
    with _translated(path), ExitStack() as failed:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = apsw.Connection(str(path))
        failed.callback(connection.close)
        connection.set_busy_timeout(busy_ms)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # only one exporter may use it
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # on the disk before the log's cursor passes the batch
        version = connection.execute("PRAGMA user_version").get
        if version > VERSION:
            raise StateError(
                f"{path} was written by a newer Fleetgauge (version {version}); move it away to restart its counters"
            )
        with connection:
            connection.execute(_CREATE)
            if version == 1:
                connection.execute(_FROM_FORM_1)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("SELECT count(*) FROM states").fetchall()
        failed.pop_all()
        return connection


def _is_row(row: Sequence[object], *types: type) -> bool:
    return all(type(value) is wanted for value, wanted in zip(row, types, strict=True))


def _text(value: object) -> str:
    """The value if it is a text, as in an undamaged file; otherwise an empty text."""
    try:
        return value.decode() if isinstance(value, bytes) else ""
    except UnicodeDecodeError:
        return ""


def encoded_id(record: PushRecord) -> bytes:
    """A push id in half the bytes."""
    return bytes.fromhex(record.push_id)
