"""Listener processes that have outlived their parent: they end by themselves, and whoever follows waits for that."""

import asyncio
from typing import Final

from base.clock import Time
from fleetgauge.data_dir import DataDirectory
from fleetgauge.errors import ConfigError

FINISH_MS: Final = 5_000
"""How long a worker without a parent takes at most to answer what it has read [ms]."""
_WITHIN_MS: Final = 30_000
_LOOK_EVERY_S: Final = 0.05


async def wait_for_workers(data: DataDirectory, time: Time) -> None:
    """Waits for the end of workers whose parent was killed: they hold the ports, and write logs, for a moment more.

    Costs nothing where there never was one. Called while the data directory's own lock is held, so that no other parent
    can start any.

    Raises:
        ConfigError: one has not ended within 30 s; the text names its process.
    """
    deadline_ms = time.hi_res_clock_ms() + _WITHIN_MS
    for number in data.worker_numbers():
        while True:
            try:
                data.worker(number).lock(".lock").close()
                break
            except ConfigError:
                if time.hi_res_clock_ms() > deadline_ms:
                    raise
                await asyncio.sleep(_LOOK_EVERY_S)
