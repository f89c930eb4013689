"""Refuses pushes before the disk is full, so that everything else keeps working."""

import errno
import os
from pathlib import Path
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.push_log.embedded.settings import MIB
from fleetgauge.push_log.log import PushLogError, PushLogFullError

_INTERVAL_MS: Final = 1_000


class PushLogDirectoryError(PushLogError):
    """The log's directory was removed or replaced under the running node, or its disk does not answer."""


class FreeSpace:
    """Checks the disk's free space at most once a second."""

    def __init__(self, path: Path, min_free_bytes: int, time: Time) -> None:
        self._path = path
        self._min_free_bytes = min_free_bytes
        self._time = time
        self._checked_at_ms: int | None = None
        self._free_bytes = 0
        self._identity: tuple[int, int] | None = None
        self._was_removed = False
        self._is_the_same()

    def check(self) -> None:
        """Raises if pushes cannot be stored safely.

        Raises:
            PushLogFullError: less than `push.log.min.free.bytes` is free.
            PushLogDirectoryError: see there. A deleted file can still be written, but pushes acknowledged then are
                lost.
        """
        now_ms = self._time.hi_res_clock_ms()
        if self._checked_at_ms is None or now_ms - self._checked_at_ms >= _INTERVAL_MS:
            self._free_bytes = self._measure()
            self._checked_at_ms = now_ms
        if self._free_bytes < self._min_free_bytes:
            raise PushLogFullError(
                f"{self._path} has {self._free_bytes / MIB:.1f} MiB free, less than push.log.min.free.bytes "
                f"({self._min_free_bytes / MIB:.1f} MiB): free space on its disk, or lower push.log.retention.bytes"
            )

    def _measure(self) -> int:
        self._checked_at_ms = None  # until a check succeeds, every call checks again
        try:
            if self._was_removed or not self._is_the_same():
                self._was_removed = True
                raise FileNotFoundError(errno.ENOENT, "it was removed or replaced while the node runs")
            return free_bytes(self._path)
        except OSError as error:
            raise PushLogDirectoryError(
                f"the push log's directory {self._path} cannot be used: {error.strerror}; start the node again when it "
                "is in place"
            ) from error

    def _is_the_same(self) -> bool:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return False
        identity = (stat.st_dev, stat.st_ino)
        self._identity = self._identity or identity
        return identity == self._identity


def free_bytes(path: Path) -> int:
    """Free space for unprivileged processes on the disk of `path` [B]."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
