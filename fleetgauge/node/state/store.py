"""The node's state beside its configuration file: what admin tools changed, in one SQLite file of the data directory.

The state is records of several kinds: a value by kind, name and key. To add a kind, add it to `RecordKind`, and give
`node.state.node_state.NodeState` a `StateKind` that puts its records in force.

All workers of a node share the file. A change is one transaction that reads, checks and writes, so that two workers
never overwrite each other's changes, and it is on the disk (fsync) when `change` returns.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import apsw

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.push_log.embedded.kept_database import open_kept, read_kept, transaction
from fleetgauge.push_log.embedded.segment import translated


class UncertainChangeError(FleetgaugeError):
    """The store was lost while a change was written: it may or may not be made."""


class RecordKind(enum.StrEnum):
    """The kinds of records, as they are stored."""

    CLIENT_METRICS = "client_metrics"
    """Subscriptions, by name and key of `kafka-configs.sh`; see `node.state.client_metrics`."""
    QUOTAS = "quotas"
    """Limits, by the entity's path in the configuration and key; see `node.state.client_quotas`."""
    SCRAM_CREDENTIALS = "scram_credentials"
    """Salted hashes, by user and mechanism; see `node.state.scram_users`."""
    ACLS = "acls"
    """ACLs, each as a name; see `node.state.authorization`."""


Records = Mapping[str, Mapping[str, str]]
"""Records of one kind: values by name and key. A name without keys is not stored."""

State = Mapping[str, Records]
"""Records by kind. Kinds that this release does not know are kept."""

Difference = tuple[str, str, Mapping[str, str] | None]
"""Kind, name, and its keys and values now; None: the name is removed."""

_CREATE: Final = """
CREATE TABLE records (
    kind TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, name, key)
) WITHOUT ROWID
"""
_MOVE_FIRST_TABLES: Final = """
    INSERT INTO records SELECT 'client_metrics', name, key, value FROM client_metrics;
    INSERT INTO records SELECT 'client_metrics', '', 'replaces_default', 'true' FROM replaces_default LIMIT 1;
    DROP TABLE client_metrics;
    DROP TABLE replaces_default
"""
_MIGRATIONS: Final = (f"{_CREATE}; {_MOVE_FIRST_TABLES}",)
_EVERY_RECORD: Final = "SELECT kind, name, key, value FROM records"
_CONSEQUENCE: Final = "changes by admin tools are lost: only the configuration file applies"


def read_file(path: Path) -> State:
    """The state in a node's file, which stays as it is: for commands beside the node.

    Raises:
        PushLogError: it cannot be read now, is damaged, or of a newer release.
    """
    return state_of(read_kept(path, _MIGRATIONS, _EVERY_RECORD))


class StateStore:
    """The file, opened and created on first use. Not for two threads at a time; any number of processes may share it.

    Args:
        path: the file.

    Attributes:
        problem: None: a file that cannot be read raises.
    """

    problem: str | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: apsw.Connection | None = None
        self._read_version: int | None = None

    def read(self) -> State:
        """Returns the state.

        Raises:
            PushLogError: it cannot be read now.
        """
        connection = self._connection()
        with translated(self._path):
            self._read_version = self._version()
            return _read(connection)

    def read_if_changed(self) -> State | None:
        """Returns the state if another process may have changed it since the last `read`, else None.

        Raises:
            PushLogError: as `read`.
        """
        self._connection()
        with translated(self._path):
            is_same = self._version() == self._read_version
        return None if is_same else self.read()

    def change(self, alter: Callable[[State], State]) -> State:
        """Replaces the state by what `alter` makes of it, in one transaction; on return it is durable.

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
            for kind, name, values in differences(old, new):
                connection.execute("DELETE FROM records WHERE kind = ? AND name = ?", (kind, name))
                rows = [(kind, name, key, value) for key, value in (values or {}).items()]
                connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        return new

    def status(self) -> dict[str, Any]:
        """See `node.state.node_state.Store`."""
        return {}

    def close(self) -> None:
        """Closes the file; it is opened again when it is used again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _version(self) -> int:
        """A number that differs after a commit of another connection."""
        return int(self._connection().execute("PRAGMA data_version").get)

    def _connection(self) -> apsw.Connection:
        if self._opened is None:
            self._opened = open_kept(self._path, _CREATE, _MIGRATIONS, check=_EVERY_RECORD, consequence=_CONSEQUENCE)
            # Acknowledged changes survive a power loss too.
            self._opened.execute("PRAGMA synchronous = EXTRA")
        return self._opened


def _read(connection: apsw.Connection) -> State:
    return state_of(connection.execute(_EVERY_RECORD))


def state_of(rows: Iterable[tuple[Any, ...]]) -> State:
    """The state in rows of kind, name, key and value."""
    state: dict[str, dict[str, dict[str, str]]] = {}
    for kind, name, key, value in rows:
        state.setdefault(str(kind), {}).setdefault(str(name), {})[str(key)] = str(value)
    return state


def differences(old: State, new: State) -> Iterator[Difference]:
    """The names whose values differ."""
    for kind in old.keys() | new.keys():
        before, after = old.get(kind, {}), new.get(kind, {})
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                yield str(kind), name, dict(after[name]) if after.get(name) else None
