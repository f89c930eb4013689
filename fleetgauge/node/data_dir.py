"""The data directory (`log.dirs`): its paths, its locks, and the identity in `meta.properties`, as in Kafka's."""

import fcntl
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fleetgauge.base.errors import ConfigError, DataDirectoryError
from fleetgauge.node.private_files import restrict_to_owner
from fleetgauge.telemetry.push_record import format_instance_id

MAX_EXPORTS = 64
"""Processes of `fleetgauge export` that may share a data directory."""
_WORKERS = "workers"
_WORKER_NUMBER = re.compile(r"[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Paths below one data directory."""

    root: Path

    @property
    def identifier(self) -> str:
        """Eight characters that distinguish this directory from others of the same host."""
        return uuid.uuid5(uuid.NAMESPACE_URL, str(self.root.absolute())).hex[:8]

    @property
    def push_log(self) -> Path:
        """Segments and cursors of the push log."""
        return self.root / "push-log"

    @property
    def dead_letters(self) -> Path:
        """The store of pushes that destinations rejected."""
        return self.root / "dead-letters.db"

    @property
    def state(self) -> Path:
        """Changes made by admin tools; see `node.state.store`. The workers of a node share the file."""
        return self.root / "state.db"

    @property
    def state_copy(self) -> Path:
        """Copy of the topic's content on a node with `state.store=kafka`; see `node.state.topic`."""
        return self.root / "state-topic.db"

    @property
    def audit_log(self) -> Path:
        """The audit log, unless `audit.log.file` names another file; see `node.audit`."""
        return self.root / "audit.log"

    @property
    def node_of_worker(self) -> "DataDirectory":
        """The directory of the node whose worker's directory this is."""
        return DataDirectory(self.root.parent.parent)

    def worker(self, number: int) -> "DataDirectory":
        """The directory of listener process `number` of several, with the layout of a node's."""
        return DataDirectory(self.root / _WORKERS / str(number))

    def worker_numbers(self) -> list[int]:
        """Numbers of all workers that have ever run here, whether they are configured now or not."""
        folder = self.root / _WORKERS
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(name) for name in names if _WORKER_NUMBER.fullmatch(name))

    def push_logs(self, writers: Iterable[int]) -> dict[str, Path]:
        """The push logs of these workers by name; 0 stands for a node without workers."""
        return {
            f"worker-{number}" if number else "node": self.worker(number).push_log if number else self.push_log
            for number in writers
        }

    @property
    def landing(self) -> Path:
        """The landing zone, unless `[exporters.<name>]` names another."""
        return self.root / "landing"

    @property
    def meta_properties(self) -> Path:
        """Kafka's file of identity."""
        return self.root / "meta.properties"

    @property
    def node_socket(self) -> Path:
        """The control socket of a node; see `node.status.node_socket`."""
        return self._socket("node.sock")

    def export_socket(self, number: int) -> Path:
        """The control socket of a `fleetgauge export`; several may share the directory, each with its own number."""
        return self._socket(f"export-{number}.sock")

    def export_clients_socket(self, number: int) -> Path:
        """The control socket of the exporter process of a `fleetgauge export`, which lists the topic's clients."""
        return self._socket(f"export-{number}-clients.sock")

    def console_memory(self, socket: Path) -> Path:
        """Memory of the console's judge, for the process with this control socket."""
        return self.root / f"console-{socket.stem}.zip"

    def claim_export_number(self) -> tuple[int, IO[str]]:
        """The lowest number that no running `fleetgauge export` uses here, and the lock that reserves it.

        Raises:
            ConfigError: there are too many.
            DataDirectoryError: the lock's file cannot be written.
        """
        for number in range(MAX_EXPORTS):
            try:
                return number, self.lock(f"export-{number}.lock")
            except ConfigError:
                continue
        raise ConfigError("log.dirs", f"{MAX_EXPORTS} processes already export from the data directory {self.root}")

    def _socket(self, name: str) -> Path:
        """Path of a socket; see `node.status.unix_address` for long ones."""
        return self.root.absolute() / name

    def create(self) -> None:
        """Creates the directory with mode 0700; in an existing one, restricts the files of Fleetgauge to their owner.

        Raises:
            ConfigError: it cannot be created or written to.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or error
            raise ConfigError("log.dirs", f"cannot create the data directory {str(self.root)!r}: {reason}") from error
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise ConfigError("log.dirs", f"the data directory {self.root} is not writable for this user")
        restrict_to_owner(self.root)

    def lock(self, name: str) -> IO[str]:
        """Takes a lock that lasts until the returned file is closed, or the process ends.

        Raises:
            ConfigError: another process holds it.
            DataDirectoryError: the lock's file cannot be written.
        """
        with _sentence(self.root / name):
            file = (self.root / name).open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise ConfigError(
                "log.dirs",
                f"process {holder} already uses the data directory {self.root}; stop it, or give this node one of its "
                "own, for example --override log.dirs=./other",
            ) from error
        with _sentence(self.root / name):
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        return file

    def identity(self, *, node_id: int, cluster_id: str) -> str:
        """The cluster id of this directory, generated at the first start.

        Args:
            node_id: `node.id` as configured; must be the one that the directory was first used with.
            cluster_id: `cluster.id` as configured; empty for the directory's own, or a new one.

        Raises:
            ConfigError: the directory belongs to another node or cluster.
            DataDirectoryError: `meta.properties` cannot be read or written.
        """
        with _sentence(self.meta_properties):
            kept = self._read_meta()
            if not kept:
                chosen = cluster_id or _new_cluster_id()
                self._write_meta({"version": "1", "cluster.id": chosen, "node.id": str(node_id)})
                return chosen
        if kept.get("node.id") != str(node_id):
            self._refuse("node.id", str(node_id), kept.get("node.id", ""))
        if cluster_id and kept.get("cluster.id") != cluster_id:
            self._refuse("cluster.id", cluster_id, kept.get("cluster.id", ""))
        return kept.get("cluster.id", "")

    def _refuse(self, key: str, configured: str, kept: str) -> None:
        raise ConfigError(
            key,
            f"is {configured}, but the data directory {self.root} belongs to {key}={kept} "
            f"(see {self.meta_properties}); give each node its own log.dirs",
        )

    def _read_meta(self) -> dict[str, str]:
        if not self.meta_properties.exists():
            return {}
        lines = self.meta_properties.read_text(encoding="utf-8").splitlines()
        pairs = (line.partition("=") for line in lines if line.strip() and not line.startswith("#"))
        return {key.strip(): value.strip() for key, _, value in pairs}

    def _write_meta(self, properties: dict[str, str]) -> None:
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        partial = self.meta_properties.with_suffix(".tmp")
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # after a power loss an empty file would get a new identity
        partial.replace(self.meta_properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """One of the logs in a data directory.

    Attributes:
        name: `node`, where a node without workers writes it, or `worker-<number>`.
        dir: where it lies.
        is_abandoned: nobody writes it any more, since `workers` was changed.
    """

    name: str
    dir: Path
    is_abandoned: bool


@contextmanager
def _sentence(path: Path) -> Iterator[None]:
    """Turns an error of the operating system into one sentence that names the file."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataDirectoryError(f"cannot use {path}: {reason}; log.dirs names the data directory") from error


def _new_cluster_id() -> str:
    """A random cluster id in Kafka's form, without a leading dash, which tools would take for an option."""
    while True:
        text = format_instance_id(uuid.uuid4())
        if not text.startswith("-"):
            return text
