"""Refusing pushes while there is still a little room on the disk, so that everything else can go on."""

import os
from pathlib import Path
from typing import Final

from exporters.push_log.log import PushLogFullError
from exporters.push_log.settings import MIB
from quotas.clock import Time

_INTERVAL_MS: Final = 1_000


class FreeSpace:
    """Looks at the disk's free space at most once a second."""

    def __init__(self, path: Path, min_free_bytes: int, time: Time) -> None:
        self._path = path
        self._min_free_bytes = min_free_bytes
        self._time = time
        self._looked_at_ms: int | None = None
        self._free_bytes = 0

    def check(self) -> None:
        """Does nothing while there is room.

        Raises:
            PushLogFullError: less than `push.log.min.free.bytes` is free.
        """
        if self._min_free_bytes == 0:
            return
        now_ms = self._time.hi_res_clock_ms()
        if self._looked_at_ms is None or now_ms - self._looked_at_ms >= _INTERVAL_MS:
            self._looked_at_ms = now_ms
            self._free_bytes = free_bytes(self._path)
        if self._free_bytes < self._min_free_bytes:
            raise PushLogFullError(
                f"{self._path} has {self._free_bytes / MIB:.1f} MiB free, less than push.log.min.free.bytes "
                f"({self._min_free_bytes / MIB:.1f} MiB): make room on its disk, or lower push.log.retention.bytes"
            )


def free_bytes(path: Path) -> int:
    """What an unprivileged process may still write on the disk of `path` [B]."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
