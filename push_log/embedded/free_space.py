"""Refusing pushes while there is still a little room on the disk, so that everything else can go on."""

import errno
import os
from pathlib import Path
from typing import Final

from base.clock import Time
from push_log.embedded.settings import MIB
from push_log.log import PushLogError, PushLogFullError

_INTERVAL_MS: Final = 1_000


class PushLogDirectoryError(PushLogError):
    """The log's directory was removed or replaced under the running node, or its disk does not answer."""


class FreeSpace:
    """Looks at the disk's free space at most once a second."""

    def __init__(self, path: Path, min_free_bytes: int, time: Time) -> None:
        self._path = path
        self._min_free_bytes = min_free_bytes
        self._time = time
        self._looked_at_ms: int | None = None
        self._free_bytes = 0
        self._identity: tuple[int, int] | None = None
        self._was_removed = False
        self._is_the_same()

    def check(self) -> None:
        """Does nothing while there is room.

        Raises:
            PushLogFullError: less than `push.log.min.free.bytes` is free.
            PushLogDirectoryError: see there. A file that was removed can still be written, but what is acknowledged
                then is lost.
        """
        now_ms = self._time.hi_res_clock_ms()
        if self._looked_at_ms is None or now_ms - self._looked_at_ms >= _INTERVAL_MS:
            self._free_bytes = self._look()
            self._looked_at_ms = now_ms
        if self._free_bytes < self._min_free_bytes:
            raise PushLogFullError(
                f"{self._path} has {self._free_bytes / MIB:.1f} MiB free, less than push.log.min.free.bytes "
                f"({self._min_free_bytes / MIB:.1f} MiB): make room on its disk, or lower push.log.retention.bytes"
            )

    def _look(self) -> int:
        self._looked_at_ms = None  # until a look succeeds, every call looks again
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
            found = self._path.stat()
        except FileNotFoundError:
            return False
        identity = (found.st_dev, found.st_ino)
        self._identity = self._identity or identity
        return identity == self._identity


def free_bytes(path: Path) -> int:
    """What an unprivileged process may still write on the disk of `path` [B]."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
