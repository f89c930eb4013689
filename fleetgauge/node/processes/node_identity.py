"""Identity of a node that clients connect to: its ids and listeners, and the data directory that it alone may use."""

import asyncio
import os
from dataclasses import replace
from typing import Any, Final

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config import Endpoint, ServiceConfig
from fleetgauge.node.data_dir import DataDirectory

_ORPHANS_WITHIN_MS: Final = 30_000
_LOCK_POLL_S: Final = 0.05


class NodeIdentity:
    """Node id, cluster id and listeners, for the whole node or for one of its workers.

    Args:
        config: the checked configuration.
        time: the clocks.

    Attributes:
        cluster_id: as configured or as the data directory has it; known once the directory is claimed.
        bound: the listeners that are bound, with the ports that they got.
    """

    def __init__(self, config: ServiceConfig, time: Time) -> None:
        self._config = config
        self._time = time
        self._started_at_ms = time.milliseconds()
        self.cluster_id = ""
        self.bound: tuple[Endpoint, ...] = ()

    async def claim(self, data: DataDirectory) -> None:
        """Locks the data directory, waits for workers that have outlived their parent, and reads or makes the ids.

        Raises:
            ConfigError: another process uses the directory, or it belongs to another node or cluster.
            DataDirectoryError: a file of it cannot be used.
        """
        self._lock = data.lock(".lock")
        await self._wait_for_orphans(data)
        self.cluster_id = data.identity(node_id=self._config.node_id, cluster_id=self._config.cluster_id)

    def release(self) -> None:
        """Unlocks the data directory."""
        self._lock.close()

    def add_listener(self, endpoint: Endpoint, port: int) -> None:
        """Adds a listener that is bound to `port`."""
        self.bound = (*self.bound, replace(endpoint, port=port))

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Host and port that clients of a listener are told to connect to.

        Raises:
            LookupError: there is no such listener.
        """
        for endpoint in (*self._config.advertised_listeners, *self.bound):
            if endpoint.listener_name == listener_name:
                return endpoint.host, endpoint.port
        raise LookupError(listener_name)

    def status(self) -> dict[str, Any]:
        """Ids and addresses for the status; plain values."""
        return {
            "pid": os.getpid(),
            "node_id": self._config.node_id,
            "cluster_id": self.cluster_id,
            "started_at_ms": self._started_at_ms,
            "listeners": [f"{each.listener_name}://{each.host}:{each.port}" for each in self.bound],
            "log_dirs": str(self._config.log_dirs.absolute()),
        }

    async def _wait_for_orphans(self, data: DataDirectory) -> None:
        """Waits for the end of workers whose parent was killed: they hold ports and write logs for some seconds more.

        The directory's own lock is held meanwhile, so that no other parent can start any.
        """
        deadline_ms = self._time.hi_res_clock_ms() + _ORPHANS_WITHIN_MS
        for number in data.worker_numbers():
            while True:
                try:
                    data.worker(number).lock(".lock").close()
                    break
                except ConfigError:
                    if self._time.hi_res_clock_ms() > deadline_ms:
                        raise
                    await asyncio.sleep(_LOCK_POLL_S)
