"""The node's state beside its configuration file: what admin tools changed, in one SQLite file of the data directory.

All workers of a node share the file. A change is one transaction that reads, checks and writes, so that two workers
never overwrite each other's changes, and it is on the disk (fsync) when `change` returns.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from push_log.embedded.kept_database import open_kept, transaction
from push_log.embedded.segment import translated
from telemetry.subscriptions.overrides import ToolChanges

_CREATE: Final = """
CREATE TABLE client_metrics (
    name TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name, key)
) WITHOUT ROWID;
CREATE TABLE replaces_default (is_true INTEGER PRIMARY KEY)
"""
_CONSEQUENCE: Final = (
    "subscriptions that kafka-client-metrics.sh or kafka-configs.sh set are lost: those of the configuration file apply"
)


class StateStore:
    """The file, opened and created on first use. Not for two threads at a time; any number of processes may share it.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: apsw.Connection | None = None
        self._read_version: int | None = None

    def read(self) -> ToolChanges:
        """Returns the state.

        Raises:
            PushLogError: it cannot be read now.
        """
        connection = self._connection()
        with translated(self._path):
            self._read_version = self._version()
            return _read(connection)

    def read_if_changed(self) -> ToolChanges | None:
        """Returns the state if another process may have changed it since the last `read`, else None.

        Raises:
            PushLogError: as `read`.
        """
        self._connection()
        with translated(self._path):
            is_same = self._version() == self._read_version
        return None if is_same else self.read()

    def change(self, alter: Callable[[ToolChanges], ToolChanges]) -> ToolChanges:
        """Replaces the state by what `alter` makes of it; on return it is durable.

        Returns:
            The new state.

        Raises:
            PushLogError: it cannot be written; nothing is changed.
            Exception: what `alter` raises; nothing is changed.
        """
        connection = self._connection()
        self._read_version = None  # if the caller is gone by the end, the next `read_if_changed` returns the new state
        with transaction(connection, self._path):
            old = _read(connection)
            new = alter(old)
            if new != old:
                _write(connection, old, new)
        return new

    def _version(self) -> int:
        """A number that differs after a commit of another connection."""
        return int(self._connection().execute("PRAGMA data_version").get)

    def _connection(self) -> apsw.Connection:
        if self._opened is None:
            check = "SELECT name, key, value FROM client_metrics"
            self._opened = open_kept(self._path, _CREATE, (), check=check, consequence=_CONSEQUENCE)
            # Acknowledged changes survive a power loss too.
            self._opened.execute("PRAGMA synchronous = EXTRA")
        return self._opened


def _read(connection: apsw.Connection) -> ToolChanges:
    values: dict[str, dict[str, str]] = {}
    for name, key, value in connection.execute("SELECT name, key, value FROM client_metrics"):
        values.setdefault(str(name), {})[str(key)] = str(value)
    replaces_default = connection.execute("SELECT count(*) FROM replaces_default").get > 0
    return ToolChanges(values=values, replaces_default=replaces_default)


def _write(connection: apsw.Connection, old: ToolChanges, new: ToolChanges) -> None:
    for name in old.values.keys() | new.values.keys():
        if old.values.get(name) == new.values.get(name):
            continue
        connection.execute("DELETE FROM client_metrics WHERE name = ?", (name,))
        rows = [(name, key, value) for key, value in new.values.get(name, {}).items()]
        connection.executemany("INSERT INTO client_metrics VALUES (?, ?, ?)", rows)
    if new.replaces_default:
        connection.execute("INSERT OR IGNORE INTO replaces_default VALUES (1)")
